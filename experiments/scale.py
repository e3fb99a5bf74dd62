"""The same arms in another unit: R-UCB on Beta rewards in [0, 1] and in [0, 50], and EL-F beside it.

    python -m experiments.scale

Regret is shown in units of the scale, so that a policy without a unit of its own has the same in both. The last column
is the share of runs with the same pulls at every checkpoint; the streams of rewards are the same, up to the scale and
the rounding it brings. The instances are `eljax.paper_instances()`, our parameters.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.results import Result
from experiments import common

SCALE = 50.0
INSTANCES = ("beta_small_gap", "beta_easy")
G1, G2 = common.SCHEDULES["g1"], common.SCHEDULES["g2"]
POLICIES = {
    "R-UCB g1": lambda: policies.r_ucb(G1),
    "R-UCB g2": lambda: policies.r_ucb(G2),
    "EL-F g1, radius 3": lambda: policies.el_f(G1, 3.0),
    "EL-F g2, radius 3": lambda: policies.el_f(G2, 3.0),
}
SIZE = {"horizon": 10_000, "runs": 1_024}  # the paper's


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "scale", SIZE, argv, instances=INSTANCES)


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    rows, pairs = measure(args)
    title = f"Final pseudo-regret in units of the scale, our parameters, T = {args.horizon:,}, {args.runs:,} runs"
    common.show(f"{title} (se: standard error)", rows, args.out / "table.csv")
    figure(pairs, args.out / "scale.png")


def measure(args: argparse.Namespace) -> tuple[list[dict], dict[tuple[str, str], tuple[Result, Result]]]:
    """One row, and the results on [0, 1] and [0, 50], per instance and policy."""
    bandits = eljax.paper_instances()
    jobs = {
        (name, policy): (bandits[name], make())
        for instance in args.instances
        for policy, make in POLICIES.items()
        for name in (f"{instance}_unit", instance)
    }
    results = common.simulate_all(args, jobs)
    pairs = {
        (instance, policy): (results[f"{instance}_unit", policy], results[instance, policy])
        for instance in args.instances
        for policy in POLICIES
    }
    return [row(*names, *pair) for names, pair in pairs.items()], pairs


def row(instance: str, policy: str, unit: Result, scaled: Result) -> dict:
    """Mean and median of both versions, and the share of runs that are the same."""
    return {
        "instance": instance,
        "policy": policy,
        "mean [0, 1]": unit.mean()[-1],
        "mean_se [0, 1]": unit.standard_error()[-1],
        "mean [0, 50]": scaled.mean()[-1] / SCALE,
        "mean_se [0, 50]": scaled.standard_error()[-1] / SCALE,
        "median [0, 1]": unit.median()[-1],
        "median [0, 50]": scaled.median()[-1] / SCALE,
        "same_pulls": same_pulls(unit, scaled),
    }


def same_pulls(first: Result, second: Result) -> float:
    """Share of runs with the same pulls of the worse of two arms at every checkpoint."""
    one, other = (np.rint(result.regret / result.gaps.max()) for result in (first, second))
    return float((one == other).all(axis=1).mean())


def figure(pairs: Mapping[tuple[str, str], tuple[Result, Result]], path: Path) -> None:
    """Mean and median regret in units of the scale against t; both versions of a policy in one colour."""
    instances = list(dict.fromkeys(instance for instance, _ in pairs))
    picture = Figure(figsize=(4.8 * len(instances), 7.0), layout="constrained")
    panels = picture.subplots(2, len(instances), squeeze=False, sharex=True)
    for column, instance in zip(panels.T, instances, strict=True):
        for (_, policy), colour in zip((n for n in pairs if n[0] == instance), plots.COLOURS, strict=False):
            for result, scale, style in zip(pairs[instance, policy], (1, SCALE), ("-", "--"), strict=True):
                label = f"{policy}, rewards in [0, {scale:g}]"
                for panel, curve in zip(column, (result.mean(), result.median()), strict=True):
                    panel.plot(result.checkpoints, curve / scale, style, color=colour, label=label)
        column[0].set_title(instance)
        column[1].set_xlabel("round t")
        for panel in column:
            panel.set_xscale("log")
            panel.grid(alpha=0.25, linewidth=0.6)
    panels[0, 0].set_ylabel("mean pseudo-regret / scale")
    panels[1, 0].set_ylabel("median pseudo-regret / scale")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
