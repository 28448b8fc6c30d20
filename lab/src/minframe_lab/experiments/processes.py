"""One process or several: started by ``torchrun`` or a scheduler, told by the environment, run by Lightning Fabric."""

from __future__ import annotations

import gc
import os

import torch
from lightning.fabric import Fabric
from torch import Tensor

from minframe_lab.experiments.experiment import Batch


def count() -> int:
    """Processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the one that writes files and shows progress."""
    return int(os.environ.get("RANK", "0")) == 0


def engine() -> Fabric:
    """What moves tensors, and averages gradients over all processes (DDP)."""
    accelerator = "auto" if torch.cuda.is_available() else "cpu"
    if count() == 1:
        return Fabric(accelerator=accelerator, devices=1)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", str(count())))
    fabric = Fabric(accelerator=accelerator, devices=here, num_nodes=count() // here, strategy="ddp")
    fabric.launch()
    return fabric


def leave() -> None:
    """Part from the other processes, when training is over.

    Threads of the connection that still run when Python ends would abort the process. Models go first: one that is the
    last to hold the process group waits, in its destructor, for a thread that waits for the interpreter.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        gc.collect()
        torch.distributed.destroy_process_group()


def share(fabric: Fabric, batch: Batch) -> tuple[Batch, float]:
    """The samples of a batch that are this process's, and the factor by which the mean of losses is the batch's."""
    if fabric.world_size == 1:
        return batch, 1.0
    whole = len(batch[0])
    if whole < fabric.world_size:
        raise ValueError(f"a batch of {whole} samples cannot be shared by {fabric.world_size} processes")
    mine = tuple(x[fabric.global_rank :: fabric.world_size] for x in batch)
    return mine, len(mine[0]) * fabric.world_size / whole


def mean(fabric: Fabric, value: Tensor) -> float:
    """Of a number over all processes."""
    return float(fabric.all_reduce(value, reduce_op="mean")) if fabric.world_size > 1 else float(value)  # type: ignore[arg-type]
