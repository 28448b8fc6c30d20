"""Surrogate jets: Pythia's events, a crude calorimeter, anti-kT jets.

The reference set (Kasieczka et al., 2019) comes from Pythia and the Delphes detector simulation. This surrogate keeps
its beams, selection and labels, and has massless towers in place of Delphes: close to it and a little easier.

**One jet an event**: of the jets that pass all cuts, the hardest. So no two jets of a set share an event, and errors
that take jets to be independent are right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ENERGY = 14_000.0  # of the beams together, in GeV as all energies here
HARD = (500.0, 800.0)  # transverse momentum of the hard process
RADIUS = 0.8
TRANSVERSE = (550.0, 650.0)  # of a jet
RAPIDITY = 2.0  # largest |eta| of a jet
CALORIMETER = 4.0  # its end in |eta|: beyond what a jet of RADIUS within RAPIDITY reaches
TOWER = math.pi / 128  # width of a tower in eta and phi
NOISE = 0.25  # transverse energy below which a tower is not read out
CONSTITUENTS = 200  # columns of the reference layout; softer ones are left out
MAX_SEED = 900_000_000  # Pythia's

COMMON = (
    "Print:quiet = on",
    f"Beams:eCM = {ENERGY}",
    f"PhaseSpace:pTHatMin = {HARD[0]}",
    f"PhaseSpace:pTHatMax = {HARD[1]}",
    "PartonLevel:MPI = off",
    "Random:setSeed = on",
)
PROCESSES = {
    True: ("Top:gg2ttbar = on", "Top:qqbar2ttbar = on", "24:onMode = off", "24:onIfAny = 1 2 3 4 5"),
    False: ("HardQCD:all = on",),
}
TOP, BOTTOM, W = 6, 5, 24


def available() -> bool:
    """Whether Pythia and fastjet are installed."""
    try:
        import fastjet  # noqa: F401
        import pythia8mc  # noqa: F401
    except ImportError:
        return False
    return True


def generator(signal: bool, seed: int) -> Any:
    """Pythia, ready for one of the two classes."""
    try:
        import pythia8mc
    except ImportError:
        raise ValueError('jets are made with Pythia and fastjet: pip install -e "lab[toptag]"') from None
    pythia = pythia8mc.Pythia("", False)
    for setting in (*COMMON, *PROCESSES[signal], f"Random:seed = {seed % MAX_SEED + 1}"):
        if not pythia.readString(setting):
            raise RuntimeError(f"Pythia does not know the setting {setting!r}")
    if not pythia.init():
        raise RuntimeError("Pythia could not be initialised")
    return pythia


def towers(particles: Array) -> Array:
    """Momenta ``(n, 4)`` as (E, px, py, pz) of visible particles, as a calorimeter reads them out.

    A tower has the energy of all that enters it and the direction of their total momentum, and no mass.
    """
    momentum = particles[:, 1:]
    transverse = np.hypot(momentum[:, 0], momentum[:, 1])
    eta = np.arcsinh(momentum[:, 2] / np.maximum(transverse, 1e-12))
    seen = np.abs(eta) < CALORIMETER
    phi = np.arctan2(momentum[:, 1], momentum[:, 0])
    width = round(2 * math.pi / TOWER)
    cell = np.floor(eta / TOWER).astype(np.int64) * width + np.floor(phi / TOWER).astype(np.int64) % width
    _, which = np.unique(cell[seen], return_inverse=True)
    total = np.zeros((which.max(initial=-1) + 1, 4))
    np.add.at(total, which, particles[seen])
    direction = total[:, 1:] / np.linalg.norm(total[:, 1:], axis=1, keepdims=True)
    read = total[:, 0] * np.hypot(direction[:, 0], direction[:, 1]) > NOISE
    return np.concatenate([total[read, :1], total[read, :1] * direction[read]], 1)


def jets(pythia: Any, signal: bool) -> Iterator[tuple[Array, Array]]:
    """Without end: constituents ``(n, 4)`` of a jet, hardest first, and the top quark ``(4,)``, zero for background."""
    import fastjet

    definition = fastjet.JetDefinition(fastjet.antikt_algorithm, RADIUS)
    while True:
        if not pythia.next():
            continue
        event = pythia.event
        visible = [(p.e(), p.px(), p.py(), p.pz()) for p in event if p.isFinal() and p.isVisible()]
        hits = towers(np.array(visible))
        pseudojets = []
        for index, (e, x, y, z) in enumerate(hits.tolist()):
            pseudojet = fastjet.PseudoJet(x, y, z, e)
            pseudojet.set_user_index(index)
            pseudojets.append(pseudojet)
        clusters = fastjet.ClusterSequence(pseudojets, definition)
        tops = _tops(event) if signal else []
        for jet in fastjet.sorted_by_pt(clusters.inclusive_jets(TRANSVERSE[0])):
            if jet.perp() > TRANSVERSE[1] or abs(jet.eta()) > RAPIDITY:
                continue
            inside = [top for top, partons in tops if all(_near(jet, p) for p in (top, *partons))]
            if signal and not inside:
                continue
            found = hits[[c.user_index() for c in jet.constituents()]]
            order = np.argsort(-np.hypot(found[:, 1], found[:, 2]), kind="stable")
            truth = np.array([inside[0].e(), inside[0].px(), inside[0].py(), inside[0].pz()]) if signal else np.zeros(4)
            yield found[order][:CONSTITUENTS], truth
            break


def _tops(event: Any) -> list[tuple[Any, list[Any]]]:
    """Each top quark as it decays, with its bottom quark and the two quarks of its W."""
    found = []
    for particle in event:
        if particle.idAbs() != TOP:
            continue
        children = [event[i] for i in particle.daughterList()]
        bosons = [c for c in children if c.idAbs() == W]
        if not bosons:  # a copy of it decays
            continue
        boson = event[bosons[0].iBotCopyId()]
        quarks = [event[i] for i in boson.daughterList() if event[i].idAbs() <= BOTTOM]
        found.append((particle, [c for c in children if c.idAbs() <= BOTTOM] + quarks))
    return found


def _near(jet: Any, particle: Any) -> bool:
    """Whether a particle is within the radius of a jet's axis."""
    turn = (jet.phi() - particle.phi() + math.pi) % (2 * math.pi) - math.pi
    return math.hypot(jet.eta() - particle.eta(), turn) < RADIUS


def make(count: int, signal: bool, seed: int) -> tuple[Array, Array]:
    """Jets of a class: constituents ``(count, 200, 4)``, zeros behind the last, and top quarks ``(count, 4)``."""
    momenta, truths = np.zeros((count, CONSTITUENTS, 4)), np.zeros((count, 4))
    if count:
        found = jets(generator(signal, seed), signal)
        for i in range(count):
            constituents, truths[i] = next(found)
            momenta[i, : len(constituents)] = constituents
    return momenta, truths
