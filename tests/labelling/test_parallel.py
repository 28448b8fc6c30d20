"""Several processes label the graphs of a batch, and find what one finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import minframe as mf
from graphs import cfi, cycle, petersen, union
from minframe.labelling import parallel
from minframe.labelling.backend import Backend
from minframe.labelling.residual import Pattern

pytest.importorskip("igraph")


@pytest.fixture
def two_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parallel, "MIN_ARCS_SENT", 0)
    mf.graph.set_workers(2)
    yield
    mf.graph.set_workers(1)


def batch() -> torch.Tensor:
    """Graphs with 40 nodes that refinement leaves undecided."""
    found = [cfi(torch.ones(4, 4, dtype=torch.int64) - torch.eye(4, dtype=torch.int64), twist) for twist in (0, 1)]
    found += [union(petersen(), cycle(30)), cycle(40), union(*[petersen()] * 4)]
    return torch.stack([torch.nn.functional.pad(a, (0, 40 - len(a), 0, 40 - len(a))) for a in found])


@pytest.mark.slow
def test_two_processes_find_what_one_finds(two_workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = batch()
    g = mf.S().random(len(graphs), n=40, generator=torch.Generator().manual_seed(0))
    asked = []
    send = parallel.send
    monkeypatch.setattr(parallel, "send", lambda *args: asked.append(len(args[1])) or send(*args))
    forms = mf.graph.canonical_form(mf.S().act(g, graphs, "edge")).edges
    sizes = mf.S().frame(graphs, "edge").size
    assert sum(asked) >= 4
    mf.graph.set_workers(1)
    assert torch.equal(forms, mf.graph.canonical_form(graphs).edges)
    assert sizes == mf.S().frame(graphs, "edge").size


def test_small_work_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    question = Pattern((0, 0), (2, 5), 3)
    monkeypatch.setattr(parallel, "_workers", 2)
    assert not parallel.worth_sending([question] * 2)
    monkeypatch.setattr(parallel, "MIN_ARCS_SENT", 4)
    assert parallel.worth_sending([question] * 2)
    assert not parallel.worth_sending([question])


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_numbers_of_workers(count: object) -> None:
    with pytest.raises(ValueError, match="integer of at least 1, got"):
        mf.graph.set_workers(count)  # type: ignore[arg-type]


def test_answers_about_small_pieces_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, order = [], Backend.order
    monkeypatch.setattr(Backend, "order", lambda self, *args: asked.append(args) or order(self, *args))
    parallel._remembered.cache_clear()
    first = mf.graph.canonical_form(petersen()).edges
    again = mf.S().act(mf.S().random(n=10), petersen(), "edge")
    assert torch.equal(mf.graph.canonical_form(petersen()).edges, first)
    assert len(asked) == 1
    assert torch.equal(mf.graph.canonical_form(again).edges, first)
    many = mf.graph.canonical_form(cycle(parallel.MAX_REMEMBERED_ARCS)).edges  # two arcs an edge
    assert torch.equal(mf.graph.canonical_form(cycle(parallel.MAX_REMEMBERED_ARCS)).edges, many)
    assert parallel._remembered.cache_info().currsize <= 2
