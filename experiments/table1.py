"""The paper's comparison of policies (table 1) as a measured table: what each needs to know, and how its regret grows.

    python -m experiments.table1

Two Gaussian arms, N(.5, 1) and N(0, 1), and the same times 50. Per policy:

    scale_free    share of runs with the same pulls at every checkpoint when rewards are multiplied by 50 (in float32
                  the product rounds, which may flip a near tie)
    anytime       share of runs that begin as they would with a shorter horizon
    grows_like    the f among log T, g1, g2, √T, T for which a + b f(T) fits the mean regret best from T/30 on, in
                  relative squares, and the fit's relative error; where the horizon is used, at several horizons
    R > .1 Δ T    share of high-regret runs, with its exact 95% interval; and the share beyond .4 Δ T: a tail of 1/x
                  loses three quarters from one to the other
    knows         what the policy has to be told of the rewards, by its own docstring
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
from experiments.scale import SCALE, same_pulls

G1, G2 = common.SCHEDULES["g1"], common.SCHEDULES["g2"]
NOTHING = "nothing"
POLICIES = {  # name -> (policy, what it knows of the rewards)
    "EL-F g1, radius 3": (lambda: policies.el_f(G1, 3.0), NOTHING),
    "EL-F g2, radius 3": (lambda: policies.el_f(G2, 3.0), NOTHING),
    "EL-F g2, radius 0": (lambda: policies.g_forcing(G2), NOTHING),
    "R-UCB g1": (lambda: policies.r_ucb(G1), "a unit"),
    "R-UCB g2": (lambda: policies.r_ucb(G2), "a unit"),
    "FE sqrt": (lambda: policies.fe("sqrt"), "the horizon"),
    "FE linear": (lambda: policies.fe("linear"), NOTHING),
    "FE exponential": (lambda: policies.fe("exponential"), "the horizon"),
    "RDS sqrt_log": (lambda: policies.rds("sqrt_log"), NOTHING),
    "RDS log": (lambda: policies.rds("log"), NOTHING),
    "AHB": (lambda: policies.ahb(), "that they are bounded"),
    "UCB": (lambda: policies.ucb(1.0), "their scale"),
    "KL-UCB": (lambda: policies.kl_ucb("gaussian"), "their family"),
    "KL-UCB, rate 2 log t": (lambda: policies.kl_ucb("gaussian", inflation=1.0), "their family"),
    "ISM-NORMAL2": (lambda: policies.ism_normal(), "that they are Gaussian"),
    "IMED": (lambda: policies.imed("gaussian"), "their family"),
    "TS": (lambda: policies.thompson("gaussian"), "their family"),
}
GROWTH = {
    "log T": np.log,
    "g1": lambda t: np.log(t) * np.log(np.log(t)) / 2,
    "g2": lambda t: np.log(t) ** 2 / 2,
    "√T": np.sqrt,
    "T": lambda t: t,
}
STEP = 4  # checkpoints from one horizon to the next shorter one
SIZE = {"horizon": 10_000, "runs": 2_048}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "table1", SIZE, argv, policies=list(POLICIES))


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    curves, rows = {}, []
    for name in args.policies:
        row, curves[name] = measure(args, name)
        rows.append(row)
    title = f"Policies compared, N(.5, 1) and N(0, 1), T = {args.horizon:,}, {args.runs:,} runs (se: standard error)"
    common.show(title, rows, args.out / "table.csv")
    figure(curves, args.out / "table1.png")


def measure(args: argparse.Namespace, name: str) -> tuple[dict, tuple[np.ndarray, np.ndarray]]:
    """The row of one policy, and its mean regret (horizons, means)."""
    result = simulate(args, name, args.horizon)
    t = result.checkpoints
    places = np.arange(t.size - 1, -1, -STEP)
    places = places[t[places] >= max(args.horizon / 30, 3)][::-1]
    before = places[-2] if places.size > 1 else -1
    short = simulate(args, name, int(t[before]))
    anytime = float((short.regret[:, -1] == result.regret[:, before]).mean())
    means = result.mean()[places]
    if anytime < 1:
        means = np.array([simulate(args, name, int(t[i])).mean()[-1] for i in places])
    growth, error = best_growth(t[places], means)
    level = result.gaps.max() * result.horizon
    high, low_end, high_end = result.tail(0.1 * level)
    row = {
        "policy": name,
        "scale_free": same_pulls(result, simulate(args, name, args.horizon, SCALE)),
        "anytime": anytime,
        "mean": result.mean()[-1],
        "mean_se": result.standard_error()[-1],
        "median": result.median()[-1],
        "grows_like": growth,
        "fit_error": error,
        "R > .1 Δ T": high,
        "low": low_end,
        "high": high_end,
        "R > .4 Δ T": result.tail(0.4 * level).probability,
        "knows": POLICIES[name][1],
    }
    return row, (t[places], means)


def simulate(args: argparse.Namespace, name: str, horizon: int, scale: float = 1.0) -> Result:
    """The result of a policy at some horizon, on arms of some scale."""
    bandit = eljax.Bandit([eljax.gaussian(0.5 * scale, scale), eljax.gaussian(0.0, scale)])
    args = argparse.Namespace(**(vars(args) | {"horizon": horizon}))
    names = (name, f"T {horizon}", f"scale {scale:g}")
    return common.simulate_all(args, {names: (bandit, POLICIES[name][0]())})[names]


def best_growth(t: np.ndarray, means: np.ndarray) -> tuple[str, float]:
    """The name of the function of T that fits best, and the root of the fit's mean relative squared error."""
    errors = {}
    for name, function in GROWTH.items():
        columns = np.stack([np.ones(t.size), function(t.astype(float))], axis=1) / means[:, None]
        coefficients = np.linalg.lstsq(columns, np.ones(t.size))[0]
        errors[name] = float(np.sqrt(np.mean((columns @ coefficients - 1) ** 2)))
    best = min(errors, key=errors.get)
    return best, errors[best]


def figure(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Mean regret against T on log axes, the horizon-dependent policies at horizons of their own."""
    picture = Figure(figsize=(8.5, 5.0), layout="constrained")
    panel = picture.subplots()
    for i, (name, (t, means)) in enumerate(curves.items()):
        colour, turn = plots.COLOURS[i % len(plots.COLOURS)], i // len(plots.COLOURS)
        panel.plot(t, means, ("-", "--", ":")[turn % 3], color=colour, marker=plots.MARKERS[1 + turn], ms=4, label=name)
    panel.set(xscale="log", yscale="log", xlabel="horizon T", ylabel="mean pseudo-regret")
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
