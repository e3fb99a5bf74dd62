"""The trap of Section 3: an EL index without forced exploration is stuck on the worse arm, EL-F is not.

    python -m experiments.trap

Arm 1 pays 2/ε with probability ε, else 0: mean 2. Arm 2 always pays 1. If the first reward of arm 1 is 0, its index is
0 for every radius, so naive EL-UCB plays arm 2 for ever, whatever its schedule (Remark 3.1):

    P[N₂(T + 1) = T − 1] = 1 − ε        E[R(T)] ≥ (1 − ε)(T − 1)

EL-F pulls arm 1 at least ⌈g(T)⌉ times, so it is still misled in round T with probability (1 − ε)^⌈g(T)⌉ at least, but
that vanishes: its regret per round falls.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.results import Result
from experiments import common

EPSILONS = {"0.5": 0.5, "0.2": 0.2, "0.1": 0.1, "0.05": 0.05}
POLICIES = {"naive EL-UCB": policies.el_ucb, "EL-F": policies.el_f}
SIZE = {"horizon": 10_000, "runs": 1_024}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    names = {"epsilons": list(EPSILONS), "policies": list(POLICIES), "schedules": list(common.SCHEDULES)}
    return common.main(work, __doc__, "trap", SIZE, argv, **names)


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    results = simulate(args)
    rows = [row(*names, result) for names, result in results.items()]
    title = f"P[N₂(T + 1) = T − 1] with its exact 95% interval, and regret; T = {args.horizon:,}, {args.runs:,} runs"
    common.show(title, rows, args.out / "table.csv")
    figure(results, rows, args.out / "trap.png")


def simulate(args: argparse.Namespace) -> dict[tuple[str, ...], Result]:
    """The result of each policy, schedule and ε."""
    jobs = {
        (f"{policy} {schedule}", epsilon): (bandit(EPSILONS[epsilon]), POLICIES[policy](common.SCHEDULES[schedule]))
        for policy in args.policies
        for schedule in args.schedules
        for epsilon in args.epsilons
    }
    return common.simulate_all(args, jobs)


def bandit(epsilon: float) -> eljax.Bandit:
    """Section 3's instance."""
    return eljax.Bandit([eljax.two_point([0.0, 2 / epsilon], [1 - epsilon, epsilon]), eljax.dirac(1.0)])


def row(policy: str, epsilon: str, result: Result) -> dict:
    """One policy and ε: the gap is 1, so R(T) = N₂(T + 1), which is at most T − 1."""
    horizon, tenth = result.horizon, np.searchsorted(result.checkpoints, result.horizon / 10)
    trapped = result.tail(horizon - 1.5)
    return {
        "policy": policy,
        "epsilon": epsilon,
        "trapped": trapped.probability,
        "low": trapped.lower,
        "high": trapped.upper,
        "1 - epsilon": 1 - EPSILONS[epsilon],
        "mean": result.mean()[-1],
        "mean_se": result.standard_error()[-1],
        "(1 - epsilon)(T - 1)": (1 - EPSILONS[epsilon]) * (horizon - 1),
        "R(T)/T": result.mean()[-1] / horizon,
        "R(T/10)/(T/10)": result.mean()[tenth] / result.checkpoints[tenth],
    }


def figure(results: dict[tuple[str, ...], Result], rows: Sequence[dict], path: Path) -> None:
    """The share of trapped runs against ε, and regret per round against the round at one ε."""
    picture = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = picture.subplots(1, 2)
    names = list(dict.fromkeys(row["policy"] for row in rows))
    middle = rows[len({row["epsilon"] for row in rows}) // 2]["epsilon"]
    left.axline((0, 1), slope=-1, color="0.6", linewidth=1, label="1 − ε")
    for i, (policy, colour) in enumerate(zip(names, plots.COLOURS, strict=False)):
        cells = [row for row in rows if row["policy"] == policy]
        x = np.array([EPSILONS[row["epsilon"]] for row in cells]) + 0.004 * (i - (len(names) - 1) / 2)
        share = np.array([row["trapped"] for row in cells])
        ends = [share - [row["low"] for row in cells], [row["high"] for row in cells] - share]
        left.errorbar(x, share, ends, color=colour, marker="o", ms=4, ls="", capsize=2, label=policy)
        result = results[policy, middle]
        style = {"color": colour, "linestyle": ("-", "--")[i % 2]}  # the trapped ones coincide
        right.plot(result.checkpoints, result.mean() / result.checkpoints, label=policy, **style)
    right.axhline(1 - EPSILONS[middle], color="0.6", linewidth=1, label="1 − ε")
    left.set(xlabel="ε", ylabel="share of runs with N₂(T + 1) = T − 1", ylim=(-0.03, 1.03), xlim=(0, None))
    right.set(xlabel="round t", ylabel="mean regret per round", xscale="log", ylim=(0, None), title=f"ε = {middle}")
    for panel in (left, right):
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.legend(frameon=False, fontsize="small")
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
