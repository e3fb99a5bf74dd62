"""EL-F where the paper leaves the question open: heavy-tailed arms beside light-tailed ones.

    python -m experiments.heavy_tails

Student t with 3 degrees of freedom has a variance but no third moment, with 1.5 no variance; Pareto with shape 1.5 has
no variance and its heavy tail on one side. All have means, which is all that Theorem 5.1(1) asks for; the bounds on the
mean regret and on its tail (5.1(2), 6.1) are for light tails. All gaps are .5. `growth` is the exponent a of mean
regret ~ T^a between T/10 and T: 1 is linear, and the forced pulls alone would give `forced`.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.results import Result
from experiments import common, table3

LAWS = {
    "gaussian": (eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)),
    "exponential": (eljax.exponential(1.5), eljax.exponential(1.0)),
    "student t, 3": (eljax.student_t(3.0, 0.5, 1.0), eljax.student_t(3.0, 0.0, 1.0)),
    "student t, 1.5": (eljax.student_t(1.5, 0.5, 1.0), eljax.student_t(1.5, 0.0, 1.0)),
    "pareto, 1.5": (eljax.pareto(1.5, 3.5 / 3), eljax.pareto(1.5, 1.0)),  # means 3.5 and 3
}
RADII = {"0": policies.g_forcing, "3": policies.el_f}  # radius 0 without a solve, and the default
SIZE = {"horizon": 10_000, "runs": 1_024}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    names = {"laws": list(LAWS), "radii": list(RADII), "schedules": list(common.SCHEDULES)}
    return common.main(work, __doc__, "heavy_tails", SIZE, argv, **names)


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    results = simulate(args)
    rows = [row(*names, result) for names, result in results.items()]
    title = (
        f"Final pseudo-regret, T = {args.horizon:,}, {args.runs:,} runs (high: share of runs with R(T) > 0.1 · gap · T)"
    )
    common.show(title, rows, args.out / "table.csv")
    figure(results, args.out / "heavy_tails.png")


def simulate(args: argparse.Namespace) -> dict[tuple[str, ...], Result]:
    """The result of each law, schedule and radius."""
    jobs = {
        (law, schedule, f"radius {radius}"): (eljax.Bandit(LAWS[law]), RADII[radius](common.SCHEDULES[schedule]))
        for law in args.laws
        for schedule in args.schedules
        for radius in args.radii
    }
    return common.simulate_all(args, jobs)


def row(law: str, schedule: str, radius: str, result: Result) -> dict:
    """One law, schedule and radius."""
    tenth = np.searchsorted(result.checkpoints, result.horizon / 10)
    decades = math.log(result.horizon / result.checkpoints[tenth])
    at = [0.1 * result.gaps.max() * t for t in result.checkpoints[[tenth, -1]]]
    forced = [float(common.SCHEDULES[schedule](float(t), 2)) for t in result.checkpoints[[tenth, -1]]]
    high = table3.high_regret(result)
    return {
        "law": law,
        "schedule": schedule,
        "radius": radius.removeprefix("radius "),
        "mean": result.mean()[-1],
        "mean_se": result.standard_error()[-1],
        "median": result.median()[-1],
        "median_se": result.median_standard_error()[-1],
        "high": high.probability,
        "low end": high.lower,
        "high end": high.upper,
        "high at T/10": float((result.regret[:, tenth] > at[0]).mean()),
        "growth": math.log(result.mean()[-1] / result.mean()[tenth]) / decades,
        "forced": math.log(forced[1] / forced[0]) / decades,
    }


def figure(results: dict[tuple[str, ...], Result], path: Path) -> None:
    """One panel per law: mean and median against the round, on log axes."""
    laws = list(dict.fromkeys(law for law, _, _ in results))
    picture = Figure(figsize=(3.1 * len(laws) + 0.6, 3.9), layout="constrained")
    panels = picture.subplots(1, len(laws), squeeze=False, sharey=True)[0]
    for panel, law in zip(panels, laws, strict=True):
        of_law = {names[1:]: result for names, result in results.items() if names[0] == law}
        for ((schedule, radius), result), colour in zip(of_law.items(), plots.COLOURS, strict=False):
            shown = result.checkpoints >= 10
            t = result.checkpoints[shown]
            panel.plot(t, result.mean()[shown], color=colour, label=f"{schedule}, {radius}: mean")
            panel.plot(t, result.median()[shown], color=colour, ls="--", label=f"{schedule}, {radius}: median")
        panel.set(title=law, xlabel="round t", xscale="log", yscale="log")
        panel.grid(alpha=0.25, linewidth=0.6)
    panels[0].set_ylabel("pseudo-regret")
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=min(4, max(2, len(laws))), frameon=False)
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
