"""EL-F and its competitors on the paper's six instances: mean and median pseudo-regret on common rewards (table 3).

    python -m experiments.table3

EL-F with both schedules at radius 0 and 3, R-UCB with both, FE with its three sequences, RDS with two bonuses. All meet
the same rewards. The instances are ours in the paper's spirit (`eljax.paper_instances`), so numbers compare in order,
not in value. A result is written as soon as it is finished; running again with the same arguments continues from those.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.results import Result, TailProbability
from experiments import common

G1, G2 = common.SCHEDULES.values()
# Radius 0 makes the EL index the mean, which is g-forcing: the same pulls without a solve.
POLICIES = {
    "EL-F g1, radius 0": policies.g_forcing(G1),
    "EL-F g1, radius 3": policies.el_f(G1, 3.0),
    "EL-F g2, radius 0": policies.g_forcing(G2),
    "EL-F g2, radius 3": policies.el_f(G2, 3.0),
    "R-UCB g1": policies.r_ucb(G1),
    "R-UCB g2": policies.r_ucb(G2),
    "FE sqrt": policies.fe("sqrt"),
    "FE linear": policies.fe("linear"),
    "FE exponential": policies.fe("exponential"),
    "RDS sqrt_log": policies.rds("sqrt_log"),
    "RDS log": policies.rds("log"),
}
SIZE = {"horizon": 10_000, "runs": 1_024}  # the paper's


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    names = {"instances": list(eljax.paper_instances()), "policies": list(POLICIES)}
    return common.main(work, __doc__, "table3", SIZE, argv, **names)


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    results = simulate(args)
    rows = [row(instance, name, result) for instance, by in results.items() for name, result in by.items()]
    title = f"Final pseudo-regret, our parameters, T = {args.horizon:,}, {args.runs:,} runs (se: standard error)"
    common.show(title, rows, args.out / "table.csv")
    figure(results, args.out / "table3.png")


def simulate(args: argparse.Namespace) -> dict[str, dict[str, Result]]:
    """The results by instance and policy."""
    bandits = eljax.paper_instances()
    jobs = {(x, name): (bandits[x], POLICIES[name]) for x in args.instances for name in args.policies}
    results = common.simulate_all(args, jobs)
    return {x: {name: results[x, name] for name in args.policies} for x in args.instances}


def row(instance: str, name: str, result: Result) -> dict:
    """One row of the table."""
    return {
        "instance": instance,
        "policy": name,
        "mean": result.mean()[-1],
        "mean_se": result.standard_error()[-1],
        "median": result.median()[-1],
        "median_se": result.median_standard_error()[-1],
        "q10": result.quantile(0.1)[-1],
        "q90": result.quantile(0.9)[-1],
        "high_regret": high_regret(result).probability,
    }


def high_regret(result: Result) -> TailProbability:
    """Frequency, with its exact interval, of runs that end with R(T) > 0.1 · (smallest gap > 0) · T."""
    return result.tail(0.1 * result.gaps[result.gaps > 0].min() * result.horizon)


def figure(results: dict[str, dict[str, Result]], path: Path) -> None:
    """Above the mean ± 2 standard errors, below the median; log axes, since regrets differ by 100 times."""
    picture = Figure(figsize=(3.3 * len(results) + 0.8, 6.4), layout="constrained")
    panels = picture.subplots(2, len(results), squeeze=False, sharex=True)
    for column, (instance, by_policy) in zip(panels.T, results.items(), strict=True):
        for (policy, result), (colour, marker) in zip(by_policy.items(), plots.styles(len(by_policy)), strict=True):
            t, mean, error = result.checkpoints, result.mean(), 2 * result.standard_error()
            style = {"color": colour, "marker": marker, "markersize": 4, "markevery": 8, "linewidth": 1.4}
            column[0].plot(t, mean, label=policy, **style)
            column[0].fill_between(t, mean - error, mean + error, color=colour, alpha=0.12, linewidth=0)
            column[1].plot(t, result.median(), **style)
        smallest = min(result.gaps[result.gaps > 0].min() for result in by_policy.values())
        for panel in column:
            panel.set(xscale="log", yscale="log")
            panel.set_ylim(bottom=smallest)
            panel.grid(alpha=0.25, linewidth=0.6)
        column[0].set_title(instance)
        column[1].set_xlabel("round t")
    panels[0, 0].set_ylabel("mean pseudo-regret")
    panels[1, 0].set_ylabel("median pseudo-regret")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 6), frameon=False)
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
