"""Compile the kernel of ``minframe.linalg.kernel`` for GPUs that need not be there: registers and spills.

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

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel

from minframe.linalg import gpu

TARGETS = {
    "NVIDIA A100 (sm_80)": GPUTarget("cuda", 80, 32),
    "NVIDIA H100 (sm_90)": GPUTarget("cuda", 90, 32),
    "AMD MI250 (gfx90a)": GPUTarget("hip", "gfx90a", 64),
}
KERNEL = gpu.load()
FLAGS = ("HAS_ORIGIN", "HAS_MASK", "HAS_FLOOR", "HAS_SHORT", "HAS_ROW_FLOOR", "HAS_LONGEST")
TYPES = {
    "x": "*fp32",
    "mask": "*i8",
    "longest": "*i8",
    "pose": "*fp32",
    "positions": "*i64",
    "determined": "*i8",
    "several": "*i8",
    **dict.fromkeys(("n", "x_sample", "x_row", "x_coordinate"), "i32"),
    **dict.fromkeys(("noise", "constant_floor", "fraction", "tolerance", "tie", "speck", "tiny"), "fp64"),
}


def compiled(target: GPUTarget, d: int, given: tuple[str, ...]) -> CompiledKernel:
    """The kernel for clouds of dimension ``d`` with these optional inputs."""
    constants = {
        "D": d,
        "PADDED": gpu.power_of_two(d),
        "BLOCK": gpu.BLOCK_ROWS,
        "SPECIAL": True,
        **{flag: flag in given for flag in FLAGS},
    }
    names = KERNEL.arg_names
    signature = {name: "constexpr" if name in constants else TYPES.get(name, "*fp64") for name in names}
    return triton.compile(ASTSource(KERNEL, signature, constants), target=target)


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


def rows() -> Iterator[str]:
    """A line for each target, dimension and set of inputs."""
    for name, target in TARGETS.items():
        for d in (2, 3, 4, 8):
            for given in (("HAS_ORIGIN",), FLAGS):
                used, spilled = registers(compiled(target, d, given), target)
                inputs = "origin" if len(given) == 1 else "all inputs"
                yield f"  {name:22s} d = {d}, {inputs:11s} {used:4d} registers, {spilled:4d} spilled"


def main() -> None:
    print("The pivoted decomposition, compiled without a GPU (speed has not been measured)")
    for row in rows():
        print(row, flush=True)


if __name__ == "__main__":
    main()
