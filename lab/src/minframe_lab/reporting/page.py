"""The page as a whole: one HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import minframe as mf
from minframe_lab.reporting.costs_section import bench_section, peers_section
from minframe_lab.reporting.errors_section import verify_section
from minframe_lab.reporting.html import code, paragraph, section, table
from minframe_lab.reporting.jumps import energy_figure, jump_figure
from minframe_lab.reporting.networks import graph_figure
from minframe_lab.reporting.results_section import results_section
from minframe_lab.reporting.solids import jet_figure, molecule_figure
from minframe_lab.reporting.sources import Run, one_line
from minframe_lab.reporting.summary import banner, tiles

NAMES = {
    "pictures": "What it does",
    "verify": "Equivariance",
    "bench": "Cost",
    "peers": "Peers",
    "results": "Results",
    "runs": "How it was measured",
}


def build(runs: dict[str, Run], results: Path, pictures: str) -> str:
    """The page, of whatever has been measured so far.

    Args:
        runs: what ``verify``, ``bench`` and ``peers`` have measured, by their names.
        results: folder of the results of experiments.
        pictures: what ``pictures()`` gives.
    """
    style = resources.files("minframe_lab.reporting").joinpath("style.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title in NAMES.items())
    body = "\n".join(
        [
            _head(runs),
            banner(runs["verify"]),
            tiles(runs["verify"], runs["bench"]),
            pictures,
            verify_section(runs["verify"]),
            bench_section(runs["bench"]),
            peers_section(runs["peers"]),
            results_section(results),
            _runs(runs),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>minframe report</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<nav aria-label="sections"><div>{links}</div></nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def pictures() -> str:
    """What canonical poses are, drawn by the library itself."""
    intro = (
        "For each input, minframe finds a canonical pose and the group element that leads there, runs the backbone on "
        "that pose, and carries its output back. Whatever the backbone is, the whole is equivariant. All drawings are "
        "computed by the library when this page is made."
    )
    found = [molecule_figure(), jet_figure(), graph_figure(), jump_figure(), energy_figure()]
    return section("pictures", NAMES["pictures"], [paragraph(intro), *found])


def _head(runs: dict[str, Run]) -> str:
    made = next((run.content for run in runs.values() if run.content), {})
    hardware: dict[str, Any] = made.get("hardware", {})
    parts = [
        f"minframe {made.get('minframe', mf.__version__)}",
        f"PyTorch {made['torch']}" if "torch" in made else "",
        f"{hardware['processor']}, {hardware.get('cores')} cores" if "processor" in hardware else "",
        str(made.get("date", "")),
    ]
    line = " · ".join(escape(part) for part in parts if part)
    return (
        '<header><h1>minframe</h1><p class="lead">Any PyTorch backbone, exactly equivariant, for one forward pass.</p>'
        f'<p class="meta">{line}</p></header>'
    )


def _runs(runs: dict[str, Run]) -> str:
    lines = []
    for command, run in runs.items():
        if not run.content:
            continue
        content = run.content
        hardware, blank = content.get("hardware", {}), {"processor": "?", "threads": "?", "cores": "?"}
        lines.append(
            [
                f"minframe {command}",
                one_line(content.get("configuration", {})),
                str(content.get("date", "")),
                "{processor}, {threads} of {cores} cores".format(**blank | hardware),
                "complete" if run.complete else "cut short",
                str(len(run.rows)),
                f"{content.get('seconds', 0):.0f} s",
            ]
        )
    head = ["command", "settings", "date", "machine", "state", "rows", "time"]
    note = (
        "The same settings and seed give the same errors. The data are beside this page, as JSON; "
        f"{code('minframe report')} draws it again."
    )
    return section("runs", NAMES["runs"], [paragraph(note), table(head, lines, text_columns=5) if lines else ""])
