"""``Equivariant`` and ``Invariant``: a backbone made symmetric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from minframe.checks import graph_hint
from minframe.cloud import Cloud, Input
from minframe.declared import check_kinds, check_names, first_argument, frame_paths
from minframe.frame import Frame
from minframe.frame.collate import fitted
from minframe.frame.weighted import WeightedFrame
from minframe.frames import Method, Minimal
from minframe.groups.base import Group
from minframe.layout import batch_vector
from minframe.prior import Turn, check_prior, miss, turn
from minframe.recorded import RecordsLabelling
from minframe.rowwise import check_rowwise, untyped
from minframe.signature import Path, Signature, leaves, map_typed, total
from minframe.tracing import has_tangent, tree_leaves, tree_map

MINIMAL = Minimal()
TYPED = object()  # stands for a tensor that has a type


def _along(function: Callable[[Path, str, Any], Any], types: Any, values: Any, path: Path, strict: bool) -> Any:
    """``map_typed``, whose walk most arguments do not need: they are one tensor."""
    if isinstance(types, str):
        return None if values is None else function(path, types, values)
    return map_typed(function, types, values, path, strict)


class Equivariant(RecordsLabelling):
    """``backbone`` made exactly equivariant to ``group``, at the cost of one forward pass.

    >>> import torch, minframe as mf
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.SiLU(), torch.nn.Linear(32, 3))
    >>> model = mf.Equivariant(net, mf.E(3))
    >>> x = torch.randn(8, 20, 3)
    >>> g = mf.E(3).random(8)
    >>> torch.allclose(model(mf.E(3).act(g, x)), mf.E(3).act(g, model(x)), atol=1e-5)
    True

    Each call finds the frame of the inputs, shows the backbone their canonical pose, and carries what it returns back,
    averaged over the symmetry of the input itself. The wrapper has no parameters and no buffers of its own.

    A frame that was found before, by ``model.frame(x)`` in a worker of a loader or once for a data set, is passed as
    ``model(x, frame=frame)``: one frame of the whole batch, or a list with one for each sample.

    Args:
        backbone: a module or a function.
        group: for example ``mf.E(3)``.
        inputs: how the inputs move: one type, for the first argument, or a dict from argument names to types (or to
            nested dicts and tuples of types). Arguments that it does not name are passed through untouched, as are
            those of type ``"constant"``. Under frames that reorder rows, or that ignore their order, what has an entry
            per row has to be named: ``"node"``.
        outputs: how the outputs move: one type, or a structure of types that matches the result of the backbone.
        frame_on: the input or inputs that determine the frame, nested ones as ``"state.pos"``. By default all points
            and vectors, their rows taken together, so that a collinear molecule with velocities still has a full frame.
            An input left out of it whose components the frame does not determine is shown to the backbone without them.
        mask: name of the argument that carries a boolean mask ``(*batch, n)``, True = real. Padding is shown to the
            backbone as zeros, in every typed input that begins with the axes of the mask.
        batch: name of the argument that carries the sample number of each row, ``(N,)``, as in PyTorch Geometric.
            Both are forwarded to the backbone if it accepts them. Groups that put points in order pad samples to the
            size of the largest, which breaks the graph of ``torch.compile`` there.
        batch_size: name of the argument that carries the number of samples in ``batch``, an integer, so that it is not
            read. Forwarded if the backbone accepts it, as the number of samples that the backbone is shown.
        frames: how the group elements are chosen.
        detach_frame: let no gradient flow through the choice of the frame. Inputs keep the one through their pose.
        prior: rotates canonical poses to the orientation on which the backbone was trained: an orthogonal matrix
            ``(d, d)``, or a module or function of canonical poses (of the first of ``frame_on``) that returns one for
            each, such as ``mf.prior.Learned(net)``. The result is exactly equivariant for every prior.
    """

    def __init__(
        self,
        backbone: Callable[..., Any],
        group: Group,
        inputs: Any = "point",
        outputs: Any = "point",
        frame_on: str | Sequence[str] | None = None,
        mask: str | None = None,
        batch: str | None = None,
        frames: Method = MINIMAL,
        detach_frame: bool = False,
        prior: Tensor | Callable[..., Any] | None = None,
        batch_size: str | None = None,
    ) -> None:
        super().__init__()
        check_kinds(backbone, group, frames)
        self.backbone = backbone
        self.group = group
        self.signature = self._signature(backbone)
        self.inputs = inputs if isinstance(inputs, dict) else {first_argument(self.signature, inputs): inputs}
        self.outputs = outputs
        self.mask = mask
        self.batch = batch
        self.batch_size = batch_size
        self.frames = frames
        self.detach_frame = detach_frame
        check_names(self.signature, group, self.inputs, outputs, mask, batch, batch_size)
        self.frame_on = frame_paths(self.inputs, frame_on, group, frames)
        self.labelling = frames.labelling(group)
        self.prior = None if prior is None else check_prior(prior, group)
        #: whether what belongs to rows has to be named, as frames depend on it
        self._names_rows = "node" in frames.frame_types(group)
        #: whether all arguments that have a type move with the frame
        self._all_move = all(isinstance(types, str) and types != "scalar" for types in self.inputs.values())
        #: whether the backbone has an argument of its own that is called "frame"
        self._takes_frame = self.signature.names("frame")
        #: arguments that the backbone does not take
        self._withheld = {
            name for name in (mask, batch, batch_size) if name and not self.signature.accepts_keyword(name)
        }

    def _signature(self, backbone: Callable[..., Any]) -> Signature:
        """The arguments that can have a type."""
        return Signature.of(backbone)

    def forward(self, first: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        # The first argument stands by itself so that torch.export takes dynamic_shapes=({0: batch},) for one input.
        args = (first, *args) if args or first is not None else ()
        given = self._given(args, kwargs)
        names, values = self._named(args, kwargs)
        found = self._frames(values) if given is None else self._fitted(given, values)
        return self.averaged(found, names, values)

    def _given(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Frame | Sequence[Frame] | None:
        """The frame that a call brings with it, taken out of its arguments. Anything else is for the backbone."""
        frame = kwargs.get("frame")
        if isinstance(frame, Frame) or (isinstance(frame, list | tuple) and frame and isinstance(frame[0], Frame)):
            return cast(Frame | Sequence[Frame], kwargs.pop("frame"))
        if frame is None and not self._takes_frame:
            kwargs.pop("frame", None)
        if not (frame is None or self._takes_frame or self.signature.any_keyword):
            raise TypeError(f"frame must be what model.frame returns, or a list of these, got {type(frame).__name__}")
        return None

    def _fitted(self, given: Frame | Sequence[Frame], values: dict[str, Any]) -> Frame:
        """The frame of a call that brings it, or one for each sample, with it."""
        return fitted(given, self._cloud(values), self.group, self.labelling)

    def averaged(self, found: Frame | Sequence[Frame], names: Sequence[str], values: dict[str, Any]) -> Any:
        """The result of a call, given its frame or frames; ``names`` are those of positional arguments."""
        if isinstance(found, WeightedFrame):
            found = found.drawn() if self.training else found
            return total([self._pass(part, names, values) for part in found.parts()])
        if isinstance(found, Frame):
            return self._pass(found, names, values)
        return total([self._pass(frame, names, values) for frame in found], len(found))

    def frame(self, *args: Any, **kwargs: Any) -> Frame:
        """The frame that a call with these arguments would use: its rank, size, margin and element.

        Raises:
            TypeError: if ``frames`` chooses several.
        """
        found = self._frames(self._named(args, kwargs)[1])
        if isinstance(found, Frame):
            return found
        raise TypeError(f"mf.frames.{self.frames!r} averages over {len(found)} frames; there is no single one to show")

    def _named(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """The names of positional arguments, and all arguments by name."""
        names = list(self.signature.positional[: len(args)])
        names += [self.signature.name(i) for i in range(len(names), len(args))]
        return names, dict(zip(names, args, strict=True)) | kwargs

    def _pass(self, frame: Frame, positional: Sequence[str], values: dict[str, Any]) -> Any:
        """One pass through the backbone, there and back by one frame."""

        def show(path: Path, type: str, x: Any) -> Any:
            return x if type == "constant" else self._shown(frame, path, type, x)

        values = dict(values)
        if isinstance(frame, WeightedFrame):
            self._prepare(frame, values)
        for name, types in self.inputs.items():
            if name in values:
                values[name] = _along(show, types, values[name], (name,), strict=False)
        for name in () if frame.keeps_rows else (self.mask, self.batch):
            if name is not None and values.get(name) is not None:
                values[name] = frame.reorder(values[name])
        counted = [name for name in (self.batch, self.batch_size) if name and values.get(name) is not None]
        if self.batch_size and len(counted) == 2:
            values[self.batch_size] = frame.shown_layout.batch_shape[0]
        by = None if self.prior is None else self._turn(frame, values)
        if by is not None:
            there = by.there

            def turned(path: Path, type: str, x: Any) -> Any:
                return there(x, self.group.type(type)) if isinstance(x, Tensor) and type != "constant" else x

            for name, types in self.inputs.items():
                if name in values:
                    values[name] = map_typed(turned, types, values[name], (name,), strict=False)
        y = self._call(positional, values)
        if y is None:
            raise TypeError("the backbone returned None, which has no type: let it return its result")
        if self.outputs == "scalar":
            if frame.keeps_scalars:
                return y
            return tree_map(lambda x: frame.from_canonical(x, "scalar") if isinstance(x, Tensor) else x, y)

        def carry_back(path: Path, type: str, x: Tensor) -> Tensor:
            if type == "constant":
                left = isinstance(frame, WeightedFrame) and frame.leaves_constants and isinstance(x, Tensor)
                return torch.zeros_like(x) if left else x
            if not isinstance(x, Tensor):
                where = ".".join(path)
                raise TypeError(
                    f"{where} has type {type!r} but is a {x.__class__.__name__}: give types of its structure"
                )
            self.group.check(x, type, ".".join(path), frame.shown_layout)
            kind = self.group.types[type]
            return frame.carried_back(x if by is None else by.back(x, kind), kind)

        return _along(carry_back, self.outputs, y, ("output",), strict=True)

    def _turn(self, frame: Frame, values: dict[str, Any]) -> Turn:
        """The rotation of the prior for inputs in their canonical pose."""
        assert self.prior is not None
        pose = self._first(values)
        known = {name: values[name] for name in (self.mask, self.batch) if name and values.get(name) is not None}
        return turn(self.prior, pose, frame.shown_layout, known)

    def _first(self, values: dict[str, Any]) -> Any:
        """The first input that the frame is determined by."""
        for path in self.frame_on:
            x: Any = values.get(path[0])
            for key in path[1:]:
                x = x[key] if isinstance(x, Mapping) else x[int(key)]
            if isinstance(x, Tensor):
                return x
        raise TypeError("no input that determines the frame was given")

    def prior_loss(self, *args: Any, **kwargs: Any) -> Tensor:
        """The distance of canonical poses, rotated by the prior, from upright inputs: a loss to minimise.

        A number, ``|R c - g c|^2 / |c|^2`` over all samples: ``R c`` is what the backbone is shown, ``g c`` the input
        as it is. It needs no labels, and trains the prior alone.
        """
        if self.prior is None:
            raise ValueError("the model has no prior: mf.Equivariant(..., prior=mf.prior.Learned(net))")
        values = self._named(args, kwargs)[1]
        found = self._frames(values)
        path, x = self.frame_on[0], self._first(values)
        kind = dict(leaves(self.inputs))[path]
        total = []
        for frame in [found] if isinstance(found, Frame) else found:
            pose = self._shown(frame, path, kind, x).detach()
            shown = {n: frame.reorder(values[n]) for n in (self.mask, self.batch) if n and values.get(n) is not None}
            total.append(miss(frame, pose, turn(self.prior, pose, frame.shown_layout, shown)))
        return torch.stack(total).mean()

    def _shown(self, frame: Frame, path: Path, type: str, x: Any) -> Any:
        """One input as the backbone is shown it."""
        if not isinstance(x, Tensor):
            if type == "scalar":
                return x
            raise TypeError(f"{'.'.join(path)} has type {type!r} and must be a tensor, got {x.__class__.__name__}")
        own = path in self.frame_on
        if not own:  # what determines the frame was checked then
            self.group.check(x, type, ".".join(path), frame.layout)
        return frame.shown(x, self.group.types[type], own)

    def _call(self, positional: Sequence[str], values: dict[str, Any]) -> Any:
        """Call the backbone on its canonical inputs."""
        return self.backbone(
            *(values[name] for name in positional),
            **{name: x for name, x in values.items() if name not in positional and name not in self._withheld},
        )

    def _prepare(self, frame: WeightedFrame, values: dict[str, Any]) -> None:
        """Pass the edges to a frame of several poses, and raise an error for tensors without a type to repeat by."""

        def set_edges(path: Path, type: str, x: Any) -> Any:
            if type == "edge_index" and isinstance(x, Tensor):
                frame.expansion.set_edges(x, ".".join(path))
            return TYPED if isinstance(x, Tensor) else x

        for name, x in values.items():
            if name in (self.mask, self.batch):
                continue
            if name in self.inputs:
                x = map_typed(set_edges, self.inputs[name], x, (name,), strict=False)
            if any(isinstance(leaf, Tensor) for leaf in tree_leaves(x)):
                raise ValueError(untyped(name))

    def _frames(self, values: dict[str, Any]) -> Frame | Sequence[Frame]:
        """The frame of one call, or several."""
        return self.frames(self.group, self._cloud(values))

    def _cloud(self, values: dict[str, Any]) -> Cloud:
        """The inputs of one call that determine its frame, checked."""
        found: dict[Path, Input] = {}

        def find(path: Path, type: str, x: Any) -> Any:
            # Detached here, the frame is a constant; the inputs themselves still reach the backbone through their pose.
            constant = self.detach_frame and isinstance(x, Tensor) and has_tangent(x)
            found[path] = Input(".".join(path), x.detach() if constant else x, type)
            return x

        for name, types in self.inputs.items():
            _along(find, types, values.get(name), (name,), strict=False)
        present = [found[path] for path in self.frame_on if path in found]
        if not present:
            names = ", ".join(".".join(path) for path in self.frame_on)
            hint = "".join({graph_hint(x) for x in values.values()})
            raise TypeError(f"the frame of {self.group} is determined by {names}, but the call gave none of them{hint}")
        if len(present) < len(self.frame_on):
            self.group.check_frame_types([i.type for i in present])
        mask = values.get(self.mask) if self.mask else None
        batch = values.get(self.batch) if self.batch else None
        if self.batch_size:
            batch = batch_vector(batch, values.get(self.batch_size), self.batch_size)
        cloud = self.group.cloud(present, mask, batch, (self.mask or "mask", self.batch or "batch"))
        if self._names_rows and not (self._all_move and values.keys() <= self.inputs.keys()):
            others = {name: x for name, x in values.items() if name not in (self.mask, self.batch)}
            check_rowwise(self.inputs, others, cloud, self.group)
        return cloud

    def _present_labelling(self) -> str | None:
        return self.frames.labelling(self.group)

    def extra_repr(self) -> str:
        def short(types: Any) -> str:
            return types if isinstance(types, str) else repr(types)

        named = ", ".join(f"{name}: {short(types)}" for name, types in self.inputs.items())
        return f"{self.group}, {named} -> {short(self.outputs)}"


class Invariant(Equivariant):
    """``backbone`` made exactly invariant to ``group``: ``Equivariant`` with ``outputs="scalar"``.

    >>> import torch, minframe as mf
    >>> energy = mf.Invariant(lambda x: x.pow(3).sum((-1, -2)), mf.O(3))
    >>> x = torch.randn(5, 10, 3, dtype=torch.float64)
    >>> torch.allclose(energy(x), energy(x @ mf.O(3).random(dtype=x.dtype).mT))
    True
    """

    def __init__(
        self,
        backbone: Callable[..., Any],
        group: Group,
        inputs: Any = "point",
        frame_on: str | Sequence[str] | None = None,
        mask: str | None = None,
        batch: str | None = None,
        frames: Method = MINIMAL,
        detach_frame: bool = False,
        prior: Tensor | Callable[..., Any] | None = None,
        batch_size: str | None = None,
    ) -> None:
        how = frame_on, mask, batch, frames, detach_frame, prior, batch_size
        super().__init__(backbone, group, inputs, "scalar", *how)
