"""The poses of ``linalg.soft`` for a batch of clouds, without derivatives.

The tree of poses is grown step by step, as flat lists over the batch. The rows of every pose are reflected
(Householder, see ``linalg.qr``), so that coordinates are exact to rounding at any rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from minframe.layout import Layout
from minframe.linalg.ramp import ramp
from minframe.linalg.soft import Rule, choice, mean_length2, sign_weight, squares

POSE_EPS = 16 * torch.finfo(torch.float64).eps  # rounding of lengths in a pose, relative to the longest row
MAX_POSES = 50_000  # poses of a sample, above which there is an error
MIN_WEIGHT = 1e-17  # poses of less weight are left out: their sum is below the rounding of one


@dataclass(slots=True)
class Poses:
    """``K`` poses of all samples, those of each sample together.

    Attributes:
        sample: ``(K,)``, ascending.
        basis: ``(K, d, d)``, orthonormal columns.
        weight: ``(K,)``, of each sample adding up to one.
        chosen: ``(K, steps)``, the row of each step; moments follow the rows.
        gone: ``(K, d)``, where nothing was left to choose from.
        length2: ``(K, d)``, mean squared length of what was left of the nearly longest rows at each step.
        scale: ``(B,)``, the length of the longest row of each sample, which all lengths here are relative to.
        noise: ``(B,)``, the length below which rows are rounding.
        moments_from: of ``chosen``, the number of the first moment; ``None``: no moments compete.
    """

    sample: Tensor
    basis: Tensor
    weight: Tensor
    chosen: Tensor
    gone: Tensor
    length2: Tensor
    scale: Tensor
    noise: Tensor
    moments_from: int | None = None


class _Tree:
    """Poses as far as they are fixed, of clouds ``(B, n, d)``.

    Attributes:
        left: ``(K, n + d, d)``, the rows and the axes of the cloud, in coordinates of which the first are fixed.
        sample, weight: ``(K,)``.
        det: ``(K,)``, determinant of all reflections so far.
        chosen, gone, length2: ``(K,)`` each, for every step so far.
    """

    def __init__(self, rows: Tensor) -> None:
        b, _, d = rows.shape
        identity = torch.eye(d, dtype=rows.dtype, device=rows.device).expand(b, d, d)
        self.left = torch.cat([rows, identity], -2)
        self.sample = torch.arange(b, device=rows.device)
        self.weight = torch.ones(b, dtype=torch.float64, device=rows.device)
        self.det: Tensor | None = None
        self.chosen: list[Tensor] = []
        self.gone: list[Tensor] = []
        self.length2: list[Tensor] = []

    def branch(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Go on with what has weight among ``w`` ``(K, choices)``: the pose that each comes from, and its choice."""
        parent, choice = (w * self.weight.unsqueeze(-1) > MIN_WEIGHT).nonzero(as_tuple=True)
        self.go_on(parent, self.weight[parent] * w[parent, choice])
        return parent, choice

    def go_on(self, parent: Tensor, weight: Tensor) -> None:
        """Go on with the poses ``parent`` ``(K',)``, in that order and with these weights."""
        self.weight = weight
        self.sample, self.left = self.sample[parent], self.left[parent]
        self.det = None if self.det is None else self.det[parent]
        self.chosen, self.gone, self.length2 = (
            [x[parent] for x in values] for values in (self.chosen, self.gone, self.length2)
        )

    def finish(self) -> None:
        """Mark samples with too many poses, which are errors here."""

    def reflect(self, v: Tensor, k: int) -> None:
        """Turn ``v`` ``(K, d - k)`` onto axis k."""
        left = self.left[..., k:]
        norm = squares(v).sqrt()
        head = v[:, 0]
        phase = torch.where(head == 0, 1.0, head.sgn())
        w = torch.cat([(head + phase * norm).unsqueeze(-1), v[:, 1:]], -1)
        half = norm * (head.abs() + norm)
        c = left @ w.conj().unsqueeze(-1) / half[:, None, None]
        left.addcmul_(c, w.unsqueeze(-2), value=-1)
        left[..., 0] *= -phase.conj().unsqueeze(-1)
        self.det = phase.conj() if self.det is None else self.det * phase.conj()


class _FixedTree(_Tree):
    """The same with as many poses in each sample, at most ``most``, so that no shape depends on the data.

    Poses that a sample does not need come first, are equal to its best one and have no weight. The weights of a sample
    that needs more are NaN.
    """

    def __init__(self, rows: Tensor, most: int) -> None:
        super().__init__(rows)
        self.most = most
        self.over = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)

    def branch(self, w: Tensor) -> tuple[Tensor, Tensor]:
        b, choices = len(self.over), w.shape[-1]
        number = len(w) // max(b, 1)
        value = (w * self.weight.unsqueeze(-1)).view(b, number * choices)
        self.over |= (value > MIN_WEIGHT).sum(-1) > self.most
        top, at = value.topk(min(self.most, value.shape[-1]), -1)
        kept = top > MIN_WEIGHT
        top, at = torch.where(kept, top, 0.0).flip(-1), torch.where(kept, at, at[:, :1]).flip(-1)
        first = torch.arange(b, device=w.device).unsqueeze(-1) * number
        parent = (first + at // choices).flatten()
        self.go_on(parent, top.flatten())
        return parent, (at % choices).flatten()

    def finish(self) -> None:
        self.weight = self.weight.masked_fill(self.over[self.sample], torch.nan)


def soft_poses(rows: Tensor, layout: Layout, rule: Rule, rounding: float, reach: Tensor | None) -> Poses:
    """The poses of rows ``(*rows, d)``, whose padding is zero, without derivatives.

    Rows shorter than ``rounding`` times the longest, plus ``rounding`` times ``reach`` ``(B,)``, are rounding. Samples
    whose ``scale`` is not finite may have no pose.
    """
    x, mask = layout.pad(rows), layout.padding_mask()
    if mask is not None:  # padding of a batch vector repeats a row
        x = x * mask.unsqueeze(-1)
    scale = torch.linalg.vector_norm(x, dim=-1).amax(-1)
    scale = torch.where(scale == 0, 1.0, scale)
    noise = torch.full_like(scale, max(rounding, POSE_EPS))
    if reach is not None:
        noise = noise + rounding * reach / scale
    x = x / scale[:, None, None]
    b, n, d = x.shape
    tree = _Tree(x) if rule.poses is None else _FixedTree(x, rule.poses)
    context, noise2 = rule.context(x, mask), noise.square()
    counts = None if rule.counts is None else layout.pad(rule.counts.unsqueeze(-1)).squeeze(-1)
    if counts is not None and mask is not None:
        counts = counts * mask
    competing = None if context is None else n
    fixed = None
    for k in range(rule.steps(d, x.is_complex())):
        y = tree.left[:, :n, k:]
        w, length2, found = choice(y, fixed, context, rule, None if counts is None else counts[tree.sample])
        nothing = length2 <= noise2[tree.sample]
        some_gone = rule.poses is not None or bool(nothing.any())
        if some_gone:
            w = torch.where(nothing.unsqueeze(-1), torch.arange(w.shape[-1], device=w.device) == 0, w)
        tree.length2.append(length2)
        tree.gone.append(nothing)
        parent, row = tree.branch(w)
        if rule.poses is None:
            _check_number(tree.sample, b)
        v = (y if found is None else torch.cat([y, found], -2))[parent, row]
        if some_gone:
            first = torch.arange(d - k, device=x.device) == 0
            v = torch.where(tree.gone[-1].unsqueeze(-1), first.to(v.dtype), v)
        tree.reflect(v, k)
        tree.chosen.append(row)
        fixed = tree.left[:, :n, k]
        context = None if context is None else context.take(parent)
    if len(tree.chosen) < d:
        _fix_last(tree, n, rule, noise2, counts)
    tree.finish()
    chosen = torch.stack(tree.chosen, -1) if tree.chosen else tree.sample.new_empty(len(tree.sample), 0)
    basis = tree.left[:, n:].conj().resolve_conj()
    gone, length2 = torch.stack(tree.gone, -1), torch.stack(tree.length2, -1)
    return Poses(tree.sample, basis, tree.weight, chosen, gone, length2, scale, noise, competing)


def _fix_last(tree: _Tree, n: int, rule: Rule, noise2: Tensor, counts: Tensor | None) -> None:
    """The axis that no row is chosen for: by the determinant, or with either sign."""
    z = tree.left[:, :n, -1]
    counts = None if counts is None else counts[tree.sample]
    length2 = mean_length2(squares(z.unsqueeze(-1)), rule.sharpness, counts)
    nothing = length2 <= noise2[tree.sample]
    tree.length2.append(length2)
    tree.gone.append(nothing)
    if not rule.special:
        m = torch.where(nothing, 1.0, sign_weight(z, rule.sharpness, counts))
        _, which = tree.branch(ramp((1 + torch.stack([m, -m], -1)) / 2))
        tree.left[..., -1] *= torch.where(which == 0, 1.0, -1.0).unsqueeze(-1)
    elif tree.det is not None:
        tree.left[..., -1] *= tree.det.conj().unsqueeze(-1)


def _check_number(sample: Tensor, count: int) -> None:
    """Raise an error for samples with more than ``MAX_POSES`` poses, such as solids in eight dimensions."""
    if len(sample) > MAX_POSES and int((number := torch.bincount(sample, minlength=count)).max()) > MAX_POSES:
        raise too_many(int(number.argmax()), count)


class TooManyPosesError(ValueError):
    """A sample has more than ``MAX_POSES`` poses."""


def too_many(sample: int, count: int) -> TooManyPosesError:
    """The error for a sample with more than ``MAX_POSES`` poses."""
    return TooManyPosesError(
        f"sample {sample} of {count} has more than {MAX_POSES} poses, and more than any backbone "
        "will go through: its symmetry is too large for a smooth frame, which has a pose for each element of it. "
        "Use mf.frames.Minimal(), which averages over symmetries in closed form, or a larger sharpness"
    )
