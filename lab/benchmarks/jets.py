"""How many jets are ordinary, so that compiled loops find their Lorentz frames in one call, and what frames cost.

    minframe data toptag jets --train 600 --validation 50 --test 50
    python lab/benchmarks/jets.py jets

Samples that are not ordinary (``minframe.linalg.at_rest``) are found in the general way, which is timed beside. Frames
are of batches of 256, with their pose, in processor time on one thread, the median of several.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch

import minframe as mf
from minframe.cloud import Input
from minframe.frame import indefinite
from minframe_lab.experiments.toptag.data import load

GROUP, BATCH, TURNS = mf.Lorentz(), 256, 15


def milliseconds(function: Callable[[], object]) -> float:
    times = []
    for _ in range(TURNS):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(f"{__doc__}\none folder is needed, got {sys.argv[1:]}")
    torch.set_num_threads(1)
    p, mask, *_ = load("train", Path(sys.argv[1]), 200, None)
    for dtype in (torch.float32, torch.float64):
        x = p.to(dtype)
        ordinary = 0
        for i in range(len(x)):
            found = indefinite.found_at_rest(GROUP, GROUP.cloud([Input("x", x[i : i + 1], "vector")], mask[i : i + 1]))
            ordinary += found is not None
        few, real = x[:BATCH], mask[:BATCH]
        now = milliseconds(lambda few=few, real=real: mf.canonicalize(few, GROUP, mask=real))
        with mock.patch.object(indefinite, "found_at_rest", return_value=None):
            general = milliseconds(lambda few=few, real=real: mf.canonicalize(few, GROUP, mask=real))
        print(
            f"{dtype}: {ordinary} of {len(x)} jets are ordinary; frames of {len(few)} jets take {now:.1f} ms, "
            f"{general:.1f} ms in the general way"
        )


if __name__ == "__main__":
    main()
