"""Theorem 5.1(1): R(T)/g(T) → Σ Δ almost surely, heavy tails with a finite mean included: single paths.

    python -m experiments.almost_sure

EL-F with radius 3 and g2 on two arms of each law, gap .5. Almost sure convergence is a statement on single paths, so a
few long ones are shown, never a mean. A path above its limit at the last round does not contradict the theorem: the
mean of n rewards settles like n^(−1/2), but like n^(−1/3) on Pareto arms of shape 1.5, and an arm that looks worse than
it is has only (log T)²/2 rewards to correct that.
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
from experiments import common, heavy_tails

LAWS = [law for law in heavy_tails.LAWS if law != "student t, 1.5"]
SIZE = {"horizon": 1_000_000, "runs": 8}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "almost_sure", SIZE, argv, laws=LAWS)


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    results = simulate(args)
    rows = [row(law, result) for law, result in results.items()]
    title = f"R(T)/g(T) over its limit Σ Δ, {args.runs:,} paths to T = {args.horizon:,} (forced: ⌈g(T)⌉/g(T))"
    common.show(title, rows, args.out / "table.csv")
    figure(results, args.out / "almost_sure.png")


def simulate(args: argparse.Namespace) -> dict[str, Result]:
    """The paths on each law."""
    policy = policies.el_f(common.SCHEDULES["g2"], 3.0)
    jobs = {(law,): (eljax.Bandit(heavy_tails.LAWS[law]), policy) for law in args.laws}
    with common.narrow_tiles(max(1, -(-args.runs // 2))):  # a scan of few lanes is as fast as one of one: two at a time
        return {names[0]: result for names, result in common.simulate_all(args, jobs).items()}


def ratio(result: Result) -> np.ndarray:
    """[R, C]: R(t)/(g2(t) Σ Δ) after the rounds of the checkpoints, from t = 10 on, where g2 is above 2."""
    return (result.regret / (np.log(np.maximum(result.checkpoints, 2)) ** 2 / 2 * result.gaps.sum()))[:, _shown(result)]


def row(law: str, result: Result) -> dict:
    """The paths' range at T/100, T/10 and T, and what the forced pulls alone would give."""
    paths, t = ratio(result), result.checkpoints[_shown(result)]
    cells: dict = {"law": law}
    for part, name in ((100, "T/100"), (10, "T/10"), (1, "T")):
        values = np.sort(paths[:, np.searchsorted(t, result.horizon / part)])
        cells |= {f"least at {name}": values[0], f"median at {name}": np.median(values), f"most at {name}": values[-1]}
    g = np.log(result.horizon) ** 2 / 2
    return cells | {"forced": np.ceil(g) / g}


def _shown(result: Result) -> np.ndarray:
    return result.checkpoints >= 10


def figure(results: dict[str, Result], path: Path) -> None:
    """One panel per law: every path, and the limit 1."""
    picture = Figure(figsize=(3.4 * len(results) + 0.6, 3.8), layout="constrained")
    panels = picture.subplots(1, len(results), squeeze=False, sharey=True)[0]
    for panel, (law, result) in zip(panels, results.items(), strict=True):
        t = result.checkpoints[_shown(result)]
        panel.plot(t, ratio(result).T, color=plots.COLOURS[0], linewidth=0.9, alpha=0.8)
        panel.axhline(1, color="0.4", linewidth=1, ls="--")
        panel.set(title=law, xlabel="round t", xscale="log", yscale="log")
        panel.grid(alpha=0.25, linewidth=0.6)
    panels[0].set_ylabel("R(t) / (g2(t) Σ Δ)")
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
