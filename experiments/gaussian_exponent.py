"""Corollary 6.3 at radius 0: −log P[R(T) > cΔT] grows like Δ²/2σ² · g, whatever the share c; two Gaussian arms.

    python -m experiments.gaussian_exponent

At horizons from 200 to T, P is estimated by importance sampling; −log P − ½ log n is then fitted against n = g(cT), the
schedule when the event is decided, and −log P against n beside it. The policy is scale-free, so P hangs on Δ and σ
through Δ/σ alone: pairs of the same ratio share their estimates. Pulls are whole numbers and P falls in steps; the
points scatter about the line for that, and the standard errors of the slopes contain it.

With Δ/σ = 1/4 and g2 the event is not rare at any of these horizons (P > .02): the prefactor is not yet that of a rare
event and the slope cannot be seen. There the corollary is also shown for 4·g2, from the horizon at which it can be
forced. Estimates that are not to be trusted are listed in estimates.csv, and left out of the fits.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.tree_util import Partial
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.tails import ExponentFit, TailEstimate
from experiments import common

SHARES, GAPS, SIGMAS = ({f"{x:g}": x for x in values} for values in ((0.25, 0.5, 0.75), (0.5, 1.0), (1.0, 2.0)))
HORIZONS = 12
WITHIN = 0.03  # of the target: what counts as shown
SIZE = {"horizon": 100_000, "runs": 4_000}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    names = {"shares": list(SHARES), "gaps": list(GAPS), "sigmas": list(SIGMAS), "schedules": list(SCHEDULES)}
    return common.main(work, __doc__, "gaussian_exponent", SIZE, argv, **names)


def work(args: argparse.Namespace) -> None:
    """Estimate, then fit, print and write the tables and the figure; on Ctrl-C, of what there is."""
    found: dict[tuple[str, float, str], dict[int, TailEstimate]] = {}
    try:
        estimate(args, found)
    finally:
        fits = {key: both for key, of_key in found.items() if (both := fit(*key, of_key)) is not None}
        title = f"−log P[R(T) > cΔT] against g(cT), radius 0, {args.runs:,} runs of each T up to {args.horizon:,}"
        rows = [
            row(gap, sigma, *key, found[key], *fits[key])
            for gap, sigma in pairs(args)
            for key in fits
            if key[1] == GAPS[gap] / SIGMAS[sigma]
        ]
        common.show(f"{title} (se: standard error)", rows, args.out / "table.csv")
        points = [point(*key, horizon, one) for key, of_key in found.items() for horizon, one in of_key.items()]
        pd.DataFrame(points).to_csv(args.out / "estimates.csv", index=False)
        figure({key: with_prefactor for key, (with_prefactor, _) in fits.items()}, args.out / "gaussian_exponent.png")


def pairs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """(Δ, σ) as asked for."""
    return [(gap, sigma) for gap in args.gaps for sigma in args.sigmas]


def estimate(args: argparse.Namespace, found: dict[tuple[str, float, str], dict[int, TailEstimate]]) -> None:
    """Fill in, by (schedule, Δ/σ, c) and horizon, the estimates of P."""
    ratios = sorted({GAPS[gap] / SIGMAS[sigma] for gap, sigma in pairs(args)}, reverse=True)
    for name in args.schedules:
        schedule, first, largest = SCHEDULES[name]
        for ratio in (ratio for ratio in ratios if ratio <= largest and first < args.horizon):
            bandit = eljax.Bandit([eljax.gaussian(ratio, 1.0), eljax.gaussian(0.0, 1.0)])
            for share in args.shares:
                of_key = found.setdefault((name, ratio, share), {})
                for i, horizon in enumerate(horizons(first, args.horizon)):
                    of_key[horizon] = common.estimate_or_load(
                        args.out / f"{common.file_name(name, f'{ratio:g}', share, str(horizon))}.json",
                        bandit,
                        policies.g_forcing(schedule),
                        horizon=horizon,
                        threshold=(np.floor(SHARES[share] * horizon) + 0.5) * ratio,  # between two regrets
                        method="importance",
                        runs=args.runs,
                        seed=(args.seed * HORIZONS + i) % 2**64,  # independent errors in a fit
                    )


def horizons(first: int, last: int) -> list[int]:
    """Evenly spread in log T."""
    return sorted({round(t) for t in np.geomspace(first, last, HORIZONS)})


def deciding(name: str, share: str, horizon: int) -> float:
    """n = g(cT)."""
    return float(SCHEDULES[name][0](jnp.float32(SHARES[share] * horizon), 2))


def fit(name: str, ratio: float, share: str, of_key: dict[int, TailEstimate]) -> tuple[ExponentFit, ExponentFit] | None:
    """The lines with and without the prefactor through the trusted estimates; None if they are fewer than three."""
    trusted = {horizon: one for horizon, one in of_key.items() if one.trusted and np.isfinite(one.log_prob)}
    if len(trusted) < 3:
        return None
    n = [deciding(name, share, horizon) for horizon in trusted]
    logs, errors = ([getattr(one, key) for one in trusted.values()] for key in ("log_prob", "relative_error"))
    return tuple(eljax.tails.fit_exponent(n, logs, errors, prefactor=prefactor) for prefactor in (True, False))


def row(
    gap: str,
    sigma: str,
    name: str,
    ratio: float,
    share: str,
    of_key: dict[int, TailEstimate],
    fitted: ExponentFit,
    plain: ExponentFit,
) -> dict:
    """Slopes, and their ratios to the target."""
    target = ratio**2 / 2
    return {
        "Δ": gap,
        "σ": sigma,
        "schedule": name,
        "c": share,
        "horizons": f"{len(fitted.n)} of {len(of_key)}",
        "least P": np.exp(min(one.log_prob for one in of_key.values() if one.trusted)),
        "Δ²/2σ²": target,
        "slope": fitted.slope,
        "slope_se": fitted.standard_error,
        "ratio": fitted.slope / target,
        "ratio_se": fitted.standard_error / target,
        "within 3%": "yes" if abs(fitted.slope / target - 1) <= WITHIN else "no",
        "no prefactor": plain.slope / target,
        "no prefactor_se": plain.standard_error / target,
    }


def point(name: str, ratio: float, share: str, horizon: int, one: TailEstimate) -> dict:
    """One estimate."""
    numbers = {key: getattr(one, key) for key in ("log_prob", "relative_error", "ess", "trusted", "reason")}
    n = deciding(name, share, horizon)
    return {"schedule": name, "Δ/σ": f"{ratio:g}", "c": share, "T": horizon, "n": n} | numbers


def figure(fits: dict[tuple[str, float, str], ExponentFit], path: Path) -> None:
    """One panel per schedule and Δ/σ: −log P − ½ log n against n, a line per c."""
    panels = list(dict.fromkeys(key[:2] for key in fits))
    columns = min(2, max(len(panels), 1))
    rows = -(-max(len(panels), 1) // columns)
    picture = Figure(figsize=(5.2 * columns, 3.9 * rows), layout="constrained")
    axes = picture.subplots(rows, columns, squeeze=False).flat
    for panel in axes[len(panels) :]:
        panel.remove()
    for panel, (name, ratio) in zip(axes, panels, strict=False):
        lines = {f"c = {share}": one for (*rest, share), one in fits.items() if tuple(rest) == (name, ratio)}
        plots.exponent_fit(lines, ax=panel)
        panel.set_title(f"Δ/σ = {ratio:g}, {name}: slope wanted {ratio**2 / 2:.4g}", fontsize="medium")
    picture.savefig(path, dpi=150)


def _four_squared(t: jax.Array, num_arms: int) -> jax.Array:
    return 4 * jnp.log(t) ** 2 / num_arms


SCHEDULES = {  # the schedule, its first horizon, and the largest Δ/σ it is meant for
    "g2": (common.SCHEDULES["g2"], 200, np.inf),
    "4 g2": (Partial(_four_squared), 4_000, 0.25),
}

if __name__ == "__main__":
    sys.exit(main())
