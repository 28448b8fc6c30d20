"""Compile the kernels of ``minframe.linalg.gpu`` for GPUs that need not be there: registers and spills.

    pip install -e ".[gpu]" && python lab/benchmarks/gpu.py

Triton compiles for a target without having one, and its assembler says how many registers a thread takes and how many
bytes do not fit into them (spills). What is *not* here is speed: that needs a GPU, and none was at hand.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel

from minframe.linalg import gpu
from minframe.linalg.ramp import CUT_WIDTH, FLATNESS

TARGETS = {
    "NVIDIA A100 (sm_80)": GPUTarget("cuda", 80, 32),
    "NVIDIA H100 (sm_90)": GPUTarget("cuda", 90, 32),
    "AMD MI250 (gfx90a)": GPUTarget("hip", "gfx90a", 64),
}
KERNELS = gpu.load()
FLAGS = ("HAS_ORIGIN", "HAS_MASK", "HAS_FLOOR", "HAS_SHORT", "HAS_ROW_FLOOR", "HAS_LONGEST")
COUNTS = ("n", *(f"{tensor}_{axis}" for tensor in "xy" for axis in ("sample", "pose", "row", "coordinate")))
NUMBERS = ("noise", "constant_floor", "fraction", "tolerance", "tie", "speck", "tiny", "massless", "max_ratio")
BYTES = ("mask", "longest", "determined", "several", "momentum")
TYPES = {
    "x": "*fp32",
    "pose": "*fp32",
    "positions": "*i64",
    **dict.fromkeys(BYTES, "*i8"),
    **dict.fromkeys(COUNTS, "i32"),
    **dict.fromkeys((*NUMBERS, "half_sharpness"), "fp64"),
}


def compiled(kernel: Any, target: GPUTarget, d: int, **options: Any) -> CompiledKernel:
    """A kernel for clouds of dimension ``d``, with these constants."""
    constants = {"D": d, "PADDED": gpu.power_of_two(d), "BLOCK": gpu.BLOCK_ROWS, **options}
    types = TYPES if kernel is not KERNELS.rest_frame else TYPES | {"x": "*fp64"}
    signature = {name: "constexpr" if name in constants else types.get(name, "*fp64") for name in kernel.arg_names}
    return triton.compile(ASTSource(kernel, signature, constants), target=target)


def registers(kernel: CompiledKernel, target: GPUTarget) -> tuple[int, int]:
    """Of a thread, and bytes that are spilled."""
    if target.backend == "cuda":
        folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
        assembler = folder / ("ptxas" if target.arch < 90 else "ptxas-blackwell")
        name = re.search(r"\.target (\w+)", kernel.asm["ptx"])
        assert name is not None
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(kernel.asm["ptx"])
            file.flush()
            command = [assembler, "-v", f"--gpu-name={name[1]}", file.name, "-o", "/dev/null"]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        used = re.search(r"Used (\d+) registers", said)
        spilled = re.search(r"(\d+) bytes spill stores", said)
    else:
        text = kernel.asm["amdgcn"]
        used, spilled = re.search(r"\.vgpr_count:\s+(\d+)", text), re.search(r"\.vgpr_spill_count:\s+(\d+)", text)
    assert used is not None
    assert spilled is not None
    return int(used[1]), int(spilled[1])


def cases() -> Iterator[tuple[str, Any, int, dict[str, Any]]]:
    """The kernels, for several dimensions and sets of inputs."""
    for d in (2, 3, 4, 8):
        for given in (("HAS_ORIGIN",), FLAGS):
            inputs = "origin" if len(given) == 1 else "all inputs"
            flags = {flag: flag in given for flag in FLAGS}
            yield f"decompose, {inputs}", KERNELS.decompose, d, {"SPECIAL": True, **flags}
    for d in (3, 8):
        yield "mean", KERNELS.mean, d, {"HAS_MASK": True}
        yield "weigh (smooth frames)", KERNELS.weigh, d, {"FLATNESS": FLATNESS, "CUT": CUT_WIDTH}
    for d in (4, 8):
        yield "rest frame (Lorentz)", KERNELS.rest_frame, d, {"TIME": 0, "HAS_LEAST": True}


def main() -> None:
    print("Kernels compiled without a GPU (speed has not been measured)")
    for name, target in TARGETS.items():
        for what, kernel, d, options in cases():
            used, spilled = registers(compiled(kernel, target, d, **options), target)
            print(f"  {name:22s} {what:24s} d = {d} {used:4d} registers, {spilled:4d} spilled", flush=True)


if __name__ == "__main__":
    main()
