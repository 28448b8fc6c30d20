"""``minframe peers``: other libraries on the same work, in the same run.

The work is an O(3)-equivariant map of clouds ``(1024, 100, 3)`` in float32. Libraries that wrap a backbone all wrap the
same one, an MLP on every row; e3nn, which builds equivariant layers instead, has a network of the same width. Every
library is used by its public interface, and only if it is installed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

import minframe as mf
from minframe_lab.backbones import Backbone
from minframe_lab.bench import mlp
from minframe_lab.cases import OURS
from minframe_lab.timing import ratios
from minframe_lab.verify import generator_for

SHAPE = (1024, 100, 3)
BOUND = 1e-5
WIDTH = 64


@dataclass(frozen=True)
class Peer:
    """A library, and how it makes an equivariant map of a backbone, or without one."""

    package: str
    method: str
    make: Callable[[nn.Module], Backbone]
    install: str = ""  # what to give to pip, if not the name of the package


@dataclass(frozen=True)
class Row:
    """One library: errors on Gaussian clouds and on such with three equal singular values, and time with quartiles.

    Of one that is not installed, or that does not work, there are no numbers.
    """

    method: str
    package: str
    ours: bool
    installed: bool
    version: str = ""
    install: str = ""
    problem: str = ""
    bound: float = BOUND
    rotation_error: float | None = None
    reflection_error: float | None = None
    equal_error: float | None = None
    low: float | None = None
    ratio: float | None = None
    high: float | None = None
    plain_seconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ours(frames: mf.frames.Method, compiled: bool = False) -> Callable[[nn.Module], Backbone]:
    """The backbone in frames of O(3), as it is or by ``torch.compile``, which leaves smooth frames themselves as is."""

    def make(backbone: nn.Module) -> Backbone:
        model = mf.Equivariant(backbone, mf.O(3), frames=frames).eval()
        return torch.compile(model) if compiled else model

    return make


def frame_averaging(stochastic: bool) -> Callable[[nn.Module], Backbone]:
    """Frame averaging by principal axes, by frame-averaging-pytorch."""

    def make(backbone: nn.Module) -> Backbone:
        package = importlib.import_module("frame_averaging_pytorch")
        return package.FrameAverage(backbone, dim=3, stochastic=stochastic)

    return make


def e3nn_network(backbone: nn.Module) -> Backbone:
    """A tensor product of the point with itself, gated, and a linear layer on the vectors it gives."""
    o3, layers = importlib.import_module("e3nn.o3"), importlib.import_module("e3nn.nn")
    gate = layers.Gate(f"{WIDTH}x0e", [torch.nn.functional.silu], f"{WIDTH}x0e", [torch.sigmoid], f"{WIDTH}x1o")
    product = o3.FullyConnectedTensorProduct("1x1o", "1x0e + 1x1o", gate.irreps_in)
    last = o3.Linear(gate.irreps_out, "1x1o")

    def run(x: Tensor) -> Tensor:
        return last(gate(product(x, torch.cat([torch.ones_like(x[..., :1]), x], -1))))

    return run


def lloca_wrapper(backbone: nn.Module) -> Backbone:
    """A frame of rotations for each cloud from two vectors that a network predicts from lengths, by lloca.

    Its own network for these vectors looks at all pairs of points, ten million of them here; this one does not.
    """
    framesnet, reps = importlib.import_module("lloca.framesnet"), importlib.import_module("lloca.reps")
    base = importlib.import_module("lloca.equivectors.base")
    weigh = nn.Sequential(nn.Linear(1, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 2))

    class Vectors(base.EquiVectors):  # type: ignore[misc, name-defined]
        def forward(self, fourmomenta: Tensor, scalars: Any = None, ptr: Any = None, **_: Any) -> Tensor:
            length = torch.linalg.vector_norm(fourmomenta[..., 1:], dim=-1, keepdim=True)
            return weigh(length).unsqueeze(-1) * fourmomenta.unsqueeze(-2)

    frames_of = framesnet.LearnedSO3Frames(equivectors=lambda n_vectors: Vectors(), is_global=True)
    transform = reps.TensorRepsTransform(reps.TensorReps("1x1n"))

    def run(x: Tensor) -> Tensor:
        momenta = torch.cat([torch.ones_like(x[..., :1]), x], -1)
        frames = frames_of(momenta)
        y = backbone(transform(momenta, frames)[..., 1:])
        y = torch.cat([torch.zeros_like(y[..., :1]), y], -1)
        return transform(y, framesnet.InverseFrames(frames))[..., 1:]

    return run


def published(backbone: nn.Module) -> Backbone:
    """The code published with the paper, which takes one cloud at a time: a loop over the batch."""
    decorators = importlib.import_module("minimal_frame.group_decorator")
    wrapped = decorators.od_equivariant_decorator(backbone.forward)

    def run(x: Tensor) -> Tensor:
        return torch.stack([wrapped(cloud) for cloud in x])

    return run


PEERS = (
    Peer("minframe", f"minframe: {OURS}", ours(mf.frames.Minimal())),
    Peer("minframe", f"minframe: {OURS}, compiled", ours(mf.frames.Minimal(), compiled=True)),
    Peer("minframe", "minframe: smooth frames", ours(mf.frames.Smooth())),
    Peer("minframe", "minframe: smooth frames, compiled", ours(mf.frames.Smooth(), compiled=True)),
    Peer("minframe", "minframe: smooth frames, 512 poses at once", ours(mf.frames.Smooth(chunk=512))),
    Peer("frame-averaging-pytorch", "frame-averaging-pytorch: FA", frame_averaging(False)),
    Peer("frame-averaging-pytorch", "frame-averaging-pytorch: stochastic FA", frame_averaging(True)),
    Peer(
        "minimal_frame",
        "published code of the paper: minimal frames, cloud by cloud",
        published,
        "git+https://github.com/divelab/MFA",
    ),
    Peer("e3nn", "e3nn: tensor product, gate, linear", e3nn_network),
    Peer("lloca", "lloca: one frame of SO(3) for each cloud", lloca_wrapper),
)


def run_peers(seed: int, rounds: int, slot: float, shape: tuple[int, int, int] = SHAPE) -> Iterator[Row]:
    """Errors of every library that is installed, then times of all that work, in turns."""
    backbone, x = _work(seed, shape)
    models: dict[str, Backbone] = {"plain": backbone}
    rows: list[dict[str, Any]] = []
    with torch.no_grad(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # of their code, which is not ours to mend
        for peer in PEERS:
            row: dict[str, Any] = {"method": peer.method, "package": peer.package, "ours": peer.package == "minframe"}
            version = installed_version(peer.package)
            if version is None:
                yield Row(**row, installed=False, install=f"pip install {peer.install or peer.package}")
                continue
            row |= {"installed": True, "version": version}
            torch.manual_seed(seed)
            try:
                model = peer.make(backbone)
                row |= errors(model, x, seed)
            except Exception as error:  # anything may go wrong in the code of others
                yield Row(**row, problem=f"does not work here: {type(error).__name__}: {error}")
                continue
            models[peer.method] = model
            rows.append(row)
        found, plain = ratios({name: _call(model, x) for name, model in models.items()}, "plain", rounds, slot)
    for row in rows:
        low, middle, high = found[row["method"]]
        yield Row(**row, low=low, ratio=middle, high=high, plain_seconds=plain)


def installed_version(package: str) -> str | None:
    """``None`` if it is not installed."""
    try:
        return mf.__version__ if package == "minframe" else importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def errors(model: Backbone, x: Tensor, seed: int) -> dict[str, float]:
    """The worst relative error: over rotations, over reflections, and over rotations of clouds without own axes."""
    turn = mf.SO(3).random(len(x), dtype=torch.float64, generator=generator_for(seed, "peers", "g"))
    axes, _, back = torch.linalg.svd(x.double(), full_matrices=False)
    return {
        "rotation_error": _error(model, x, turn),
        "reflection_error": _error(model, x, -turn),
        "equal_error": _error(model, (axes @ back * x.shape[1] ** 0.5).to(x.dtype), turn),
    }


def _error(model: Backbone, x: Tensor, g: Tensor) -> float:
    moved, expected = model((x.double() @ g.mT).to(x.dtype)).double(), model(x).double() @ g.mT
    size = torch.linalg.vector_norm(expected.flatten(1), dim=1)
    return float((torch.linalg.vector_norm((moved - expected).flatten(1), dim=1) / size).max())


def _work(seed: int, shape: tuple[int, int, int]) -> tuple[nn.Module, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return mlp(3), torch.randn(*shape, generator=generator_for(seed, "peers", "clouds"))


def _call(model: Backbone, x: Tensor) -> Callable[[], Tensor]:
    return lambda: model(x)
