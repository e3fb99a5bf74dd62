"""Proposition 6.2: no policy's regret tail is lighter than what its behaviour with a worse arm 1 implies.

    python -m experiments.lower_bound

Two Gaussian arms, gap Δ = σ = 1 (P); Q lowers arm 1 to Δ_Q below arm 2. E = {R(T) > cΔT} is decided in round τ, N is
the number of pulls of arm 1 until then and ℓ = log dQ/dP of their rewards. For every policy

    first     log P(E) >= −(KL E_Q[N] + log 2) / Q(E),    KL = (Δ + Δ_Q)²/2σ²      (data processing)
    second    log P(E) >= log Q(A) − E_Q[ℓ | A],          A = E and N <= m          (Jensen, P(A) = E_Q[e^−ℓ; A])

all from plain simulation under Q. The paper's first bound has N up to T, not τ, and is lower still. Half of the runs
choose Δ_Q and m, the other half give the bounds, which the choice therefore does not bias, and their standard errors.
`excess` is how far log P is above the second, in nats; `below` says whether neither bound is above the estimate by more
than two standard errors of the difference; an estimate that is not to be trusted judges nothing.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

import eljax
from eljax import plots, policies
from eljax.tails import TailEstimate, paths, tilts
from eljax.types import Policy, describe
from experiments import common

G1, G2 = common.SCHEDULES["g1"], common.SCHEDULES["g2"]
DEFAULT, FITTED, PLAIN = (
    {"method": "importance"},
    {"method": "importance", "tilts": "fitted"},
    {"method": "monte_carlo"},
)
POLICIES = {  # name -> (policy, how P(E) is estimated)
    "g-forcing g2": (lambda: policies.g_forcing(G2), DEFAULT),
    "EL-F g1, radius 3": (lambda: policies.el_f(G1, 3.0), DEFAULT),
    "EL-F g2, radius 3": (lambda: policies.el_f(G2, 3.0), DEFAULT),
    "naive EL-UCB g2": (lambda: policies.el_ucb(G2), PLAIN),
    "R-UCB g2": (lambda: policies.r_ucb(G2), FITTED),
    "FE linear": (lambda: policies.fe("linear"), FITTED),
    "RDS sqrt_log": (lambda: policies.rds("sqrt_log"), FITTED),
    "UCB, KL-UCB": (lambda: policies.kl_ucb("gaussian"), FITTED),  # the same index on Gaussian arms
    "KL-UCB, rate 2 log t": (lambda: policies.kl_ucb("gaussian", inflation=1.0), FITTED),
    "IMED": (lambda: policies.imed("gaussian"), FITTED),
    "TS": (lambda: policies.thompson("gaussian"), FITTED),
}
BANDIT = eljax.Bandit([eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)])
SHARE = 0.5  # c
STEPS = (0.0, 0.1, 0.25, 0.5, 1.0)  # Δ_Q
ESTIMATE = 2  # runs of the estimate for each run under a Q
LEAST = 50  # runs in A among those that choose
SIZE = {"horizon": 1_000, "runs": 8_000}


class Side(NamedTuple):
    """R runs under Q."""

    hit: np.ndarray  # [R] bool: whether E happened
    pulls: np.ndarray  # [R]: N
    ratio: np.ndarray  # [R]: ℓ


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "lower_bound", SIZE, argv, policies=list(POLICIES))


def work(args: argparse.Namespace) -> None:
    """Estimate and bound, then print and write the table and the figure; on Ctrl-C, of what there is."""
    rows: list[dict] = []
    try:
        for name in args.policies:
            make, how = POLICIES[name]
            path = args.out / f"{common.file_name(name)}.json"
            runs = ESTIMATE * args.runs
            found = common.estimate_or_load(path, BANDIT, make(), **event(args), **how, runs=runs, seed=args.seed)
            rows.append(row(name, found, {step: under_q(args, name, make(), step) for step in STEPS}))
    finally:
        title = f"log P[R(T) > {SHARE:g}ΔT] and lower bounds, N(1, 1) and N(0, 1), T = {args.horizon:,}"
        common.show(f"{title}, {args.runs:,} runs (se: standard error)", rows, args.out / "table.csv")
        figure(rows, args.out / "lower_bound.png")


def event(args: argparse.Namespace) -> dict:
    """E, with its threshold between two regrets."""
    return {"horizon": args.horizon, "threshold": (np.floor(SHARE * args.horizon) + 0.5) * BANDIT.gaps[1]}


def under_q(args: argparse.Namespace, name: str, policy: Policy, step: float) -> Side:
    """Runs of the policy with arm 1 lowered to Δ_Q = `step` below arm 2; kept, and found again."""
    path = args.out / f"{common.file_name(name, 'q', f'{step:g}')}.npz"
    setting = f"{describe(policy)} {BANDIT.arms} {event(args)} {args.runs} {args.seed}"
    if path.exists():
        with np.load(path) as stored:
            if str(stored["setting"]) == setting:
                return Side(stored["hit"], stored["pulls"], stored["ratio"])
    side = simulate(policy, tilt(step), runs=args.runs, seed=args.seed, **event(args))
    np.savez(path, setting=setting, **side._asdict())
    print(f"{name}, Δ_Q = {step:g}: Q(E) = {side.hit.mean():.4f}", flush=True)
    return side


def tilt(step: float) -> tilts.Tilt:
    """Arm 1 at Δ_Q below arm 2."""
    return tilts.to_mean(BANDIT.arms[0], BANDIT.means[1] - step)


def simulate(policy: Policy, lowered: tilts.Tilt, *, horizon: int, threshold: float, runs: int, seed: int) -> Side:
    """Runs up to the round that decides E."""
    found = paths.decide(
        eljax.Bandit([lowered.arm, BANDIT.arms[1]]),
        policy,
        horizon=horizon,
        threshold=threshold,
        gaps=BANDIT.gaps,
        seed=seed,
        run_numbers=np.arange(runs),
        watched=paths.watch(BANDIT, [0]),
    )
    pulls = found.pulls[:, 0]
    return Side(found.hit, pulls, lowered.ratio[0] * pulls + found.sums[:, 0] @ lowered.ratio[1:])


def first_bound(divergence: float, side: Side) -> tuple[float, float]:
    """(the bound, its standard error)."""
    q, mean = side.hit.mean(), side.pulls.mean()
    if q == 0:
        return -np.inf, np.nan
    value = -(divergence * mean + np.log(2)) / q
    influence = -(divergence * (side.pulls - mean) + value * (side.hit - q)) / q
    return float(value), float(influence.std(ddof=1) / np.sqrt(len(side.hit)))


def second_bound(most: int, side: Side) -> tuple[float, float]:
    """(the bound, its standard error) with m = `most`."""
    inside = side.hit & (side.pulls <= most)
    count, runs = int(inside.sum()), len(inside)
    if count < 2:
        return -np.inf, np.nan
    logs = side.ratio[inside]
    variance = (1 - count / runs + logs.var(ddof=1)) / count
    return float(np.log(count / runs) - logs.mean()), float(np.sqrt(variance))


def best_cut(side: Side) -> tuple[float, int]:
    """(the second bound, m) at the m that makes it largest, with at least LEAST runs in A."""
    order = np.flatnonzero(side.hit)[np.argsort(side.pulls[side.hit], kind="stable")]
    pulls, counts = side.pulls[order], np.arange(1, len(order) + 1)
    values = np.log(counts / len(side.hit)) - np.cumsum(side.ratio[order]) / counts
    allowed = np.append(pulls[1:] > pulls[:-1], True)[: len(order)] & (counts >= LEAST)
    if not allowed.any():
        return -np.inf, 0
    k = int(np.argmax(np.where(allowed, values, -np.inf)))
    return float(values[k]), int(pulls[k])


def bounds(sides: Mapping[float, Side]) -> dict[str, tuple[float, float, float, float]]:
    """Of each bound (Δ_Q, m, the bound, its standard error): chosen by one half of the runs, told by the other."""
    choosing, telling = ({step: Side(*(x[half::2] for x in side)) for step, side in sides.items()} for half in (0, 1))
    costs = {step: tilts.divergences(BANDIT.arms[0], tilt(step))[0] for step in sides}
    one = max(choosing, key=lambda step: first_bound(costs[step], choosing[step])[0])
    cuts = {step: best_cut(side) for step, side in choosing.items()}
    two = max(cuts, key=lambda step: cuts[step][0])
    most = cuts[two][1]
    return {
        "first": (one, np.nan, *first_bound(costs[one], telling[one])),
        "second": (two, most, *second_bound(most, telling[two])),
    }


def row(name: str, found: TailEstimate, sides: Mapping[float, Side]) -> dict:
    """The estimate, both bounds, and whether they are below it."""
    by = bounds(sides)
    (one, _, first, first_se), (two, most, second, second_se) = by["first"], by["second"]
    errors = np.hypot([first_se, second_se], found.relative_error)
    number = found.trusted and np.isfinite(found.log_prob)
    below = bool((np.array([first, second]) <= found.log_prob + 2 * np.nan_to_num(errors)).all())
    return {
        "policy": name,
        "method": found.method,
        "log P": found.log_prob,
        "log P_se": found.relative_error,
        "trusted": "yes" if number else "no",
        "first": first,
        "first_se": first_se,
        "Δ_Q 1": one,
        "second": second,
        "second_se": second_se,
        "Δ_Q 2": two,
        "m": most,
        "excess": found.log_prob - second,
        "below": ("yes" if below else "no") if number else "not judged",
    }


def figure(rows: Sequence[dict], path: Path) -> None:
    """−log P and what bounds it from above, a line per policy."""
    picture = Figure(figsize=(7.2, 1.4 + 0.34 * max(len(rows), 1)), layout="constrained")
    panel = picture.subplots()
    heights = -np.arange(len(rows))
    for key, label, marker, colour in (
        ("log P", "−log P (hollow: not to be trusted)", "o", plots.COLOURS[0]),
        ("second", "second bound", "<", plots.COLOURS[1]),
        ("first", "first bound", "d", plots.COLOURS[2]),
    ):
        values = np.array([-one[key] for one in rows], np.float64)
        faces = [colour if key != "log P" or one["trusted"] == "yes" else "white" for one in rows]
        panel.scatter(values, heights, s=44, marker=marker, c=faces, edgecolors=colour, label=label, zorder=3)
    for height, one in zip(heights, rows, strict=True):
        panel.plot([-one["log P"], -one["second"]], [height, height], color="0.6", linewidth=1)
    panel.set_yticks(heights, [one["policy"] for one in rows])
    panel.set(xscale="log", xlabel="nats")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_locator(NullLocator())
    panel.grid(alpha=0.25, linewidth=0.6, which="both", axis="x")
    picture.legend(loc="outside upper center", ncols=3, frameon=False, fontsize="small")
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
