"""One batch of the fuzzer: what is drawn, what the library answers, and how far two answers are apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor

import minframe as mf
from fuzzing.backbones import backbone, graph_backbone
from fuzzing.cases import CASES, Chosen, choose
from fuzzing.layouts import Laid, lay, layout_options
from fuzzing.structures import GRAPHS, STRUCTURES

BOUND = {"float64": 1e-11, "float32": 1e-5}
#: For groups that are not compact: elements have norms up to e^3 (float64) or e (float32), or condition numbers up to
#: 10, and carry the rounding of what they act on to both sides of the comparison.
NON_COMPACT_ALLOWANCE = 10.0
EPS = {"float64": torch.finfo(torch.float64).eps, "float32": torch.finfo(torch.float32).eps}
SCALES = (1.0, 1.0, 1.0, 2.0**-27, 2.0**27, 2.0**-13, 2.0**13)
TYPES = {"inv": "scalar", "vec": "vector", "span": "vector", "id": "point"}
NODE_TYPES = {"inv": "scalar", "vec": "node", "span": "node", "id": "node"}
NO_FRAME = "has no smooth frame", "the cloud has no size"  # of smooth frames; under groups with a scale
GRAPH_TYPES = {"inv": "scalar", "vec": "node", "span": "edge", "id": "edge"}


class CrashError(Exception):
    """The library raised where it has to answer."""


@dataclass(frozen=True)
class Key:
    """All that a batch depends on. Its text is what ``--replay`` takes."""

    seed: int
    structure: str
    level: int
    group: str
    frames: str
    dtype: str
    layout: str
    size: int

    def __str__(self) -> str:
        return ":".join(str(v) for v in vars(self).values())

    @staticmethod
    def parse(text: str) -> Key:
        seed, structure, level, group, frames, dtype, layout, size = text.split(":")
        return Key(int(seed), structure, int(level), group, frames, dtype, layout, int(size))


@dataclass(frozen=True)
class Move:
    """A symmetry: for each sample an element of the linear group, a reordering of the rows, or both."""

    g: Any | None
    order: Tensor | None  # (b, n)

    def take(self, index: Tensor) -> Move:
        g = None if self.g is None else torch.utils._pytree.tree_map(lambda t: t[index], self.g)
        return Move(g, None if self.order is None else self.order[index])


@dataclass
class Answer:
    outputs: dict[str, Tensor]  # samples first; those of rows (b, n, ...)
    unit: Tensor  # (b,) the size of vectors over that of what the backbone returned for them; see ``Trial.unit``
    refused: Tensor  # (b,) where the library says, in so many words, that ``vec`` does not exist
    absent: Tensor  # (b,) where it says that there is no frame, or that a cloud has no size; outputs are zeros


@dataclass
class Trial:
    key: Key
    x: Tensor = field(init=False)  # (b, n, d), of the dtype of the trial, of size one; the library sees it times scale
    scale: float = field(init=False)
    chosen: Chosen = field(init=False)
    graph: bool = field(init=False)
    generator: Generator = field(init=False)
    method: Any = None  # frames to use in place of those of the key, for tests of the fuzzer

    def __post_init__(self) -> None:
        chosen = choose(CASES[self.key.group], self.key.frames)
        if chosen is None:
            raise ValueError(f"no frames {self.key.frames!r} for {self.key.group}")
        self.chosen = chosen
        self.graph = self.key.structure in GRAPHS
        self.generator = Generator().manual_seed(self.key.seed)
        drawn = (GRAPHS | STRUCTURES)[self.key.structure].draw(
            chosen.case.space, self.key.size, self.key.level, self.generator
        )
        self.x = drawn.to(self.number)
        pick = int(torch.randint(len(SCALES), (), generator=self.generator))
        self.scale = 1.0 if self.graph or not chosen.case.homogeneous else SCALES[pick]

    @property
    def number(self) -> torch.dtype:
        dtype = getattr(torch, self.key.dtype)
        return torch.promote_types(dtype, torch.complex64) if self.chosen.case.space.complex else dtype

    @property
    def bound(self) -> float:
        return BOUND[self.key.dtype] * (1.0 if self.chosen.case.compact else NON_COMPACT_ALLOWANCE)

    def unit(self, x: Tensor) -> Tensor:
        """How much longer vectors are than what the backbone returns for them in the canonical pose, ``(b,)``.

        Under GL and Aff a pose is white and has no unit: invariants do not change with the scale of the input, and
        vectors are multiplied by T with ``T T^* = sum_i x_i x_i^* / n`` on the way back. Its norm is the root mean
        square of the rows, relative to their mean where they are translated. The same holds for groups with a scale.
        Elsewhere the pose has the unit of the input. Of a direct sum it is the largest of its terms.
        """
        blocks = self.chosen.case.blocks
        units = [] if all(block.unitless for block in blocks) else [torch.ones(len(x), dtype=torch.float64)]
        for block in blocks:
            if block.unitless:
                y = x[..., block.axes].to(torch.promote_types(x.dtype, torch.float64))
                y = y - y.mean(1, keepdim=True) if block.affine else y
                units.append(torch.linalg.vector_norm(y, dim=(1, 2)) / y.shape[1] ** 0.5)
        return torch.stack(units).amax(0)

    @property
    def frames(self) -> Any:
        return self.chosen.frames if self.method is None else self.method

    # Symmetries

    def moves(self) -> dict[str, Move]:
        """``moved``: a random element, reordered too where that is a symmetry. ``reordered``: nothing is rounded."""
        b, n = self.x.shape[:2]
        order = torch.rand(b, n, generator=self.generator).argsort(-1) if self.chosen.reorders else None
        found = {}
        if self.chosen.linear is not None:
            g = self.chosen.random(b, self.key.dtype, self.generator)
            if self.chosen.case.affine:  # shifts of the size of the cloud: how far it stands out is drawn with it
                matrix, shift = self.chosen.linear.parts(g)
                g = self.chosen.linear.assemble(matrix, shift * self.x.abs().amax((1, 2)).unsqueeze(-1))
            found["moved"] = Move(g, order)
        if order is not None:
            found["reordered"] = Move(None, order)
        return found

    def act(self, move: Move, y: Tensor, name: str) -> Tensor:
        """On the input (``id``) or an output, in double precision."""
        if name == "inv":
            return y
        y = y.to(torch.promote_types(y.dtype, torch.float64))
        if move.g is not None:
            assert self.chosen.linear is not None
            y = self.chosen.linear.act(move.g, y, TYPES[name])
        if move.order is not None:
            y = y.gather(1, move.order[..., None].expand(y.shape))
            if self.graph and name != "vec":
                y = y.gather(2, move.order[:, None].expand(y.shape))
        return y

    # Answers

    def answer(self, x: Tensor) -> Answer:
        """What the wrapped backbones say of clouds ``(b, n, d)`` of size one."""
        no, yes = torch.zeros(len(x), dtype=torch.bool), torch.ones(len(x), dtype=torch.bool)
        try:
            return Answer(self._outputs(x, wild=True), self.unit(x), no, no)
        except ValueError as error:  # some of the samples span too little for vectors that point anywhere
            missing = any(words in str(error) for words in NO_FRAME)
            if missing and len(x) == 1:
                nothing = {"inv": x.new_zeros(1, 1, 1).real, "span": 0 * x, "id": x, "vec": 0 * x}
                return Answer(nothing, self.unit(x), yes, yes)
            if not missing and len(x) <= max(1, self.key.size // 8):
                try:
                    return Answer(self._outputs(x, wild=False), self.unit(x), yes, no)
                except Exception as error:
                    raise CrashError(_message(error)) from error
        except Exception as error:
            raise CrashError(_message(error)) from error
        halves = [self.answer(half) for half in x.tensor_split(2)]
        names = set(halves[0].outputs) | set(halves[1].outputs)
        shape = max(h.outputs["inv"].shape[1:] for h in halves)
        whole = {}
        for name in names:
            parts = [h.outputs.get(name, h.outputs["id"].new_full(h.outputs["id"].shape, torch.nan)) for h in halves]
            whole[name] = torch.cat([p.expand(len(p), *shape) if name == "inv" else p for p in parts])
        return Answer(whole, *(torch.cat([getattr(h, k) for h in halves]) for k in ("unit", "refused", "absent")))

    def _outputs(self, x: Tensor, wild: bool) -> dict[str, Tensor]:
        b, n = x.shape[:2]
        laid = lay(x * self.scale, self.key.layout, self.key.seed)
        model = self._model(laid, wild)
        outputs = model(laid.x, **laid.kwargs)
        found = {}
        for name, y in outputs.items():
            rows = y[:b] if name == "inv" else laid.rows(y, b, n)
            if self.graph and name in ("span", "id"):
                rows = rows[:, :, laid.kept]
            found[name] = rows.detach() / (1.0 if name == "inv" and self.chosen.case.unitless else self.scale)
        return found

    def _model(self, laid: Laid, wild: bool) -> Callable[..., dict[str, Tensor]]:
        types = GRAPH_TYPES if self.graph else TYPES if self.chosen.linear is not None else NODE_TYPES
        net = graph_backbone if self.graph else backbone(self.chosen.ordered, wild)
        outputs = {k: v for k, v in types.items() if wild or self.graph or k != "vec"}
        options = layout_options(self.key.layout)
        return mf.Equivariant(net, self.chosen.group, types["id"], outputs, frames=self.frames, **options)

    def margin(self, x: Tensor) -> Tensor:
        """``(b,)``; infinite where nothing is known."""
        try:
            return self.frame(x).margin[: len(x)].double()
        except (TypeError, ValueError) as error:  # frames that are drawn have none; some clouds have no smooth frame
            if isinstance(error, ValueError) and not any(words in str(error) for words in NO_FRAME):
                raise
            return torch.full((len(x),), torch.inf, dtype=torch.float64)

    def frame(self, x: Tensor) -> mf.Frame:
        laid = lay(x * self.scale, self.key.layout, self.key.seed)
        type = "edge" if self.graph else "point"
        return mf.canonicalize(laid.x, self.chosen.group, type=type, frames=self.frames, **laid.kwargs)[1]


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]


def distance(
    found: dict[str, Tensor], wanted: dict[str, Tensor], unit: Tensor, skip: Tensor, unknown: Tensor | None = None
) -> dict[str, Tensor]:
    """Relative distance ``(b,)`` of each output, in double precision; ``vec`` counts as 0 where ``skip``.

    Vectors are measured by the larger of their own size and that of the invariants times ``unit`` ``(b,)``, which is
    that of what the backbone returned: what the symmetry of the input cancels has no size of its own.

    ``unknown`` ``(b,)``: what rounding of the input does to each number of an answer at least, whatever its size. Two
    answers that are both within it, one of them zero perhaps, differ by all of the larger, and not by infinitely much.
    """
    size = wanted["inv"].double().flatten(1)
    size = size.norm(dim=1) / size.shape[1] ** 0.5
    result = {}
    for name, y in wanted.items():
        if name not in found:
            continue
        a, c = (v.to(torch.promote_types(v.dtype, torch.float64)).flatten(1) for v in (found[name], y))
        floor = size * c.shape[1] ** 0.5 * (1.0 if name == "inv" else unit)
        scale = torch.maximum(torch.linalg.vector_norm(c, dim=1), floor)
        if unknown is not None:
            least = torch.minimum(
                torch.linalg.vector_norm(a, dim=1), unknown * a.shape[1] ** 0.5 * (1.0 if name == "inv" else unit)
            )
            scale = torch.maximum(scale, least)
        error = torch.linalg.vector_norm(a - c, dim=1) / scale.clamp_min(1e-300)
        error = torch.where((a == c).all(1), torch.zeros_like(error), error)
        result[name] = torch.where(skip, torch.zeros_like(error), error) if name == "vec" else error
    return result


def worst(distances: dict[str, Tensor]) -> Tensor:
    """The largest over the outputs, ``(b,)``; NaN stays NaN."""
    return torch.stack(list(distances.values())).amax(0)
