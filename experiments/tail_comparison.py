"""P[R(T) > x] against x, down to 1e-12, for EL-F and its competitors on Gaussian, exponential and Beta arms.

    python -m experiments.tail_comparison

Each probability is estimated by plain simulation as long as that has 100 hits, then by importance sampling, with
fitted tilts where the default ones do badly (and plainly if all do and there are 10 hits). A curve ends below 1e-12,
or where two estimates in a row are useless.
UCB is told the standard deviation of arm 1, KL-UCB the family (for Beta rewards that of coins, the widest in [0, 1]),
FE the horizon; R-UCB has a unit of its own, and so explores Beta rewards far too much. Plain runs are four times as
many; the second table compares the two where they meet. Estimates in brackets are not to be trusted.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.tails import TailCurve, TailEstimate
from eljax.types import Policy
from experiments import common

INSTANCES = {  # the arms, and the family KL-UCB is told
    "gaussian": ((eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)), "gaussian"),
    "exponential": ((eljax.exponential(3.0), eljax.exponential(1.0)), "exponential"),
    "beta": ((eljax.beta(3.0, 2.0), eljax.beta(2.0, 3.0)), "bernoulli"),
}
G2 = common.SCHEDULES["g2"]
POLICIES = {
    "EL-F g2, radius 0": lambda sigma, family: policies.g_forcing(G2),
    "EL-F g2, radius 3": lambda sigma, family: policies.el_f(G2, 3.0),
    "RDS sqrt_log": lambda sigma, family: policies.rds("sqrt_log"),
    "FE exponential": lambda sigma, family: policies.fe("exponential"),
    "R-UCB g2": lambda sigma, family: policies.r_ucb(G2),
    "UCB": lambda sigma, family: policies.ucb(sigma),
    "KL-UCB": lambda sigma, family: policies.kl_ucb(family),
}
SHARES = (0.02, 0.03, 0.05, 0.08, 0.13, 0.2, 0.33, 0.5, 0.8)  # of the horizon: pulls of arm 2
FLOOR = math.log(1e-12)
ENOUGH, FEW = 100, 10  # hits of plain simulation: enough; still better than bad weights
MORE, CHEAP = 4, 8  # times as many plain runs; and weighted ones of policies that neither solve nor keep a history
COSTLY = ("EL-F g2, radius 3", "RDS sqrt_log")
SIZE = {"horizon": 1_000, "runs": 4_000}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    names = {"instances": list(INSTANCES), "policies": list(POLICIES)}
    return common.main(work, __doc__, "tail_comparison", SIZE, argv, **names)


def work(args: argparse.Namespace) -> None:
    """Estimate, then print and write the tables and the figure; on Ctrl-C, of what there is."""
    curves: dict[tuple[str, str], list[TailEstimate]] = {}
    agreements: list[dict] = []
    try:
        measure(args, curves, agreements)
    finally:
        title = (
            f"P[R(T) > x] by x/Δ, T = {args.horizon:,}, {args.runs:,} weighted runs ({CHEAP} × where they are cheap)"
        )
        lines = [overview(args.horizon, *names, found) for names, found in curves.items()]
        common.show(title, lines, args.out / "overview.csv")
        pd.DataFrame([row(*names, one) for names, found in curves.items() for one in found]).to_csv(
            args.out / "table.csv", index=False
        )
        common.show("Against plain simulation", agreements, args.out / "agreement.csv")
        figure(curves, args.out / "tail_comparison.png")


def measure(args: argparse.Namespace, curves: dict, agreements: list[dict]) -> None:
    """Add the curve of each instance and policy, and what plain simulation says of one of its points."""
    for instance in args.instances:
        bandit = eljax.Bandit(INSTANCES[instance][0])
        for name in args.policies:
            policy = POLICIES[name](math.sqrt(bandit.arms[0].variance), INSTANCES[instance][1])
            estimate = partial(_estimate, args, (instance, name), bandit, policy)
            runs = args.runs * (1 if name in COSTLY else CHEAP)
            found, plain, compared = curves.setdefault((instance, name), []), None, False
            for share in SHARES:
                if plain is None or plain.ess >= FEW:  # else they see nothing further out
                    plain = estimate(share, "monte_carlo", MORE * args.runs)
                one = plain if plain.ess >= ENOUGH else _weighted(estimate, share, runs)
                if one.method == "importance" and one.trusted and not compared:
                    agreements.append(agreement(instance, name, one, plain))
                    compared = True
                found.append(one if one.trusted or plain.ess < FEW else plain)
                if found[-1].log_prob < FLOOR or all(math.isnan(one.log_prob) for one in found[-2:]):
                    break


def _weighted(estimate: Callable[..., TailEstimate], share: float, runs: int) -> TailEstimate:
    """By importance sampling, with fitted tilts if the default ones do badly."""
    found = estimate(share, "importance", runs)
    return found if found.trusted else estimate(share, "importance", runs, tilts="fitted")


def _estimate(
    args: argparse.Namespace,
    names: tuple[str, str],
    bandit: eljax.Bandit,
    policy: Policy,
    share: float,
    method: str,
    runs: int,
    **tilts: str,
) -> TailEstimate:
    path = args.out / f"{common.file_name(*names, f'{share}', method, *tilts.values())}.json"
    threshold = (int(share * args.horizon) + 0.5) * bandit.gaps[1]  # between two points of the lattice of regrets
    size = {"horizon": args.horizon, "threshold": float(threshold), "runs": runs, "seed": args.seed}
    return common.estimate_or_load(path, bandit, policy, **size, method=method, **tilts)


def row(instance: str, policy: str, found: TailEstimate) -> dict:
    """One estimate."""
    return {
        "instance": instance,
        "policy": policy,
        "x/Δ": pulls(instance, found),
        "log10 P": found.log_prob / math.log(10),
        "se of log P": found.relative_error,
        "method": found.method,
        "effective": found.ess,
        "doubts": common.doubts(found),
    }


def pulls(instance: str, found: TailEstimate) -> float:
    """The threshold over the gap: pulls of arm 2."""
    return round(found.setting["threshold"] / eljax.Bandit(INSTANCES[instance][0]).gaps[1], 1)


def overview(horizon: int, instance: str, policy: str, found: Sequence[TailEstimate]) -> dict:
    """A curve on one line, doubtful estimates in brackets; nothing where it has ended."""
    cells = [f"({one.probability:.2g})" if common.doubts(one) else f"{one.probability:.2g}" for one in found]
    cells += [""] * (len(SHARES) - len(cells))
    headings = [f"{int(share * horizon) + 0.5:g}" for share in SHARES]
    return {"instance": instance, "policy": policy} | dict(zip(headings, cells, strict=True))


def agreement(instance: str, policy: str, found: TailEstimate, plain: TailEstimate) -> dict:
    """The difference of two estimates of the same probability, in combined standard errors."""
    error = math.hypot(found.relative_error, plain.relative_error)
    return {
        "instance": instance,
        "policy": policy,
        "x/Δ": pulls(instance, found),
        "P": found.probability,
        "plain": plain.probability,
        "hits": plain.ess,
        "difference in se": (found.log_prob - plain.log_prob) / error if plain.ess else math.nan,
        "doubts": common.doubts(found),
    }


def figure(curves: dict[tuple[str, str], list[TailEstimate]], path: Path) -> None:
    """One panel per instance: the survival curves, doubtful points hollow."""
    names = list(dict.fromkeys(instance for instance, _ in curves))
    picture = Figure(figsize=(4.6 * max(len(names), 1) + 0.4, 4.8), layout="constrained")
    panels = picture.subplots(1, max(len(names), 1), squeeze=False, sharey=True)[0]
    for panel, instance in zip(panels, names, strict=False):
        of_instance = {policy: TailCurve(tuple(found)) for (name, policy), found in curves.items() if name == instance}
        plots.survival_curves(of_instance, ax=panel)
        panel.set(title=instance, ylim=(1e-14, 2))
        if panel is not panels[0]:
            panel.set_ylabel("")
            panel.get_legend().remove()
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
