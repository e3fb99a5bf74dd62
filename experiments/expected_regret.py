"""Theorem 5.1(2): on light tails the mean regret of EL-F is the forced one, Δ⌈g(T)⌉, plus a constant free of T.

    python -m experiments.expected_regret

Two Gaussian arms with Δ = σ and the schedule g2: Σ exp(−Δ²g(t)/2σ²), the sum of the probabilities that arm 1 is
misjudged at its forced pulls, has then flattened at t ≈ e⁴. (With g1 it flattens at t ≈ e⁵⁴: nothing can be seen.)
Shown is mean regret − Δ⌈g(T)⌉. The theorem asks for g(t) ≤ t − 1 from t = 2 on; a schedule that breaks it is reported.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.results import Result
from eljax.schedules import Schedule
from experiments import common

SIGMA = 1.0
BANDIT = eljax.Bandit([eljax.gaussian(SIGMA, SIGMA), eljax.gaussian(0.0, SIGMA)])
RADII = {"0": policies.g_forcing, "3": policies.el_f}  # radius 0 without a solve, and the default
SIZE = {"horizon": 100_000, "runs": 4_096}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "expected_regret", SIZE, argv, radii=list(RADII))


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    results = simulate(args)
    rows = [row for radius, result in results.items() for row in decades(radius, result)]
    title = f"Mean regret beyond the forced Δ⌈g2(t)⌉, two Gaussian arms with Δ = σ, {args.runs:,} runs"
    common.show(title, rows, args.out / "table.csv")
    figure(results, args.out / "expected_regret.png")


def simulate(args: argparse.Namespace) -> dict[str, Result]:
    """The result of each radius."""
    schedule = common.SCHEDULES["g2"]
    first = first_breach(schedule, BANDIT.num_arms, args.horizon)
    if first is not None:
        print(f"Warning: g(t) > t − 1 at t = {first}: the theorem does not speak of this schedule", file=sys.stderr)
    jobs = {(f"radius {radius}",): (BANDIT, RADII[radius](schedule)) for radius in args.radii}
    return {names[0]: result for names, result in common.simulate_all(args, jobs).items()}


def first_breach(schedule: Schedule, num_arms: int, horizon: int) -> int | None:
    """The first t >= 2 with g(t) > t − 1, if there is one: only a g that outgrows t can have it late."""
    t = np.unique(np.geomspace(2, max(horizon, 2), 1_000).round())
    with jax.enable_x64(True):
        values = np.asarray(jax.vmap(lambda s: schedule(s, num_arms))(t))
    breaches = t[values > t - 1]
    return int(breaches[0]) if breaches.size else None


def excess(result: Result) -> np.ndarray:
    """[R, C]: regret − Δ⌈g2(t)⌉ after the rounds of the checkpoints."""
    forced = [math.ceil(max(math.log(t) ** 2 / 2, 0.5)) for t in result.checkpoints]
    return result.regret - result.gaps.max() * np.array(forced)


def decades(radius: str, result: Result) -> list[dict]:
    """A row at each power of ten, and how much was added since the last one."""
    beyond, rows = excess(result), []
    at = [i for d in range(1, 10) if 10**d <= result.horizon for i in [np.searchsorted(result.checkpoints, 10**d)]]
    for i, last in zip(at, [None, *at], strict=False):
        mean, error = _mean(beyond[:, i])
        regret = result.mean()[i]
        row = {"radius": radius.removeprefix("radius "), "t": int(result.checkpoints[i]), "mean": regret}
        row |= {"forced": regret - mean, "excess": mean, "excess_se": error}
        growth, growth_se = (math.nan, math.nan) if last is None else _mean(beyond[:, i] - beyond[:, last])
        rows.append(row | {"added in the decade": growth, "added_se": growth_se, "largest": result.regret[:, i].max()})
    return rows


def _mean(x: np.ndarray) -> tuple[float, float]:
    return float(x.mean()), float(x.std(ddof=1) / math.sqrt(x.size)) if x.size > 1 else math.nan


def figure(results: dict[str, Result], path: Path) -> None:
    """Mean regret beyond the forced one, ± 2 standard errors, against the round."""
    picture = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = picture.subplots()
    for (radius, result), colour in zip(results.items(), plots.COLOURS, strict=False):
        beyond = excess(result)
        mean, error = beyond.mean(0), 2 * beyond.std(0, ddof=1) / math.sqrt(result.runs)
        axes.plot(result.checkpoints, mean, color=colour, label=radius)
        axes.fill_between(result.checkpoints, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    axes.axhline(0, color="0.6", linewidth=1)
    axes.set(xscale="log", xlabel="round t", ylabel="mean regret − Δ⌈g2(t)⌉")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(frameon=False)
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
