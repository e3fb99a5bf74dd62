"""Theorem 6.1: −log P[R(T) > x] grows at least like g(x), for light-tailed arms that are not Gaussian.

    python -m experiments.tail_bound

Two exponential and two Beta arms under EL-F with g2, at three horizons and three thresholds x = cΔT each. The column
`ratio` is −log P / g(x/Δ), which the theorem bounds away from 0. `rate` is Cramér's rate of arm 1 at the mean of arm 2:
so many nats takes each of the g(x/Δ) pulls that arm 1 has got for their mean to look no better (for Gaussian arms it is
Δ²/2σ²). At radius 0 the ratio should come down to it. The least ratio is over trusted estimates with x > Δ⌈g(T)⌉, of
which the theorem speaks.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import optimize, special

import eljax
from eljax import plots, policies
from eljax.tails import TailEstimate
from experiments import common

LAWS = {
    "exponential": (eljax.exponential(3.0), eljax.exponential(1.0)),
    "beta": (eljax.beta(3.0, 2.0), eljax.beta(2.0, 3.0)),
}
LOG_MGF = {  # of arm 1
    "exponential": lambda theta: -np.log(1 - 3 * theta) if theta < 1 / 3 else np.inf,
    "beta": lambda theta: np.log(special.hyp1f1(3, 5, theta)),
}
RADII = {"0": policies.g_forcing, "3": policies.el_f}  # radius 0 without a solve, and the default
SHARES = (0.15, 0.35, 0.7)  # c
COLUMNS = ["law", "radius", "T", "g(T)", "x/Δ", "P", "−log P", "se", "g(x/Δ)", "ratio", "rate", "doubts"]
SCHEDULE = common.SCHEDULES["g2"]
SIZE = {"horizon": 10_000, "runs": 4_000}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "tail_bound", SIZE, argv, laws=list(LAWS), radii=list(RADII))


def work(args: argparse.Namespace) -> None:
    """Estimate, then print and write the tables and the figure; on Ctrl-C, of what there is."""
    rows: list[dict] = []
    try:
        measure(args, rows)
    finally:
        title = f"−log P[R(T) > x] against g2(x/Δ), importance sampling, {args.runs:,} runs"
        common.show(title, rows, args.out / "table.csv")
        common.show("The least ratio, and that of the largest x", least(rows), args.out / "least.csv")
        figure(rows, args.out / "tail_bound.png")


def measure(args: argparse.Namespace, rows: list[dict]) -> None:
    """Add a row for each law, radius, horizon and threshold."""
    for law in args.laws:
        bandit = eljax.Bandit(LAWS[law])
        for radius in args.radii:
            for horizon in horizons(args.horizon):
                for share in SHARES:
                    count = int(share * horizon) + 0.5  # pulls of arm 2: regrets lie on a lattice
                    path = args.out / f"{common.file_name(law, radius, f'{horizon}', f'{share}')}.json"
                    options = {"threshold": count * bandit.gaps[1], "horizon": horizon, "method": "importance"}
                    options |= {"runs": args.runs, "seed": args.seed}
                    found = common.estimate_or_load(path, bandit, RADII[radius](SCHEDULE), **options)
                    rows.append(row(law, radius, count, found))


def horizons(most: int) -> list[int]:
    """A sixteenth, a quarter and all of it."""
    return sorted({max(most // part, 10) for part in (16, 4, 1)})


def row(law: str, radius: str, count: float, found: TailEstimate) -> dict:
    """One estimate of P[N_2 > count]."""
    schedule = float(SCHEDULE(count, 2))
    return {
        "law": law,
        "radius": radius,
        "T": found.setting["horizon"],
        "g(T)": float(SCHEDULE(float(found.setting["horizon"]), 2)),
        "x/Δ": count,
        "P": found.probability if np.isfinite(found.log_prob) else np.nan,
        "−log P": -found.log_prob,
        "se": found.relative_error,
        "g(x/Δ)": schedule,
        "ratio": -found.log_prob / schedule,
        "rate": rate(law),
        "doubts": common.doubts(found),
    }


def rate(law: str) -> float:
    """Cramér's rate, nats per pull for the mean of arm 1 to fall to that of arm 2: sup over θ of θ m_2 − log E e^θX."""
    mean, log_mgf = LAWS[law][1].mean, LOG_MGF[law]
    return -float(optimize.minimize_scalar(lambda theta: log_mgf(theta) - theta * mean, bracket=(-1.0, 0.0)).fun)


def least(rows: list[dict]) -> list[dict]:
    """Per law and radius: the least ratio of the trusted estimates beyond Δ⌈g(T)⌉, and that at the largest x."""
    frame, out = pd.DataFrame(rows, columns=COLUMNS), []
    for (law, radius), part in frame.groupby(["law", "radius"], sort=False):
        good = part[(part.doubts == "") & (part["x/Δ"] > np.ceil(part["g(T)"]))].sort_values("x/Δ")
        summary = {"law": law, "radius": radius, "estimates": len(part), "trusted": len(good)}
        if len(good):
            summary |= {"least ratio": good.ratio.min(), "at x/Δ": good["x/Δ"][good.ratio.idxmin()]}
            summary |= {"ratio at the largest x": good.ratio.iloc[-1], "least P": good.P.min()}
        out.append(summary | {"rate": part["rate"].iloc[0]})
    return out


def figure(rows: list[dict], path: Path) -> None:
    """One panel per law: the ratio against x; a line for each radius and horizon, untrusted points hollow."""
    frame = pd.DataFrame(rows, columns=COLUMNS)
    laws = list(dict.fromkeys(frame.law))
    picture = Figure(figsize=(4.4 * max(len(laws), 1) + 0.6, 4.0), layout="constrained")
    panels = picture.subplots(1, max(len(laws), 1), squeeze=False, sharey=True)[0]
    for panel, law in zip(panels, laws, strict=False):
        of_law = frame[frame.law == law]
        radii, ends = list(dict.fromkeys(of_law.radius)), sorted(set(of_law["T"]))
        for (radius, horizon), part in of_law.groupby(["radius", "T"], sort=False):
            colour, marker = plots.COLOURS[radii.index(radius)], "os^"[ends.index(horizon) % 3]
            faces = [colour if doubt == "" else "white" for doubt in part.doubts]
            bars = {"yerr": 1.96 * part.se / part["g(x/Δ)"], "color": colour, "lw": 1.2, "elinewidth": 1, "capsize": 2}
            panel.errorbar(part["x/Δ"], part.ratio, **bars)
            label = f"radius {radius}, T = {horizon:,}"
            panel.plot([], [], color=colour, marker=marker, ms=5, lw=1.2, label=label)
            panel.scatter(part["x/Δ"], part.ratio, c=faces, edgecolors=colour, marker=marker, s=26, zorder=3)
        panel.axhline(of_law["rate"].iloc[0], color="0.35", ls="--", lw=1, label="Cramér's rate of arm 1")
        panel.set(title=law, xlabel="x/Δ", xscale="log", ylim=(0, None))
        panel.grid(alpha=0.25, linewidth=0.6)
    panels[0].set_ylabel("−log P[R(T) > x] / g2(x/Δ)")
    if laws:
        panels[0].legend(frameon=False, fontsize="x-small")
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
