"""What a radius buys: regret tails of EL-F against the cost of an index that stays low (beyond Corollary 6.3).

    python -m experiments.optimism_tail

For R(T) > cΔT arm 1, pulled n = g(cT) times, must keep its index below u = m₂ + σ₂ √(2C/(cT)), where arm 2 ends with a
bonus of its own. The claim is

    −log P ≈ I + ½ log n + O(1),   I = min over λ > 0 of sup over θ >= 0 of [ θC − n log E₁ (1 − λ(X − u))₊^θ ]

(`eljax.tails.rate`), and `residual` = −log P − I − ½ log n is that O(1). It is shown for two Gaussian arms if it stays
below 2.5 nats. The paper leaves the question open; for exponential, Beta and Bernoulli arms, where nothing is promised,
the same column says how far the same rate function goes. Bernoulli arms also have exact values (`exact`), at short
horizons. Estimates are by importance sampling, with fitted tilts where the default ones do badly.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.tails import TailEstimate
from eljax.tails.rate import rate_function
from experiments import common

G2 = common.SCHEDULES["g2"]
SHARE = 0.5  # c
RADII = {f"{c:g}": c for c in (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)}
FEW_RADII = ("0", "3", "8")  # of laws other than Gaussian
EXACT_HORIZONS = (40, 80)
LIMIT = 2.5  # nats
ATTEMPTS = {  # until one is to be trusted
    "importance": {"method": "importance"},
    "fitted": {"method": "importance", "tilts": "fitted"},
}
SIZE = {"horizon": 3_162, "runs": 10_000}


@dataclass(frozen=True)
class Case:
    """Two arms, and how P is found."""

    best: eljax.arms.Arm
    worse: eljax.arms.Arm
    promised: bool = False  # whether the limit is claimed for them
    exact: bool = False


CASES = {
    "gaussian, Δ/σ = 1": Case(eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0), promised=True),
    "gaussian, Δ/σ = 1/2": Case(eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0), promised=True),
    "exponential": Case(eljax.exponential(2.0), eljax.exponential(1.0)),
    "beta": Case(eljax.beta(3.0, 2.0), eljax.beta(2.0, 3.0)),
    "bernoulli": Case(eljax.bernoulli(0.9), eljax.bernoulli(0.5)),
    "bernoulli, exact": Case(eljax.bernoulli(0.9), eljax.bernoulli(0.5), exact=True),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "optimism_tail", SIZE, argv, laws=list(CASES), radii=list(RADII))


def work(args: argparse.Namespace) -> None:
    """Estimate, then print and write the tables and the figure; on Ctrl-C, of what there is."""
    rows: list[dict] = []
    try:
        measure(args, rows)
    finally:
        title = f"−log P[R(T) > {SHARE:g}ΔT] of EL-F with g2 against I + ½ log n, {args.runs:,} runs"
        common.show(f"{title} (se: standard error)", rows, args.out / "table.csv")
        common.show(f"Residuals of trusted estimates (limit {LIMIT:g})", summary(rows), args.out / "summary.csv")
        figure(rows, args.out / "optimism_tail.png")


def measure(args: argparse.Namespace, rows: list[dict]) -> None:
    """Add a row for each law, horizon and radius."""
    for law in args.laws:
        case = CASES[law]
        for horizon in horizons(case, args.horizon):
            for radius in (radius for radius in args.radii if case.promised or radius in FEW_RADII):
                found = probability(args, law, horizon, radius)
                rows.append({"law": law, "T": horizon, "C": radius} | compared(case, horizon, RADII[radius], found))


def horizons(case: Case, last: int) -> list[int]:
    """Those of the estimates, or of exact values."""
    if case.exact:
        return [t for t in EXACT_HORIZONS if t <= last]
    return sorted({round(last / 10**0.5), last})


def probability(args: argparse.Namespace, law: str, horizon: int, radius: str) -> TailEstimate:
    """P[R(T) > cΔT], exact or estimated."""
    case = CASES[law]
    bandit = eljax.Bandit([case.best, case.worse])
    index = "exact" if case.exact else "streaming"  # a programme cannot leave a decision open
    policy = policies.el_f(G2, RADII[radius], index=index) if RADII[radius] > 0 else policies.g_forcing(G2)
    event = {"horizon": horizon, "threshold": (np.floor(SHARE * horizon) + 0.5) * bandit.gaps[1]}
    name = common.file_name(law, str(horizon), radius)
    if case.exact:
        return common.estimate_or_load(args.out / f"{name}.json", bandit, policy, **event, method="exact")
    for how, options in ATTEMPTS.items():
        path = args.out / f"{name}__{how}.json"
        found = common.estimate_or_load(path, bandit, policy, **event, **options, runs=args.runs, seed=args.seed)
        if found.trusted:
            break
    return found


def compared(case: Case, horizon: int, radius: float, found: TailEstimate) -> dict:
    """−log P beside I + ½ log n."""
    played = SHARE * horizon  # pulls of arm 2 when the event is decided
    n = float(G2(np.float32(played), 2))
    level = case.worse.mean + np.sqrt(2 * radius * case.worse.variance / played)
    cost = rate_function(case.best, level=level, radius=radius, pulls=n).value
    return {
        "n": n,
        "u": level,
        "method": found.method,
        "trusted": "yes" if found.trusted else "no",
        "−log P": -found.log_prob,
        "−log P_se": found.relative_error,
        "I": cost,
        "I + ½ log n": cost + 0.5 * np.log(n),
        "residual": -found.log_prob - cost - 0.5 * np.log(n),
    }


def summary(rows: Sequence[dict]) -> list[dict]:
    """Per law: the range of the residuals, and how they move with the radius and with the horizon."""
    out = []
    for law in dict.fromkeys(row["law"] for row in rows):
        of_law = [row for row in rows if row["law"] == law]
        good = [row for row in of_law if row["trusted"] == "yes" and np.isfinite(row["residual"])]
        if not good:
            continue
        residual, cost = (np.array([row[key] for row in good]) for key in ("residual", "I"))
        slope = np.polyfit(cost, residual, 1)[0] if np.ptp(cost) > 0 else np.nan
        shown = "yes" if np.abs(residual).max() < LIMIT else "no"
        out.append(
            {
                "law": law,
                "trusted": f"{len(good)} of {len(of_law)}",
                "largest −log P": max(row["−log P"] for row in good),
                "least residual": residual.min(),
                "largest residual": residual.max(),
                "per nat of I": slope,
                "within limit": shown if CASES[law].promised else f"{shown} (nothing promised)",
            }
        )
    return out


def figure(rows: Sequence[dict], path: Path) -> None:
    """−log P against I + ½ log n, and the residual, a colour per law; hollow points are not to be trusted."""
    picture = Figure(figsize=(10.4, 4.8), layout="constrained")
    left, right = picture.subplots(1, 2)
    laws = list(dict.fromkeys(row["law"] for row in rows))
    for law, (colour, _), marker in zip(laws, plots.styles(len(laws)), plots.MARKERS[1:] * 2, strict=False):
        of_law = [row for row in rows if row["law"] == law and np.isfinite(row["−log P"])]
        x, y, residual = (np.array([row[key] for row in of_law]) for key in ("I + ½ log n", "−log P", "residual"))
        faces = [colour if row["trusted"] == "yes" else "white" for row in of_law]
        for panel, values in ((left, y), (right, residual)):
            panel.scatter(x, values, s=26, marker=marker, c=faces, edgecolors=colour, label=law, zorder=3)
    finite = [row["I + ½ log n"] for row in rows if np.isfinite(row["I + ½ log n"])]
    if finite:
        left.axline((min(finite), min(finite)), slope=1, color="0.5", linewidth=1)
    right.axhspan(-LIMIT, LIMIT, color="0.93", zorder=0)
    left.set(xlabel="I + ½ log n (nats)", ylabel="−log P (nats)")
    right.set(xlabel="I + ½ log n (nats)", ylabel="residual (nats)")
    for panel in (left, right):
        panel.grid(alpha=0.25, linewidth=0.6)
    picture.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
