"""What frames of slabs cost: a whole pass of the network of the catalyst experiment, over stochastic frame averaging.

    minframe data is2re slabs --train 10 --others 60
    python lab/benchmarks/slabs.py slabs

Passes take turns, and medians of ratios of their processor times count, on one thread. "Found anew" has the frame
computed in every pass; "posed once" has poses as training has them, made once for a dataset, while stochastic frame
averaging draws in every pass. Weights are not trained: time does not depend on them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from minframe_lab.experiments.is2re.plane import FRAMES
from minframe_lab.experiments.is2re.recipe import IS2RE, TIMED_SLABS, throughput

AT_LEAST = 1.0  # times as many samples a second as stochastic frame averaging


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(f"{__doc__}\none folder is needed, got {sys.argv[1:]}")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("Samples a second of the processor, over stochastic frame averaging: found anew, posed once")
    for method in FRAMES:
        experiment = IS2RE(method=method)
        batch = experiment.data("test", Path(sys.argv[1]), limit=TIMED_SLABS)
        found = throughput(experiment.model().eval(), batch)
        anew, posed = found["over_stochastic"], found["posed_over_stochastic"]
        verdict = "" if min(anew, posed) >= AT_LEAST else "UNDER"
        print(f"  {method:12s} {anew:6.2f} {posed:6.2f}  at least {AT_LEAST:g}  {verdict}", flush=True)


if __name__ == "__main__":
    main()
