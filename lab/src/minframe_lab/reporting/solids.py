"""Pictures of clouds in space: a molecule in many poses and in its canonical one, a jet before and after boosts."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import minframe as mf
from minframe_lab.reporting.axes import SOFT
from minframe_lab.reporting.html import code, figure, panels
from minframe_lab.reporting.svg import Drawing

#: Ethanol, in Angstrom.
ATOMS = "CCOHHHHHH"
ETHANOL = (
    *((1.1879, -0.3829, 0.0), (0.0, 0.5526, 0.0), (-1.1867, -0.2472, 0.0), (-1.9237, 0.3850, 0.0)),
    *((2.0985, 0.2306, 0.0), (1.1184, -1.0093, 0.8869), (1.1184, -1.0093, -0.8869), (-0.0227, 1.1812, 0.8852)),
    (-0.0227, 1.1812, -0.8852),
)
BOND = 1.6
LOOKS = {"C": ("#4b5563", 0.42), "O": ("#d1495b", 0.40), "H": ("#d7dee5", 0.27)}
PRONGS = ("#0072b2", "#e69f00", "#009e73")
RAPIDITIES = (0.0, 0.8, 1.6)
POSES, JET = 201, 4  # seeds: of poses in which no atom hides another, and of a jet


def camera() -> Tensor:
    """What turns a cloud towards the onlooker: a little from above, a little from the side."""
    a, b = 0.45, 0.35
    above = torch.tensor([[1, 0, 0], [0, math.cos(a), -math.sin(a)], [0, math.sin(a), math.cos(a)]])
    side = torch.tensor([[math.cos(b), 0, math.sin(b)], [0, 1, 0], [-math.sin(b), 0, math.cos(b)]])
    return (above @ side).double()


def spread(poses: Tensor) -> float:
    """The largest difference between canonical poses, relative to the largest coordinate."""
    return float((poses - poses[:1]).abs().max() / poses.abs().max())


def molecule_figure(count: int = 4) -> str:
    """One molecule in random poses, and the canonical poses of all of them in one drawing."""
    molecule = torch.tensor(ETHANOL, dtype=torch.float64)
    group = mf.SE(3)
    moves = group.random(count, dtype=torch.float64, generator=torch.Generator().manual_seed(POSES))
    poses = group.act(moves, molecule.expand(count, -1, -1))
    canonical, frame = mf.canonicalize(poses, group)
    cards = [(f"pose {i + 1}", _molecule([pose - pose.mean(-2)], f"pose {i + 1}")) for i, pose in enumerate(poses)]
    cards.append((f"canonical: all {count}", _molecule(list(canonical), "the canonical pose")))
    caption = (
        f"The same molecule, turned and moved at random {count} times. {code('mf.canonicalize')} brings every copy to "
        f"one pose; drawn over each other they differ by {spread(canonical):.0e} of the size of the molecule. "
        f"The backbone sees that pose alone; the frame has {_elements(max(torch.tensor(frame.size).long().tolist()))}."
    )
    return figure(
        _shades() + panels(cards, "poses"), caption, f"A molecule in {count} poses, and its one canonical pose"
    )


def _elements(count: int) -> str:
    return "one element" if count == 1 else f"{count} elements"


def _shades() -> str:
    """What makes atoms look round; defined once for all drawings."""
    shades = "".join(
        f'<radialGradient id="atom-{kind}" cx="35%" cy="30%" r="75%"><stop offset="0" stop-color="#fff" '
        f'stop-opacity=".9"/><stop offset=".35" stop-color="{tone}"/><stop offset="1" stop-color="{tone}"/>'
        "</radialGradient>"
        for kind, (tone, _) in LOOKS.items()
    )
    return f'<svg class="shades" width="0" height="0" aria-hidden="true"><defs>{shades}</defs></svg>'


def _molecule(clouds: list[Tensor], label: str) -> str:
    drawing = Drawing(200, 180, label)
    for cloud in clouds:
        _atoms(drawing, (cloud - cloud.mean(-2)) @ camera().mT)
    return drawing.render()


def _atoms(drawing: Drawing, cloud: Tensor) -> None:
    scale = 36.0
    at = [(100 + scale * float(x), 90 - scale * float(y)) for x, y, _ in cloud]
    distance = torch.cdist(cloud, cloud)
    parts: list[tuple[float, int, int | None]] = [(float(cloud[i, 2]), i, None) for i in range(len(cloud))]
    parts += [
        (min(float(cloud[i, 2]), float(cloud[j, 2])) - 1e-6, i, j)  # its ends lie below both atoms
        for i in range(len(cloud))
        for j in range(i)
        if distance[i, j] < BOND
    ]
    for _, i, j in sorted(parts, key=lambda part: part[0]):  # what is behind comes first
        if j is None:
            fill, radius = f"url(#atom-{ATOMS[i]})", scale * LOOKS[ATOMS[i]][1]
            drawing.circle(at[i], radius, ATOMS[i], fill=fill, stroke="#33404d", stroke_width=0.8)
        else:
            drawing.line(at[i], at[j], stroke="#8a97a5", stroke_width=6, stroke_linecap="round")


def jet(generator: torch.Generator) -> Tensor:
    """Massless particles in three prongs, four-momenta ``(15, 4)`` with the energy first."""
    angle = torch.arange(3, dtype=torch.float64) * (2 * math.pi / 3)
    prongs = torch.stack([angle.cos(), angle.sin(), torch.zeros(3, dtype=torch.float64)], -1).repeat_interleave(5, 0)
    towards = prongs + 0.22 * torch.randn(15, 3, dtype=torch.float64, generator=generator)
    size = 10 + 25 * torch.rand(15, 1, dtype=torch.float64, generator=generator)
    momentum = size * towards / torch.linalg.vector_norm(towards, dim=-1, keepdim=True)
    return torch.cat([size, momentum], -1)


def boost(rapidity: float) -> Tensor:
    """Along the direction that points up, ``(4, 4)``."""
    matrix = torch.eye(4, dtype=torch.float64)
    matrix[0, 0] = matrix[2, 2] = math.cosh(rapidity)
    matrix[0, 2] = matrix[2, 0] = math.sinh(rapidity)
    return matrix


def jet_figure() -> str:
    """One jet, more and more boosted, and the canonical poses of all of them in one drawing."""
    generator = torch.Generator().manual_seed(JET)
    group = mf.OrthochronousLorentz()
    particles = jet(generator)
    jets = torch.stack([group.act(boost(rapidity), particles) for rapidity in RAPIDITIES])
    canonical, _ = mf.canonicalize(jets, group)
    total = jets.sum(-2)
    mass = group.inner(total, total).sqrt()
    cards = [
        (f"rapidity {rapidity:g}: E = {energy:.0f} GeV", _jet([cloud], f"jet boosted by rapidity {rapidity:g}"))
        for rapidity, energy, cloud in zip(RAPIDITIES, total[:, 0].tolist(), jets, strict=True)
    ]
    energy = float(canonical[0, :, 0].sum())
    cards.append((f"canonical: E = {energy:.0f} GeV", _jet(list(canonical), "the canonical pose of the jet")))
    caption = (
        f"A jet of {len(particles)} massless particles with invariant mass {float(mass[0]):.0f} GeV, seen by observers "
        f"who move ever faster: it narrows into a beam. The canonical poses of all {len(jets)} under "
        f"{code(f'mf.{group!r}')} are drawn over each other; they differ by {spread(canonical):.0e} of the largest "
        "momentum, and its three prongs are back. Lengths are relative to the longest in each drawing."
    )
    return figure(panels(cards, "poses"), caption, "A jet before and after boosts, and its canonical pose")


def _jet(clouds: list[Tensor], label: str) -> str:
    drawing = Drawing(200, 190, label)
    centre = (100.0, 95.0)
    drawing.circle(centre, 84, fill="#f4f7f9", stroke="#e4e8ec")
    for cloud in clouds:
        flat = cloud[:, 1:] @ camera().mT
        scale = 80 / float(torch.linalg.vector_norm(cloud[:, 1:], dim=-1).max())
        for i, (x, y, _) in enumerate(flat.tolist()):
            end = (centre[0] + scale * x, centre[1] - scale * y)
            tone = PRONGS[i // 5]
            drawing.line(centre, end, stroke=tone, stroke_width=2, stroke_linecap="round", stroke_opacity=0.75)
            drawing.circle(end, 3.6, f"{float(cloud[i, 0]):.0f} GeV", fill=tone, stroke="#fff", stroke_width=0.8)
    drawing.circle(centre, 2.4, fill=SOFT)
    return drawing.render()
