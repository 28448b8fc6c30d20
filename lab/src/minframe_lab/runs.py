"""The work of each command, with a bar that shows how far it is; results go into a record as they come."""

from __future__ import annotations

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from minframe_lab import bench as benching
from minframe_lab import peers as others
from minframe_lab import table
from minframe_lab.cases import Panel
from minframe_lab.record import Record
from minframe_lab.verify import verify_panel


def progress() -> Progress:
    """A bar on standard error, if that is a terminal, that leaves nothing behind."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = table.console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def verify(record: Record, panels: list[Panel], dtypes: list[str], seed: int) -> None:
    """Every panel in every precision."""
    torch.set_num_threads(1)  # these backbones are small
    work = [(name, panel) for name in dtypes for panel in panels]
    with progress() as bar:
        task = bar.add_task("", total=len(work))
        for i, (name, panel) in enumerate(work):
            bar.update(task, description=f"{name}  {panel.name}")
            count, rows = verify_panel(panel, name, seed)
            for j, row in enumerate(rows, 1):
                record.rows.append(row.as_dict())
                bar.update(task, completed=i + j / count)
            record.save()


def bench(record: Record, quick: bool, seed: int, threads: int) -> None:
    """Every point of every sweep."""
    torch.set_num_threads(threads)
    rounds, slot = effort(quick)
    work = list(benching.cases(quick))
    with progress() as bar:
        task = bar.add_task("", total=len(work))
        for case in work:
            bar.update(task, description=f"{case.sweep}: {case.name}")
            record.rows += [row.as_dict() for row in benching.run_case(case, seed, rounds, slot)]
            record.save()
            bar.advance(task)


def peers(record: Record, quick: bool, seed: int, threads: int) -> None:
    """Every library."""
    torch.set_num_threads(threads)
    with progress() as bar:
        task = bar.add_task("other libraries", total=len(others.PEERS))
        for row in others.run_peers(seed, *effort(quick)):
            record.rows.append(row.as_dict())
            bar.advance(task)


def effort(quick: bool) -> tuple[int, float]:
    """Rounds in which all take turns, and the seconds of each turn."""
    return (7, 0.01) if quick else (15, 0.03)
