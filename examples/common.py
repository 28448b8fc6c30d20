"""What the examples share: a progress bar, a table, a picture, and a file with all that is needed to repeat a run."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track as progress
from rich.table import Table

COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#d55e00", "#9a9a9a", "#c58fd6", "#e69f00")
RESULTS = Path(__file__).parent.parent / "lab" / "results" / "examples"


def arguments(description: str) -> argparse.Namespace:
    """``--quick``: a minute's worth of it at most, nothing written; ``--seeds``: how often everything is done."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short form, which writes nothing")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds")
    return parser.parse_args()


def track(items: Iterable[Any], what: str) -> Iterable[Any]:
    """The items, with a progress bar."""
    return progress(list(items), what, console=Console(stderr=True))


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    x = torch.tensor(values, dtype=torch.float64)
    return f"{x.mean():.4g}" + (f" ± {x.std():.2g}" if len(values) > 1 else "")


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table."""
    table = Table(title=title)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)


def save(name: str, configuration: dict[str, Any], results: Any, quick: bool) -> None:
    """Results and what they depend on, as ``lab/results/examples/NAME.json``."""
    if quick:
        return
    from minframe_lab.experiments.record import commit, hardware  # stored results are the laboratory's

    content = {
        "example": name,
        "command": f"python examples/{name}.py",
        "configuration": configuration,
        "commit": commit(),
        "torch": str(torch.__version__),
        "hardware": hardware(),
        "date": time.strftime("%Y-%m-%d"),
        "results": results,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def picture(name: str, figure: Figure, quick: bool) -> None:
    """The figure as ``lab/results/examples/NAME.png``; of a short form, in the folder for temporary files."""
    path = (Path(tempfile.gettempdir()) if quick else RESULTS) / f"{name}.png"
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def bars(
    name: str, label: str, results: Mapping[str, Sequence[Sequence[float]]], parts: Sequence[str], quick: bool
) -> None:
    """A picture of means over seeds, of one or several ``parts`` for each row, with all values as dots."""
    figure = Figure(figsize=(8, 1.2 + 0.26 * len(results) * len(parts)), layout="constrained")
    axis = figure.add_subplot()
    height = 0.8 / len(parts)
    for k, (part, colour) in enumerate(zip(parts, COLOURS, strict=False)):
        at = [i + (k - (len(parts) - 1) / 2) * height for i in range(len(results))]
        values = [list(of[k]) for of in results.values()]
        axis.barh(at, [sum(v) / len(v) for v in values], 0.9 * height, color=colour, label=part)
        for y, v in zip(at, values, strict=True):
            axis.plot(v, [y] * len(v), "o", color="black", markersize=2)
    axis.set_yticks(range(len(results)), list(results))
    axis.invert_yaxis()
    axis.set_xlabel(label)
    axis.spines[["top", "right"]].set_visible(False)
    if len(parts) > 1:
        figure.legend(loc="outside upper right", ncols=len(parts), frameon=False)
    picture(name, figure, quick)
