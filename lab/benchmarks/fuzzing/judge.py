"""Whether a wrong answer is explained by the rounding of the input.

An error above the bound is one of

* *conditioned*: the answer is smooth there, but steep. Either the condition number of the input says so: the error is
  at most ``SLACK`` times what one unit of rounding of the whole cloud can do (``rounding_loss``). Or ``STEP`` units, in
  random directions, move it by ``r``; the error is at most ``SLACK * r / STEP``. (Units are those of the moved cloud,
  which is off by more than one of its own where a boost has made rows shorter: ``rounded_units``. For indefinite forms
  units of the whole cloud count, too.) A jump cannot hide here: it moves the answer as far for one unit as for
  ``STEP``, so that ``r / STEP`` is small beside it.
* *edge*: one unit of rounding moves the answer by as much as the error, in one of a few random directions; or
  ``frame.margin`` says that a decision is within ``MARGIN`` units, of a moved input (``edge_units``), and so many do.
  There have to be such places. How many there may be stands in ``fuzzing/share.py``; more are a fault, as of a
  threshold at a number that small integers hit.
* a *violation*: anything else.

*Units of the whole cloud.* Under an indefinite form the first axes are a function of a sum over the rows: of the total
momentum P, or of ``S = sum_i x_i x_i^T``. However it is computed in the precision of the input, P is rounded to ``eps
|P_k|`` in each coordinate, after n - 1 additions to at most ``(n - 1) eps sum_i |x_i|``, and in the mean to a few
roundings of the largest partial sum. That is the exact momentum of rows that are off by a part of the n-th of it each:
of the cloud with units of its longest row, also in rows that are short. Where these alone have a component along an
axis, of the thickness t, their directions from the axes before are then known to ``eps / t`` and not to ``eps``. As to
S, its factor comes from a decomposition that is backward stable by columns, of which each has entries of all rows.
``SLACK`` of these units are allowed, no more: the response of ``STEP`` units is divided by ``STEP``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import minframe as mf
from fuzzing.condition import (
    FADE,
    edge_units,
    fading,
    identity_loss,
    margin_unit,
    null_loss,
    rounded_units,
    rounding_loss,
    unknown_size,
)
from fuzzing.trial import EPS, Answer, CrashError, Move, Trial, distance, worst

STEP = 32
SLACK = 8.0
DIRECTIONS = 4
JUMP = 0.25  # of the error: what counts as the same jump; seen from its larger side, none is more than 1
MARGIN = 32
TRIES = 48  # an edge may stand in one direction of several, and only those that look for one take as many
ELEMENTS, MIN_ELEMENTS = 4, 32  # of as many samples one is asked for its element, which takes a frame more; at least
IDENTITY = 100.0  # units of rounding, times what ``identity_loss`` says, that the identity may be off by


@dataclass
class Verdict:
    """Of one batch. ``error`` and ``margin`` are the worst of violations and edges."""

    clouds: int
    wrong: set[int] = field(default_factory=set)  # samples, each counted once
    edges: int = 0
    conditioned: int = 0
    refused: int = 0
    error: float = 0.0  # of all samples
    violation: float = 0.0  # the worst violation
    sample: int = -1
    what: str = ""
    margin: float = 0.0  # the largest at a sample whose answer flipped
    crashes: list[str] = field(default_factory=list)

    @property
    def violations(self) -> int:
        return len(self.wrong)


def rounding(trial: Trial, x: Tensor, units: float | Tensor, whole: bool = False) -> Tensor:
    """The cloud with noise of so many units of rounding: of each row, or of the cloud where rows are translated.

    Terms of a direct sum act, and are rounded, each by itself. ``whole``: of the cloud in any case, as backward stable
    arithmetic has it.
    """
    sizes = torch.empty(x.shape, dtype=x.real.dtype)
    blocks = () if trial.graph else trial.chosen.case.blocks
    for axes, affine in [(b.axes, b.affine) for b in blocks] or [(slice(None), False)]:
        size = x[..., axes].abs().amax(-1, keepdim=True)
        sizes[..., axes] = size.amax(-2, keepdim=True) if affine or whole else size
    units = units if isinstance(units, float | int) else units[:, None, None]
    signs = torch.randint(0, 2, x.shape, generator=trial.generator, dtype=torch.int8) * 2 - 1
    return x + units * EPS[trial.key.dtype] * sizes * signs


def response(
    trial: Trial, x: Tensor, base: Answer, units: float | Tensor, directions: int = DIRECTIONS, whole: bool = False
) -> Tensor:
    """How far that noise moves the answer, ``(b,)``: the largest over a few directions."""
    found = []
    for _ in range(directions):
        near = trial.answer(rounding(trial, x, units, whole))
        moved = worst(distance(near.outputs, base.outputs, base.unit, base.refused | near.refused))
        found.append(torch.where(near.absent, torch.inf, moved))  # a unit of rounding, and there is no frame
    return torch.stack(found).amax(0)


def select(answer: Answer, index: Tensor) -> Answer:
    rest = (getattr(answer, name)[index] for name in ("unit", "refused", "absent"))
    return Answer({k: v[index] for k, v in answer.outputs.items()}, *rest)


def judge(trial: Trial) -> Verdict:
    verdict = Verdict(len(trial.x))
    try:
        plain = trial.answer(trial.x)
        if plain.absent.any():
            kept = (~plain.absent).nonzero()[:, 0]
            trial.x, plain = trial.x[kept], select(plain, kept)
        if not len(trial.x):
            return verdict
        verdict.refused = int(plain.refused.sum())
        _identity(trial, plain, verdict)
        _element(trial, verdict)
        for name, move in trial.moves().items():
            if trial.graph and name == "moved":
                continue
            _compare(trial, plain, name, move, verdict)
    except CrashError as crash:
        verdict.crashes.append(str(crash))
    return verdict


def _violation(verdict: Verdict, error: Tensor, index: Tensor, what: str) -> None:
    """Record the samples of these numbers."""
    if not len(index):
        return
    verdict.wrong |= set(index.tolist())
    size = torch.nan_to_num(error[index], nan=torch.inf)
    top = int(size.argmax())
    if verdict.sample < 0 or float(size[top]) > verdict.violation:
        verdict.violation, verdict.sample, verdict.what = float(size[top]), int(index[top]), what


def _identity(trial: Trial, plain: Answer, verdict: Verdict) -> None:
    """The identity comes back; of a jet as exactly as its opening allows, whatever rounding does to other answers."""
    inside = {k: v for k, v in plain.outputs.items() if k != "vec"}
    finite = torch.stack([torch.isfinite(v.flatten(1)).all(1) for v in inside.values()]).all(0)
    if "vec" in plain.outputs:
        finite &= torch.isfinite(plain.outputs["vec"].flatten(1)).all(1) | plain.refused
    _violation(verdict, torch.full_like(finite, torch.nan, dtype=torch.float64), (~finite).nonzero()[:, 0], "NaN")
    error = distance({"id": plain.outputs["id"]}, {"id": trial.x, "inv": _zero(plain)}, plain.unit, plain.refused)["id"]
    error = torch.where(finite, error, torch.zeros_like(error))
    bound = torch.full_like(error, trial.bound)
    eps = EPS[trial.key.dtype]
    if trial.key.structure == "jet":
        opening = 10.0**-trial.key.level
        bound = bound.clamp_min(IDENTITY * min(opening, eps / opening**2))
    elif not trial.chosen.case.compact:
        bound = torch.maximum(bound, IDENTITY * identity_loss(trial, trial.x)).clamp_max(1.0)
    if trial.key.frames == "smooth":  # outputs along short axes fade, and so does what they are of the identity
        bound = torch.where(fading(trial, trial.x), FADE * trial.x[0].numel() ** 0.5, bound)
    verdict.error = max(verdict.error, float(error.max()))
    _violation(verdict, error, (error > bound).nonzero()[:, 0], "identity")


def _zero(answer: Answer) -> Tensor:
    return torch.zeros_like(answer.outputs["inv"])


def _element(trial: Trial, verdict: Verdict) -> None:
    if trial.graph:
        return
    few = trial.x[: max(MIN_ELEMENTS, len(trial.x) // ELEMENTS)]
    try:
        frame = trial.frame(few)
        inside = trial.chosen.group.contains(frame.element)
        inside = inside[: len(few)] if inside.ndim else inside.expand(len(few))
        inside = inside | ~_representable(trial, frame.element, len(few))
    except (NotImplementedError, TypeError):  # frames with weights, or that are drawn, have no one element
        return
    except Exception as error:
        raise CrashError(f"frame.element: {type(error).__name__}: {str(error).splitlines()[0]}"[:160]) from error
    _violation(verdict, torch.ones(len(inside)), (~inside).nonzero()[:, 0], "element not in group")


def _representable(trial: Trial, element: Any, b: int) -> Tensor:
    """Whether the dtype has an element with these columns, all but the shortest, ``(b,)``.

    Of a flat cloud of size 1e15 an element of SL(4) has three columns of that size, and so one of 1e-45.
    """
    if not isinstance(trial.chosen.linear, mf.SL):
        return torch.ones(b, dtype=torch.bool)
    matrix = getattr(element, "linear", element)
    lengths = torch.linalg.vector_norm(matrix[:b].to(torch.promote_types(matrix.dtype, torch.float64)), dim=-2)
    others = lengths.sort(-1).values[:, 1:].log().sum(-1)
    return others < -math.log(torch.finfo(matrix.dtype).tiny)


def _compare(trial: Trial, plain: Answer, name: str, move: Move, verdict: Verdict) -> None:
    z = trial.act(move, trial.x, "id").to(trial.x.dtype)
    moved = trial.answer(z)
    wanted = {k: trial.act(move, v, k) for k, v in plain.outputs.items() if k != "id"}
    unknown = unknown_size(trial, trial.x, z)
    distances = distance(moved.outputs, wanted, moved.unit, plain.refused | moved.refused, unknown)
    error = torch.where(moved.absent, 0.0, worst(distances))
    finite = torch.isfinite(error)
    _violation(verdict, error, (~finite).nonzero()[:, 0], f"{name}: NaN")
    verdict.error = max(verdict.error, _max(error[finite]))
    lost = torch.maximum(null_loss(trial, trial.x), null_loss(trial, z))
    suspects = (finite & (error > (SLACK * lost).clamp_min(trial.bound))).nonzero()[:, 0]
    if not len(suspects):
        return
    steep = rounding_loss(trial, trial.x[suspects], z[suspects])
    allowed = {k: (SLACK * v).clamp_min(trial.bound) for k, v in steep.items()}
    conditioned = torch.stack([v[suspects] <= allowed[k] for k, v in distances.items()]).all(0)
    verdict.conditioned += int(conditioned.sum())
    suspects = suspects[~conditioned]
    if not len(suspects):
        return
    for directions in (1, DIRECTIONS):  # most need no second look
        here, there = (trial.x[suspects], select(plain, suspects)), (z[suspects], select(moved, suspects))
        units = STEP * rounded_units(trial, move.take(suspects), here[0], there[0])
        steep = torch.maximum(response(trial, *here, STEP, directions), response(trial, *there, units, directions))
        if trial.chosen.case.indefinite:  # a boost to axes that all rows determine is backward stable, of the whole
            for side in (here, there):
                steep = torch.maximum(steep, response(trial, *side, STEP, directions, whole=True))
        conditioned = error[suspects] <= SLACK / STEP * steep
        verdict.conditioned += int(conditioned.sum())
        suspects = suspects[~conditioned]
        if not len(suspects):
            return
    here, there = (trial.x[suspects], select(plain, suspects)), (z[suspects], select(moved, suspects))
    wrong = error[suspects].clamp_max(1.0)  # beyond that only the sizes of the two answers are compared
    unit = torch.maximum(*(response(trial, *side, 1) for side in (here, there)))
    margin = torch.minimum(trial.margin(here[0]), trial.margin(there[0]))
    edge = unit >= JUMP * wrong.clamp_max(1.0)
    units = edge_units(trial, move.take(suspects), here[0], there[0], MARGIN)
    near = margin <= units * margin_unit(trial, here[0], there[0])
    asked = (near & ~edge).nonzero()[:, 0]
    if len(asked):
        sides = [(x[asked], select(a, asked)) for x, a in (here, there)]
        edge[asked] = _shaken(trial, sides, wrong[asked], units[asked])
    verdict.edges += int(edge.sum())
    verdict.margin = max(verdict.margin, _max(margin))
    bad = ~edge
    which = [max(distances, key=lambda k: float(distances[k][i])) for i in suspects[bad].tolist()]
    full = torch.zeros_like(error)
    full[suspects] = error[suspects]
    _violation(verdict, full, suspects[bad], f"{name}: {'/'.join(sorted(set(which)))}")


def _shaken(trial: Trial, sides: list[tuple[Tensor, Answer]], wrong: Tensor, most: Tensor) -> Tensor:
    """Whether rounding within the margin does move the answer by as much as the error, ``(b,)``.

    A margin of zero, as of all ties, is no excuse by itself. If a decision is within ``most`` units ``(b,)`` of
    flipping, as much noise flips it in one of a few directions.
    """
    moved = torch.zeros(len(wrong), dtype=torch.bool)
    for turn in range(TRIES):
        for units in (1, MARGIN) if bool((most <= MARGIN).all()) else (1, MARGIN, most):
            for side in sides:
                moved |= response(trial, *side, units, 1, whole=turn % 2 == 0) >= JUMP * wrong.clamp_max(1.0)
        if moved.all():
            break
    return moved


def _max(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
