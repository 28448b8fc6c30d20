"""The pictures of these pages, drawn by the library itself: ``python docs/figures/draw.py [FOLDER]``.

Each shows a few members of one orbit on the left, and on the right what the canonical poses of all of them are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import minframe as mf

COLOURS = ("#3366cc", "#d9822b", "#2a9d63", "#b5458f", "#6b7280", "#c0392b", "#5e35b1", "#00838f")
INK = "#30343b"
STYLE = {
    "svg.hashsalt": "minframe",  # the same file from the same drawing
    "font.size": 9,
    "axes.edgecolor": "#c8ccd2",
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlecolor": INK,
    "xtick.color": "#8a9099",
    "ytick.color": "#8a9099",
    "axes.spines.top": False,
    "axes.spines.right": False,
}

# An asymmetric outline, so that turns and mirror images can be told apart.
FLAG = torch.tensor([[0, 0], [0, 2.4], [1.5, 2.1], [1.1, 1.7], [1.5, 1.2], [0.35, 1.2], [0.35, 0]], dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    """Every picture has randomness of its own."""
    return torch.Generator().manual_seed(seed)


def pair(left: str, right: str, width: float = 7.2, height: float = 3.0) -> tuple[Figure, Axes, Axes]:
    """Two panels with an arrow between them."""
    figure = Figure(figsize=(width, height), layout="constrained")
    a, b = figure.subplots(1, 2)
    a.set_title(left)
    b.set_title(right)
    return figure, a, b


def outline(axes: Axes, points: Tensor, colour: str, width: float = 1.6, alpha: float = 0.18) -> None:
    """A closed line through the points, in their order."""
    ring = torch.cat([points, points[:1]])
    axes.fill(ring[:, 0], ring[:, 1], color=colour, alpha=alpha, linewidth=0)
    axes.plot(ring[:, 0], ring[:, 1], color=colour, linewidth=width, marker="o", markersize=2 * width)


def outlines(group: mf.Group, elements: Tensor, title: str, canonical: str, shape: Tensor = FLAG) -> Figure:
    """Members of the orbit of a shape of the plane, and their canonical poses on top of each other."""
    figure, a, b = pair(title, canonical)
    for number, g in enumerate(elements):
        moved = group.act(g, shape)
        outline(a, moved, COLOURS[number])
        outline(b, mf.canonicalize(moved, group)[0], COLOURS[number], width=7 - 2 * number, alpha=0.06)
    for axes in (a, b):
        axes.set_aspect("equal", "datalim")
        axes.axhline(0, color="#e3e6ea", zorder=0)
        axes.axvline(0, color="#e3e6ea", zorder=0)
    return figure


def motions(group: mf.Group, shifts: Sequence[tuple[float, float]], seed: int) -> Tensor:
    """Random elements of a group of the plane with translations, shifted to where they do not overlap."""
    g = group.random(len(shifts), dtype=torch.float64, generator=generator(seed))
    g[:, :2, -1] = torch.tensor(shifts, dtype=torch.float64)
    return g


PLACES = ((-3.5, 2.0), (3.5, 2.5), (-2.5, -3.5), (3.0, -3.0))


def euclidean() -> Figure:
    """Turned, mirrored and shifted copies of one shape."""
    return outlines(mf.E(2), motions(mf.E(2), PLACES, 3), "one orbit of E(2)", "the canonical pose of all four")


def matrices() -> Figure:
    """Sheared and stretched copies."""
    g = motions(mf.Aff(2), PLACES, 8)
    return outlines(mf.Aff(2), g, "one orbit of Aff(2)", "the canonical pose of all four: white")


def scale() -> Figure:
    """Copies of several sizes."""
    group = mf.Sim(2)
    g = motions(group, PLACES, 5)
    linear = g[:, :2, :2]
    sizes = linear.det().abs().sqrt()[:, None, None]
    g[:, :2, :2] = linear / sizes * torch.tensor([0.5, 1.0, 1.4, 0.8], dtype=torch.float64)[:, None, None]
    return outlines(group, g, "one orbit of Sim(2)", "the canonical pose of all four: size one")


def spacetime() -> Figure:
    """Boosts of a jet in one space dimension."""
    group = mf.OrthochronousLorentz(2)
    momenta = torch.tensor([1.4, -0.6, 0.5, 0.25], dtype=torch.float64)
    jet = torch.stack([(momenta.square() + torch.tensor([0.0, 0, 0.25, 0.6])).sqrt(), momenta], -1)
    figure, a, b = pair("one jet, seen by three observers", "in its canonical pose: the rest frame")
    for number, rapidity in enumerate((-0.7, 0.0, 0.6)):
        y = torch.tensor(rapidity, dtype=torch.float64)
        g = torch.stack([torch.stack([y.cosh(), y.sinh()]), torch.stack([y.sinh(), y.cosh()])])
        moved = group.act(g, jet)
        for axes, rows, size in ((a, moved, 5.0), (b, mf.canonicalize(moved, group)[0], 11.0 - 3.5 * number)):
            axes.plot(rows[:, 1], rows[:, 0], "o", color=COLOURS[number], markersize=size)
            total = rows.sum(0)
            axes.plot([0, total[1]], [0, total[0]], color=COLOURS[number], linewidth=4.5 - 1.5 * number)
    for axes in (a, b):
        axes.plot([-4, 0, 4], [4, 0, 4], color="#c8ccd2", linestyle="--", zorder=0)
        axes.set_xlim(-3.4, 3.4)
        axes.set_ylim(0, 5.4)
        axes.set_xlabel("momentum; dashed: light cone; line: the sum")
        axes.set_ylabel("energy")
    return figure


def unitary() -> Figure:
    """Phases of complex numbers."""
    group = mf.U(1)
    numbers = torch.tensor([1.6 + 0.3j, 0.7 + 0.9j, -0.2 + 0.5j, 0.5 - 0.4j], dtype=torch.complex128)[:, None]
    figure, a, b = pair("one orbit of U(1)", "canonical: the first row is real")
    for number, angle in enumerate((0.4, 2.3, 4.2)):
        moved = group.act(torch.polar(torch.ones(1, 1), torch.full((1, 1), angle)).to(numbers.dtype), numbers)
        for axes, z, width in ((a, moved, 1.6), (b, mf.canonicalize(moved, group)[0], 5.5 - 2 * number)):
            ring = torch.cat([torch.zeros(1, 1), z])[:, 0]
            axes.plot(ring.real, ring.imag, color=COLOURS[number], linewidth=width, marker="o", markersize=3 * width)
    for axes in (a, b):
        axes.set_aspect("equal", "datalim")
        axes.axhline(0, color="#e3e6ea", zorder=0)
        axes.axvline(0, color="#e3e6ea", zorder=0)
        axes.set_xlabel("real part")
        axes.set_ylabel("imaginary part")
    return figure


def images(axes: Axes, picture: Tensor, title: str = "") -> None:
    """A small grey picture without axes."""
    axes.imshow(picture.numpy(), cmap="Blues", vmin=0, vmax=1.3)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=9)


def finite() -> Figure:
    """The eight poses of an image, and the one they share."""
    letter = torch.zeros(9, 9, dtype=torch.float64)
    letter[1:8, 2] = letter[1, 2:7] = letter[4, 2:5] = 1.0
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    grid = figure.add_gridspec(2, 6, width_ratios=(1, 1, 1, 1, 0.25, 2))
    for number in range(8):
        posed = letter.rot90(number % 4, (0, 1)) if number < 4 else letter.flip(1).rot90(number % 4, (0, 1))
        images(figure.add_subplot(grid[number // 4, number % 4]), posed)
        pose, _ = mf.canonicalize(posed, mf.Dihedral(4), type="image")
    images(figure.add_subplot(grid[:, 5]), pose, "the canonical pose of all eight")
    figure.suptitle("one orbit of Dihedral(4)", fontsize=10, color=INK, x=0.33)
    return figure


def sums() -> Figure:
    """A slab: motions of the plane, and none along z."""
    group = mf.E(2) + mf.Trivial(1)
    height = torch.tensor([0.2, 1.6, 1.2, 0.9, 0.6, 0.4, 0.1], dtype=torch.float64)
    cloud = torch.cat([FLAG, height[:, None]], -1)
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    a, b = (figure.add_subplot(1, 2, k, projection="3d") for k in (1, 2))
    a.set_title("one orbit of E(2) + Trivial(1)")
    b.set_title("the canonical pose of all three")
    for number, place in enumerate(((-3.0, 2.0), (3.0, 1.5), (0.0, -3.5))):
        plane = mf.E(2).act(motions(mf.E(2), (place,), 3 + number)[0], cloud[:, :2])
        moved = torch.cat([plane, cloud[:, 2:]], -1)
        for axes, rows, width in ((a, moved, 1.4), (b, mf.canonicalize(moved, group)[0], 4.5 - 1.6 * number)):
            ring = torch.cat([rows, rows[:1]])
            axes.plot(*ring.T, color=COLOURS[number], linewidth=width, marker="o", markersize=1.5 * width)
            for row in rows:
                axes.plot(*torch.stack([row, row * torch.tensor([1, 1, 0])]).T, color="#c8ccd2", linewidth=0.7)
    for axes in (a, b):
        axes.set_zlim(0, 2)
        axes.set_xlabel("z is the vertical axis", fontsize=8)
        axes.tick_params(labelsize=7)
    return figure


def permutations() -> Figure:
    """A graph under three numberings."""
    edges = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [0, 6], [3, 7], [1, 4]])
    graph = torch.zeros(8, 8)
    graph[edges[:, 0], edges[:, 1]] = 1
    graph = graph + graph.mT
    figure = Figure(figsize=(7.2, 2.2), layout="constrained")
    all_axes = figure.subplots(1, 4)
    for number, axes in enumerate(all_axes[:3]):
        p = torch.randperm(8, generator=generator(number))
        images(axes, graph[p][:, p], f"numbering {number + 1}")
        pose, _ = mf.canonicalize(graph[p][:, p], mf.S(), type="edge")
    images(all_axes[3], pose, "canonical order of all")
    return figure


def products() -> Figure:
    """Points in any order and pose."""
    group = mf.S() * mf.SE(2)
    figure, a, b = pair("one orbit of S() * SE(2): orders and poses", "the canonical pose and order of all three")
    for number, place in enumerate(((-3.0, 1.5), (3.0, 2.0), (0.0, -3.5))):
        p = torch.randperm(len(FLAG), generator=generator(number))
        moved = mf.SE(2).act(motions(mf.SE(2), (place,), 7 + number)[0], FLAG)[p]
        for axes, rows, size in ((a, moved, 5.0), (b, mf.canonicalize(moved, group)[0], 16.0 - 4 * number)):
            axes.plot(rows[:, 0], rows[:, 1], "o", color=COLOURS[number], markersize=size)
            if axes is a or number == 2:
                for label, (x, y) in enumerate(rows.tolist()):
                    axes.annotate(str(label + 1), (x, y), textcoords="offset points", xytext=(7, 4), fontsize=8)
    for axes in (a, b):
        axes.set_aspect("equal", "datalim")
        axes.margins(0.12)
    return figure


def jumps() -> Figure:
    """An energy along a path, in three kinds of frames."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.SiLU(), torch.nn.Linear(16, 1)).double()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter.data, generator=generator(1))
    start, end = torch.randn(2, 6, 3, dtype=torch.float64, generator=generator(4))
    t = torch.linspace(0, 1, 1500, dtype=torch.float64)
    path = start + (end - start) * t[:, None, None]
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    axes = figure.subplots()
    methods = {
        "Unordered: one pose, jumps": mf.frames.Unordered(),
        "Smooth(8): a few poses, no jump": mf.frames.Smooth(8.0),
    }
    for number, (name, method) in enumerate(methods.items()):
        energy = mf.Invariant(lambda x: net(x).sum((-1, -2)), mf.SE(3), frames=method).eval()
        values = energy(path).detach()
        axes.plot(t, values, label=name, color=COLOURS[1 - number], linewidth=1.4)
    axes.set_xlabel("along a path of clouds of six points")
    axes.set_ylabel("energy")
    axes.legend(frameon=False)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    f.__name__: f for f in (euclidean, spacetime, unitary, matrices, scale, finite, sums, permutations, products, jumps)
}


def main(folder: Path) -> None:
    """Draw all pictures into a folder."""
    with matplotlib.rc_context(STYLE):
        for name, draw in FIGURES.items():
            draw().savefig(folder / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
