"""The largest mean regret over the gap, against the horizon: what small regret on each instance costs over all of them.

    python -m experiments.worst_case      # about half an hour on two cores

Hadiji and Stoltz (2023): a policy that does not know the range of its rewards and whose regret on each instance grows
like g(T) has instances, another one for every T, on which it grows like T / g(T) or faster. Three families of two arms,
each with a grid of gaps; regret is in units of the scale:

    gaussian        N(Δ, 1), N(0, 1)
    gaussian x 50   the same times 50: what has no unit of its own behaves as before
    rare            Bernoulli(2Δ) and its half, 2Δ · 1/2, for sure: until the first 1 is seen, the best arm looks worst
    rare x 50       the same times 50

UCB is told the scale, 1 or 50 (1/2 or 25 on the rare rewards), which is what the others have to do without. All
policies here are anytime, so the regret at the checkpoints of one run serves as that of shorter horizons; the exponent
is the slope of log (largest mean regret) in log T from T/30 on. T/g(T) itself has an exponent below 1 there: it is
printed too.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.results import Result
from eljax.types import Policy
from experiments import common

G1, G2 = common.SCHEDULES["g1"], common.SCHEDULES["g2"]
GAPS = tuple(2.0**-k for k in range(9))


def _gaussian(gap: float, scale: float) -> eljax.Bandit:
    return eljax.Bandit([eljax.gaussian(scale * gap, scale), eljax.gaussian(0.0, scale)])


def _rare(gap: float, scale: float) -> eljax.Bandit:
    return eljax.Bandit([eljax.two_point([0.0, scale], [1 - 2 * gap, 2 * gap]), eljax.dirac(scale * gap)])


# name -> bandit of a gap, scale, σ of sub-Gaussian rewards, gaps
FAMILIES: dict[str, tuple[Callable[[float, float], eljax.Bandit], float, float, Sequence[float]]] = {
    "gaussian": (_gaussian, 1.0, 1.0, GAPS),
    "gaussian x 50": (_gaussian, 50.0, 50.0, GAPS),
    "rare": (_rare, 1.0, 0.5, GAPS[2:]),
    "rare x 50": (_rare, 50.0, 25.0, GAPS[2:]),
}
POLICIES: dict[str, Callable[[float], Policy]] = {  # of the σ that UCB is told
    "EL-F g1, radius 3": lambda sigma: policies.el_f(G1, 3.0),
    "EL-F g2, radius 3": lambda sigma: policies.el_f(G2, 3.0),
    "R-UCB g2": lambda sigma: policies.r_ucb(G2),
    "RDS sqrt_log": lambda sigma: policies.rds("sqrt_log"),
    "AHB": lambda sigma: policies.ahb(),
    "UCB, told the scale": lambda sigma: policies.ucb(sigma),
}
SIZE = {"horizon": 20_000, "runs": 512}
SHORT = {"RDS sqrt_log": {"horizon": 4_000, "runs": 256}}  # at small gaps its cost is quadratic in the horizon


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    names = {"families": list(FAMILIES), "policies": list(POLICIES)}
    return common.main(work, __doc__, "worst_case", SIZE, argv, **names)


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    envelopes = {(f, p): envelope(measure(args, f, p)) for f in args.families for p in args.policies}
    rows = [row(*names, *found) for names, found in envelopes.items()]
    title = "Largest mean pseudo-regret over the gap, in units of the scale"
    common.show(f"{title} (se: standard error)", rows, args.out / "table.csv")
    t = np.geomspace(args.horizon / 30, args.horizon)
    for name, schedule in common.SCHEDULES.items():
        g = np.array([float(schedule(x, 2)) for x in t])
        print(f"Exponent of T / {name}(T) on the same T: {exponent(t, t / g):.3f}")
    figure(envelopes, args.out / "worst_case.png")


def measure(args: argparse.Namespace, family: str, policy: str) -> dict[float, Result]:
    """The result at each gap."""
    bandit, scale, sigma, gaps = FAMILIES[family]
    short = {name: min(value, getattr(args, name)) for name, value in SHORT.get(policy, {}).items()}
    jobs = {(family, policy, f"gap {gap:g}"): (bandit(gap, scale), POLICIES[policy](sigma)) for gap in gaps}
    results = common.simulate_all(argparse.Namespace(**(vars(args) | short)), jobs)
    return dict(zip(gaps, results.values(), strict=True))


def envelope(results: Mapping[float, Result]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(t, largest mean regret / scale, its standard error, the gap it is at), [C] each."""
    t = next(iter(results.values())).checkpoints
    scales = [result.gaps.max() / gap for gap, result in results.items()]
    means, errors = (
        np.array([curve / scale for curve, scale in zip(curves, scales, strict=True)])
        for curves in zip(*((result.mean(), result.standard_error()) for result in results.values()), strict=True)
    )
    worst = means.argmax(axis=0)
    places = np.arange(t.size)
    return t, means[worst, places], errors[worst, places], np.array(list(results))[worst]


def row(family: str, policy: str, t: np.ndarray, largest: np.ndarray, error: np.ndarray, gap: np.ndarray) -> dict:
    """The end of the envelope and its growth."""
    return {
        "family": family,
        "policy": policy,
        "horizon": int(t[-1]),
        "largest_mean": largest[-1],
        "se": error[-1],
        "at_gap": gap[-1],
        "exponent": exponent(t, largest),
    }


def exponent(t: np.ndarray, values: np.ndarray) -> float:
    """Slope of log values in log t on the last part of t."""
    late = (t >= t[-1] / 30) & (values > 0)
    return float(np.polyfit(np.log(t[late]), np.log(values[late]), 1)[0])


def figure(envelopes: Mapping[tuple[str, str], tuple], path: Path) -> None:
    """A panel per family: largest mean regret against T on log axes, with lines of slope 1/2 and 1."""
    families = list(dict.fromkeys(family for family, _ in envelopes))
    picture = Figure(figsize=(4.3 * len(families), 4.6), layout="constrained")
    panels = picture.subplots(1, len(families), squeeze=False, sharey=True)[0]
    for panel, family in zip(panels, families, strict=True):
        mine = [(policy, *found) for (name, policy), found in envelopes.items() if name == family]
        for (policy, t, largest, error, _), colour in zip(mine, plots.COLOURS, strict=False):
            late = t >= 10
            panel.plot(t[late], largest[late], color=colour, label=policy)
            panel.fill_between(
                t[late], (largest - 2 * error)[late], (largest + 2 * error)[late], color=colour, alpha=0.2
            )
        ends = np.array([100.0, max(t[-1] for _, t, *_ in mine)])
        for slope, style in ((1.0, ":"), (0.5, "-.")):
            panel.plot(ends, 3 * (ends / ends[0]) ** slope, style, color="0.5", label=f"slope {slope:g}")
        panel.set(xscale="log", yscale="log", title=family, xlabel="horizon T")
        panel.grid(alpha=0.25, linewidth=0.6)
    panels[0].set_ylabel("largest mean pseudo-regret / scale")
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
