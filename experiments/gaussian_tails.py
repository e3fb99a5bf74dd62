"""P[R(T) > T/2] of two Gaussian arms against known values, and what a digit costs by each method.

Δ = σ = 1, schedule g2. The known values are by importance sampling in two independent codes. Radii 1, 8 and T = 1e5
with radius 3 have none: they are checked against I + ½ log n (`eljax.tails.rate`). A method's cost is its processor
time times the relative variance of its estimate: the seconds to a relative error of 100%, of which 10% takes a hundred
times as many. --horizon has no meaning here.
"""

import argparse
import math
import time
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.tails import rate
from experiments import common

BANDIT = eljax.Bandit([eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)])
SCHEDULE = common.SCHEDULES["g2"]
KNOWN = {  # (T, radius): P and its relative error
    (300, 0.0): (7.93e-5, 0.003),
    (1_000, 0.0): (2.309e-6, 0.003),
    (10_000, 0.0): (2.92e-10, 0.005),
    (100_000, 0.0): (3.87e-15, 0.01),
    (1_000, 3.0): (1.95e-9, 0.02),
    (10_000, 3.0): (7.34e-16, 0.02),
}
OTHERS = [(10_000, 1.0), (10_000, 8.0), (100_000, 3.0)]
RADIUS_0, RADIUS = 6.0, 1.0  # runs, in units of --runs: errors of 2% and of 5%
METHODS = {  # how an event is estimated, and runs in units of --runs
    "monte_carlo": ({"method": "monte_carlo"}, 10.0),
    "importance": ({"method": "importance"}, 1.0),
    "importance, fitted": ({"method": "importance", "tilts": "fitted"}, 1.0),
    "splitting": ({"method": "splitting"}, 1.0),
}
EVENTS = [(300, 0.0), (300, 3.0)]  # for the methods: rare, but within reach of all


def main(argv: Sequence[str] | None = None) -> int:
    """Estimate, write both tables and the figure; the exit code is 0, or 130 when interrupted."""
    return common.main(compare, __doc__, "gaussian_tails", {"runs": 10_000}, argv, parts=["values", "methods"])


def compare(args: argparse.Namespace) -> None:
    """The comparison, its files in `args.out`."""
    if "values" in args.parts:
        rows = [_value(args, horizon, radius) for horizon, radius in [*KNOWN, *OTHERS]]
        common.show("Tails of two Gaussian arms, Δ = σ = 1, g2: P[R(T) > T/2]", rows, args.out / "table.csv")
    if "methods" in args.parts:
        rows = [_method(args, *event, name) for event in EVENTS for name in METHODS]
        common.show("Seconds of processor time × relative variance, by method", rows, args.out / "methods.csv")
        _draw(rows, args.out / "gaussian_tails.png")


def policy(radius: float) -> eljax.types.Policy:
    """EL-F; at radius 0 as g-forcing, which is the same without a solve."""
    return policies.g_forcing(SCHEDULE) if radius == 0 else policies.el_f(SCHEDULE, radius)


def predicted(horizon: int, radius: float) -> float:
    """I + ½ log n at n = ⌈g(T/2)⌉: about −log P, to a constant."""
    n = math.ceil(float(SCHEDULE(np.float64(horizon / 2), 2)))
    level = math.sqrt(2 * radius / (horizon / 2))
    return rate.rate_function(BANDIT.arms[0], level=level, radius=radius, pulls=n).value + 0.5 * math.log(n)


def _value(args: argparse.Namespace, horizon: int, radius: float) -> dict:
    runs = int(args.runs * (RADIUS_0 if radius == 0 else RADIUS))
    path = args.out / f"{common.file_name(f'T {horizon}', f'radius {radius:g}')}.json"
    options = {"horizon": horizon, "threshold": horizon / 2, "method": "importance", "runs": runs, "seed": args.seed}
    found = common.estimate_or_load(path, BANDIT, policy(radius), **options)
    known, error = KNOWN.get((horizon, radius), (math.nan, math.nan))
    both = math.hypot(found.relative_error, error)
    return {
        "T": horizon,
        "radius": radius,
        "P": found.probability,
        "relative error": found.relative_error,
        "known": known,
        "standard errors off": math.log(found.probability / known) / both,
        "-log P - I - log(n)/2": -found.log_prob - predicted(horizon, radius),
        "effective sample": found.ess,
        "trusted": found.trusted,
    }


def _method(args: argparse.Namespace, horizon: int, radius: float, name: str) -> dict:
    options, runs = METHODS[name]
    event = {"horizon": horizon, "threshold": horizon / 2, "seed": args.seed, **options}
    eljax.tails.estimate(BANDIT, policy(radius), **event, runs=100)  # compiles
    start = time.process_time()
    found = eljax.tails.estimate(BANDIT, policy(radius), **event, runs=max(int(args.runs * runs), 100))
    seconds = time.process_time() - start
    print(f"T = {horizon}, radius {radius:g}: {found}", flush=True)
    return {
        "T": horizon,
        "radius": radius,
        "method": name,
        "P": found.probability,
        "relative error": found.relative_error,
        "seconds": seconds,
        "cost": seconds * found.relative_error**2,
        "trusted": found.trusted,
    }


def _draw(rows: list[dict], path) -> None:
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    panel = figure.subplots()
    for (horizon, radius), colour, shift in zip(EVENTS, plots.COLOURS, (-0.1, 0.1), strict=False):
        mine = [row for row in rows if (row["T"], row["radius"]) == (horizon, radius)]
        label = f"T = {horizon}, radius {radius:g}"
        panel.plot(np.arange(len(mine)) + shift, [row["cost"] for row in mine], "o", color=colour, label=label)
    panel.set_xticks(range(len(METHODS)), METHODS)
    panel.set(yscale="log", ylabel="processor seconds × relative variance")
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.legend(fontsize="small", frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    raise SystemExit(main())
