"""Frames of single samples as the frame of a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from minframe.cloud import Cloud
from minframe.frame.base import Acts, Frame
from minframe.frame.linear import LinearFrame
from minframe.frame.product import ProductFrame
from minframe.frame.sparse import SparseFrame
from minframe.layout import Dense, Layout, Ragged
from minframe.tracing import collate_as_list

collate_as_list(Frame)  # in the batches of a loader, frames of samples are a list, which wrapped models take


def collate(frames: Sequence[Frame], mask: Tensor | None = None, batch: Tensor | None = None) -> Frame:
    """The frame of a batch from frames of its samples: to be made in workers, in ``collate_fn``.

    >>> import torch, minframe as mf
    >>> clouds = torch.randn(4, 20, 3)
    >>> frame = mf.collate([mf.SO(3).frame(x) for x in clouds])
    >>> torch.allclose(frame.to_canonical(clouds), mf.SO(3).frame(clouds).to_canonical(clouds), atol=1e-5)
    True

    A wrapped model does the same with a list: ``model(x, frame=frames)``.

    Args:
        frames: of one sample each, made without batch axes, or with one of length 1.
        mask: ``(B, n)``, True for real rows, if samples are padded to ``n`` rows.
        batch: ``(N,)``, the sample number of each row, ascending, if samples follow each other. Left out where samples
            of different sizes are not padded, and of graphs with listed edges.
    """
    frames = _checked(frames)
    if mask is not None and batch is not None:
        raise ValueError("give mask= or batch=, not both: a batch vector has no padding")
    if batch is not None:
        return collated(frames, Ragged(batch.long(), len(frames)))
    if mask is not None:
        return collated(frames, Dense((len(frames),), mask.shape[-1], mask))
    layouts = [frame.layout for frame in frames]
    sizes = [layout.length for layout in layouts]
    if isinstance(frames[0], SparseFrame) or len(set(sizes)) > 1 or isinstance(layouts[0], Ragged):
        owner = torch.arange(len(frames)).repeat_interleave(torch.tensor(sizes))
        return collated(frames, Ragged(owner.to(frames[0].rank.device), len(frames)))
    masks = [layout.mask.view(-1) for layout in layouts if isinstance(layout, Dense) and layout.mask is not None]
    if 0 < len(masks) < len(frames):
        raise ValueError("some of the frames have a mask and some do not: give the mask of the batch")
    return collated(frames, Dense((len(frames),), sizes[0], torch.stack(masks) if masks else None))


def fitted(given: Frame | Sequence[Frame], cloud: Cloud, group: Acts, labelling: str | None) -> Frame:
    """The frame of a cloud that was found before, or one for each sample; ``labelling`` is that of the model."""
    frame = given if isinstance(given, Frame) else collated(given, cloud.layout)
    if frame.group != group:
        raise ValueError(f"frame is of {frame.group}, but the model is equivariant to {group}")
    if frame.labelling is not None and frame.labelling != labelling:
        raise ValueError(
            f"frame was made with the canonical labelling of {frame.labelling}, but the model has that of "
            f"{labelling}: canonical orders differ between libraries and versions; find the frames again"
        )
    frame.check_inputs(cloud)
    return frame.for_other_inputs()


def collated(frames: Sequence[Frame], layout: Layout) -> Frame:
    """The frame of a batch with this layout."""
    frames = _checked(frames)
    if math.prod(layout.batch_shape) != len(frames):
        raise ValueError(f"frame has {len(frames)} entries, but there are {math.prod(layout.batch_shape)} samples")
    if not layout.batch_shape:
        return frames[0]
    if len(layout.batch_shape) > 1:
        raise ValueError(f"a list of frames needs one batch axis, got batch axes {layout.batch_shape}")
    real, padded = layout.sizes().flatten().tolist(), layout.padded_length
    for sample, (frame, size) in enumerate(zip(frames, real * (len(frames) // len(real)), strict=True)):
        if frame.layout.length not in (size, padded):
            raise ValueError(
                f"the frame of sample {sample} is that of {frame.layout.length} rows, but the sample has {size}"
            )
    if isinstance(layout, Ragged) and bool((layout.index.diff() < 0).any()):
        raise ValueError("a list of frames needs samples that follow each other: sort the rows by the batch vector")
    kinds = {type(frame) for frame in frames}
    if kinds == {LinearFrame, ProductFrame}:  # of frames that ignore row order, those of symmetric clouds
        kinds = {ProductFrame}
    if len(kinds) > 1:
        raise TypeError(f"frames of different kinds do not make up a batch: {sorted(k.__name__ for k in kinds)}")
    whole = next(frame for frame in frames if type(frame) in kinds).collated(frames, layout)
    whole.labelling = frames[0].labelling
    return whole


def _checked(frames: Sequence[Frame]) -> list[Frame]:
    frames = list(frames)
    if not frames or not all(isinstance(frame, Frame) for frame in frames):
        got = sorted({type(frame).__name__ for frame in frames}) or "none"
        raise TypeError(f"frames must be a list of frames, one for each sample, got {got}")
    for frame in frames:
        if math.prod(frame.layout.batch_shape) != 1:
            raise ValueError(
                f"a frame in a list is that of one sample, got one with batch axes {frame.layout.batch_shape}"
            )
        if frame.group != frames[0].group or frame.labelling != frames[0].labelling:
            raise ValueError(
                f"frames of a batch belong to one group and one labelling, got {frames[0].group} "
                f"({frames[0].labelling}) and {frame.group} ({frame.labelling})"
            )
    return frames
