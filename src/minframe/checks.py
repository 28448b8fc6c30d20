"""Checks of user input; every message names the argument, the value received and a remedy.

Shapes and dtypes are known without looking at the data, so those checks are free. Checks that need the data cost a
device synchronisation; they are skipped while compiling and inside ``with minframe.unchecked():``, where a sample with
NaN gives NaN.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from minframe.tracing import is_compiling, is_mapped, is_plain, is_transformed

P = ParamSpec("P")
T = TypeVar("T")
NOTHING, READING, ERRORS = range(3)  # what checks may do: nothing, read the data, and raise errors
_checks = contextvars.ContextVar("minframe_checks", default=ERRORS)
#: whether it is promised that nothing is out of the ordinary; see ``unchecked``
PROMISED = contextvars.ContextVar("minframe_ordinary", default=False)


@contextlib.contextmanager
def unchecked(*, ordinary: bool = False) -> Iterator[None]:
    """Skip the checks that read the data (NaN and infinity, empty samples), and so their device synchronisation.

    Nothing is assumed instead: clouds of any rank have the frame that they have elsewhere, and a sample with NaN gives
    NaN. On a device that would be waited for, nothing is read to leave out cases either, and all are computed. The
    number of samples in a batch vector is read unless it is given, as ``batch_size``; ties are looked for, and poses of
    smooth frames counted.

    Args:
        ordinary: a promise, so that frames take few operations on a GPU and no wait. It has no effect where nothing is
            waited for, as on a CPU. A sample that breaks it is NaN.

            *Momenta under the Lorentz groups*: all clouds have a time-like total momentum, not by accident, and
            determine all axes, none of them by less than some 1e-5 of the mass, times the square of E / M. Frames take
            80 operations instead of 2,400.

            *Frames that ignore the order of rows, and products with* ``S()``: no rows are tied. That is, no two are
            equally long where one of them carries an axis; and, for products, the invariants of points (lengths,
            angles with moments of the cloud; under GL, SL and Aff coordinates as well) tell all of them apart.
    """
    tokens = _checks.set(NOTHING), PROMISED.set(ordinary)
    try:
        yield
    finally:
        _checks.reset(tokens[0])
        PROMISED.reset(tokens[1])


def limited(allowed: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function where checks may do no more than is allowed.

    ``READING`` is for operators, in compiled code: they choose the shortest way by the data, and samples without a
    frame are NaN.
    """
    token = _checks.set(min(allowed, _checks.get()))
    try:
        return function(*args, **kwargs)
    finally:
        _checks.reset(token)


def data_checks_enabled() -> bool:
    """Whether tensor values may be read now, wherever they are."""
    return not is_compiling() and _checks.get() != NOTHING


def errors_enabled() -> bool:
    """Whether bad values are an error now; else they give NaN."""
    return not is_compiling() and _checks.get() == ERRORS


def checkable(x: Tensor) -> bool:
    """Whether a check may read the values of this tensor now."""
    return data_checks_enabled() and not is_transformed(x)


def readable(x: Tensor) -> bool:
    """Whether values of this tensor may be read now to choose between cases: as by a check, or no device is waited for.

    Where a dispatch mode looks on, a device is.
    """
    here = x.is_cpu and not is_compiling() and not is_transformed(x) and is_plain(x.detach())
    return here or checkable(x)


def all_true(condition: Tensor) -> bool:
    """Whether the condition holds for all samples; False if it may not be read now."""
    return readable(condition) and bool(condition.all())


def all_finite(x: Tensor) -> bool:
    """Whether no number is NaN or infinite; False if they may not be read now."""
    return readable(x) and math.isfinite(x.detach().sum().abs().item())


def check_finite(peak: Tensor, name: str) -> None:
    """``peak``: a non-negative number per sample that is NaN or infinite if anything in the sample is."""
    if errors_enabled() and readable(peak) and not math.isfinite(peak.sum().item()):
        bad = (~peak.flatten().isfinite()).nonzero().flatten().tolist()
        raise ValueError(
            f"{name} has NaN or infinite coordinates (or some beyond 1e150) in sample {bad[0]} of {peak.numel()}: "
            "no frame exists for it. Remove the sample, or mark those rows as padding with mask="
        )


def check_layout(x: Tensor, name: str) -> None:
    """Raise an error unless ``x`` is a strided tensor with values."""
    if x.is_meta:
        raise TypeError(
            f"{name} is on the device 'meta' and has no values, which frames depend on: move it to a real device, or "
            "find shapes with torch.export"
        )
    if x.layout is not torch.strided:
        how = (
            "pad it with torch.nested.to_padded_tensor and give a mask"
            if x.is_nested
            else "convert it with .to_dense()"
        )
        raise TypeError(f"{name} must be a dense tensor, got the layout {x.layout}: {how}")


def check_not_mapped(x: Tensor, group: object, name: str) -> None:
    """Raise a ``NotImplementedError`` inside ``torch.func.vmap``, for groups that read values to order rows."""
    if not is_compiling() and is_transformed(x) and is_mapped(x):
        raise NotImplementedError(
            f"frames of {group} look at the values of {name}, which torch.vmap does not allow: leave vmap out and "
            "give all samples at once, with batch axes in front, as (*batch, n, ...)"
        )


def _is_number(x: Tensor, complex: bool) -> bool:
    return x.is_complex() if complex else x.is_floating_point()


def graph_hint(x: object) -> str:
    """A hint for the message if ``x`` is a graph of PyTorch Geometric, else an empty string; imports nothing."""
    if any(c.__module__.startswith("torch_geometric.") for c in type(x).__mro__):
        return (
            f". A {type(x).__name__} of PyTorch Geometric goes to minframe.pyg.Equivariant or minframe.pyg.Invariant "
            "(import minframe.pyg), which give types to its attributes"
        )
    return ""


def not_a_tensor(x: object, name: str) -> TypeError:
    """The error for an argument that is not a tensor."""
    hint = graph_hint(x) or ": convert it with torch.as_tensor"
    return TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}{hint}")


def check_cloud(x: Tensor, d: int, group: object, name: str, complex: bool = False) -> None:
    """A real floating (or a complex) tensor ``(*batch, n, d)`` with at least one row."""
    if not isinstance(x, Tensor):
        raise not_a_tensor(x, name)
    check_layout(x, name)
    if not _is_number(x, complex):
        kind, how = ("complex", ".cfloat()") if complex else ("real floating", ".float()")
        raise TypeError(
            f"{name} must have a {kind} dtype for {group}, got {x.dtype}: convert it, for example with {how}"
        )
    if x.ndim < 2 or x.shape[-1] != d:
        raise ValueError(
            f"{name} must have shape (*batch, n, {d}) for {group}, got {tuple(x.shape)}: "
            "points are rows and the last axis is the coordinate"
        )
    if x.shape[-2] == 0:
        raise ValueError(f"{name} has no points, shape {tuple(x.shape)}: a frame needs at least one point per sample")


def check_core(
    x: Tensor, core_ndim: int, d: int, type_name: str, name: str, leading: tuple[int, ...], complex: bool = False
) -> None:
    """A floating (or complex) tensor with the trailing axes that a type demands, behind the frame's leading axes."""
    if not isinstance(x, Tensor) or not _is_number(x, complex):
        got = x.dtype if isinstance(x, Tensor) else x.__class__.__name__
        kind = "complex" if complex else "real floating"
        raise TypeError(f"{name} of type {type_name!r} must be a {kind} tensor, got {got}: convert it first")
    check_layout(x, name)
    core = (d,) * core_ndim
    fits = x.ndim >= len(leading) + core_ndim and tuple(x.shape[x.ndim - core_ndim :]) == core
    if not fits or tuple(x.shape[: len(leading)]) != leading:
        want = ", ".join([*map(str, leading), "...", *map(str, core)])
        raise ValueError(f"{name} of type {type_name!r} must have shape ({want}), got {tuple(x.shape)}")


def check_tensor(x: object, name: str) -> None:
    """Raise an error unless ``x`` is a tensor with values that can be compared."""
    if not isinstance(x, Tensor):
        raise not_a_tensor(x, name)
    check_layout(x, name)


def check_numbers(x: Tensor, name: str, mask: Tensor | None = None, what: str = "sample") -> None:
    """Raise a ``ValueError`` if ``x`` ``(B, ...)`` has NaN or infinity where a ``mask`` of its first axes is True."""
    if not (x.is_floating_point() or x.is_complex()):
        return
    fine = x.detach().isfinite()
    if mask is not None:
        fine = fine | ~mask.view(*mask.shape, *(1,) * (x.ndim - mask.ndim))
    bad = ~fine.reshape(x.shape[0], math.prod(x.shape[1:])).all(-1)
    if checkable(bad) and bool(bad.any()):
        raise ValueError(
            f"{name} has NaN or infinite values in {what} {int(bad.long().argmax())} of {bad.shape[0]}, which cannot "
            "be ordered: replace them, for example an infinite distance by -1, or mark padding with mask="
        )


def check_edge_index(x: Tensor, name: str, n: int | None = None) -> None:
    """An integer tensor ``(2, E)`` of nodes below ``n``."""
    if x.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} must be an integer tensor, got {x.dtype}: use for example {name}.long()")
    if x.ndim != 2 or x.shape[0] != 2:
        raise ValueError(f"{name} must have shape (2, E), got {tuple(x.shape)}: a matrix is of type 'edge'")
    if not x.numel() or not data_checks_enabled():
        return
    if int(x.min()) < 0:
        raise ValueError(f"{name} has the negative node {int(x.min())}: nodes are counted from 0, remove such edges")
    if n is not None and int(x.max()) >= n:
        raise ValueError(
            f"{name} has nodes up to {int(x.max())}, but there are {n}, counted from 0: correct it, "
            "or give an input of type 'node' with a row for each node"
        )


def check_owners_known(batch: Tensor, count: int, name: str) -> None:
    """Raise an error where an entry per row and an entry per sample have the same shape, and mean different samples."""
    if not checkable(batch) or count != batch.shape[0]:  # while tracing, the count is not known
        return
    if not torch.equal(batch, torch.arange(count, dtype=batch.dtype, device=batch.device)):
        raise ValueError(
            f"{name} gives each of its {count} samples one row, and not in their order: whether a tensor of {count} "
            f"entries belongs to rows or to samples cannot be known. Sort the rows by {name}"
        )


def check_mask(mask: Tensor, rows: tuple[int, ...], name: str = "mask") -> None:
    """A boolean tensor of the shape ``rows``, ``(*batch, n)``, with at least one real row in every sample."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"{name} must be a boolean tensor (True = real point), got {got}: use for example mask.bool()")
    check_layout(mask, name)
    if tuple(mask.shape) != rows:
        raise ValueError(f"{name} must have shape {rows}, one entry per point, got {tuple(mask.shape)}")
    if data_checks_enabled() and not bool(mask.any(-1).all()):
        empty = (~mask.any(-1)).nonzero()[0].tolist()
        which = f"sample {empty[0] if len(empty) == 1 else tuple(empty)}" if empty else "the sample"
        raise ValueError(f"{name} leaves {which} with no points: drop it, or mark one of its points as real")


def check_batch(batch: Tensor, x: Tensor, name: str = "batch", count: int | None = None) -> None:
    """An integer vector ``(N,)`` with the sample number of each row of a cloud ``x``; ``count`` of them, if known."""
    if not isinstance(batch, Tensor) or batch.dtype not in (torch.int64, torch.int32):
        got = batch.dtype if isinstance(batch, Tensor) else type(batch).__name__
        raise TypeError(f"{name} must be an integer tensor of sample numbers, got {got}: use for example batch.long()")
    check_layout(batch, name)
    if batch.ndim != 1 or batch.shape != x.shape[:1]:
        raise ValueError(
            f"{name} must have shape ({x.shape[0]},), one sample number per row of points of shape (N, d), "
            f"got {tuple(batch.shape)} for points of shape {tuple(x.shape)}"
        )
    if data_checks_enabled() and batch.shape[0]:
        if bool(batch.min() < 0):
            raise ValueError(f"{name} has negative sample numbers (smallest {int(batch.min())}): count samples from 0")
        if count is not None and bool(batch.max() >= count):
            raise ValueError(
                f"{name} has the sample number {int(batch.max())}, counted from 0, but there are said to be {count} "
                "samples: correct one"
            )
        if bool(batch.max() >= batch.shape[0]):
            raise ValueError(
                f"{name} has the sample number {int(batch.max())} but only {batch.shape[0]} rows, so some samples have "
                "no points: renumber the samples, for example with torch.unique(batch, return_inverse=True)[1]"
            )
        sizes = torch.bincount(batch, minlength=count or 0)
        if bool(sizes.min() == 0):
            raise ValueError(
                f"{name} leaves sample {int(sizes.argmin())} of {len(sizes)} with no points: "
                "renumber the samples, for example with torch.unique(batch, return_inverse=True)[1]"
            )


def check_installed(package: str, title: str, module: str, install: str) -> None:
    """Raise an ``ImportError`` unless a package that ``module`` needs can be imported.

    A script of its name, in the folder that Python looks in first, hides a package that is installed.
    """
    found = importlib.util.find_spec(package)
    if found is None:
        raise ImportError(f"{module} needs {title}, which is not installed: pip install {install}")
    if found.submodule_search_locations is None:
        raise ImportError(
            f"{module} needs {title}, but import {package} finds the file {found.origin}, which hides it: rename the "
            "file, and remove what Python compiled of it from __pycache__"
        )
