"""One loop for all experiments, on Lightning Fabric: a run that is cut off goes on and ends with the same result.

Started by ``torchrun``, several processes share each batch and average their gradients; all follow the same weights.
"""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn

from minframe_lab.experiments import processes, record
from minframe_lab.experiments.experiment import Batch, Experiment

State = dict[str, Any]
SAVE_SECONDS = 30.0
RESAMPLES = 1000  # of a test set


@dataclass
class Progress:
    """What a run has come to; all of it is in its checkpoint.

    Attributes:
        epoch: how many are done.
        seconds: spent on training so far, over all its parts.
        history: a row per validation.
        best: the row of the best one.
        weights: of the model at that time.
    """

    epoch: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, float] = field(default_factory=dict)
    weights: State = field(default_factory=dict)


def seed_epoch(seed: int, epoch: int) -> None:
    """Make an epoch's randomness depend on nothing but its number: there is no state of a generator to be kept."""
    torch.manual_seed(1_000_003 * (seed + 1) + epoch)


def fit(
    experiment: Experiment,
    train: Batch,
    validation: Batch,
    checkpoint: Path,
    compiled: bool = False,
    told: Callable[[Progress], None] = lambda _: None,
    stop_after: int | None = None,
) -> Progress:
    """Train until the last epoch, from the checkpoint if there is one.

    Args:
        experiment: what to train, and how.
        train: tensors with samples along the first axis.
        validation: the same.
        checkpoint: file that holds everything needed to go on; written about every half minute and at the end.
        compiled: compile the costly part of the model for training.
        told: called after every epoch.
        stop_after: leave after that many epochs, as if cut off.
    """
    fabric = processes.engine()
    recipe = experiment.recipe
    seed_epoch(experiment.seed, -1)
    model = experiment.model()
    average = copy.deepcopy(model).eval().requires_grad_(False)
    if compiled:
        experiment.costly(model).compile()
    part, train = experiment.trained(model, train)
    optimizer = torch.optim.Adam(
        part.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    wrapped, optimizer = fabric.setup(part, optimizer)
    average = fabric.to_device(average)
    train, validation = fabric.to_device(train), fabric.to_device(validation)
    done = Progress()
    if checkpoint.exists():
        state: State = {"model": wrapped, "average": average, "optimizer": optimizer}
        try:
            done = Progress(**fabric.load(checkpoint, state)["progress"])
        except (RuntimeError, EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError) as error:
            raise record.damaged(checkpoint, error) from None

    saved = time.monotonic()
    last = min(recipe.epochs, done.epoch + (stop_after or recipe.epochs))
    while done.epoch < last:
        started = time.monotonic()
        loss = _epoch(fabric, experiment, wrapped, (average, model), optimizer, train, done.epoch)
        done.epoch += 1
        if done.epoch % recipe.validate_every == 0 or done.epoch == recipe.epochs:
            _validate(experiment, average, validation, done, loss)
        done.seconds += time.monotonic() - started
        told(done)
        if time.monotonic() - saved > SAVE_SECONDS or done.epoch == last:
            saved = time.monotonic()
            partial = checkpoint.with_suffix(".part")
            fabric.save(partial, {"model": wrapped, "average": average, "optimizer": optimizer, "progress": vars(done)})
            if processes.is_first():
                partial.replace(checkpoint)
            fabric.barrier()
    return done


def _epoch(
    fabric: Fabric,
    experiment: Experiment,
    model: Any,
    followed: tuple[nn.Module, nn.Module],
    optimizer: Any,
    train: Batch,
    epoch: int,
) -> float:
    """All training samples once, in a random order; the mean of the loss."""
    recipe = experiment.recipe
    seed_epoch(experiment.seed, epoch)
    model.train()
    steps = len(train[0]) // recipe.batch_size or 1
    order = torch.randperm(len(train[0]), device=train[0].device)
    total = 0.0
    for i in range(steps):
        rate = recipe.learning_rate * recipe.rate((epoch * steps + i + 1) / (recipe.epochs * steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        chosen = order[i * recipe.batch_size : (i + 1) * recipe.batch_size]
        mine, factor = processes.share(fabric, tuple(x[chosen] for x in train))
        loss = factor * experiment.loss(model, mine)
        optimizer.zero_grad()
        fabric.backward(loss)
        if recipe.clip is not None:
            fabric.clip_gradients(model, optimizer, max_norm=recipe.clip, error_if_nonfinite=False)
        optimizer.step()
        _follow(*followed, recipe.ema, epoch * steps + i)
        total += float(loss.detach())
    return processes.mean(fabric, torch.tensor(total / steps, device=fabric.device))


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, decay: float, step: int) -> None:
    """Move the averaged weights towards the present ones, faster in the beginning: (step + 1) / (step + 10)."""
    decay = min(decay, (step + 1) / (step + 10)) if decay else 0.0
    kept = [*average.parameters(), *average.buffers()]
    current = [*model.parameters(), *model.buffers()]
    for old, new in zip(kept, current, strict=True):
        if old.is_floating_point():
            old.lerp_(new.detach(), 1 - decay)
        else:
            old.copy_(new)


@torch.no_grad()
def _validate(experiment: Experiment, average: nn.Module, validation: Batch, done: Progress, loss: float) -> None:
    average.eval()
    row = {"epoch": float(done.epoch), "loss": loss, experiment.score_name: experiment.score(average, validation)}
    done.history.append(row)
    if not done.best or row[experiment.score_name] < done.best[experiment.score_name]:
        done.best = row
        done.weights = {k: v.detach().cpu().clone() for k, v in average.state_dict().items()}


@torch.no_grad()
def in_parts(function: Callable[..., Tensor], data: Batch, size: int = 500) -> Tensor:
    """What a function returns for all samples, computed for some at a time."""
    return torch.cat([function(*(x[i : i + size] for x in data)) for i in range(0, len(data[0]), size)])


def resampled_error(each: Tensor) -> float:
    """The standard deviation of a mean over the samples of a test set, by resampling it; few may carry much of it."""
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randint(len(each), (len(each),), generator=generator) for _ in range(RESAMPLES)]
    return float(torch.stack([each[d].mean() for d in drawn]).std())
