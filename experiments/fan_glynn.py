"""The power-law tail of KL-UCB at rate (1 + b) log t, and what is left of it where the variance is misjudged.

    python -m experiments.fan_glynn

Two Gaussian arms with gap Δ = 1 under KL-UCB for standard deviation 1, which may be wrong: the truth is σ. If the first
reward of arm 1 is low enough, its index stays below Δ less than the mean until round x (Fan and Glynn 2025), so

    −log P[R(T) > x] ≈ (1+b)/σ² log x + Δ/σ² √(2 (1+b) log x) + Δ²/2σ² + ½ log(4π (1+b)/σ² log x)         (formula)

so that the local exponents `slope` come down to (1+b)/σ² very slowly. `passage` is the probability that arm 1 is given
up by round x after any number of rewards, with the mean of arm 2 known: sums S_n of its rewards fall below
√(2 (1+b) log x) (n/√x − √n) for some n. Fits are to x ≥ 100; those of `passage` at the same x say what such a fit can
find, √log x term or not, before x is so large that one reward decides; those from 1e6 to 1e60 where it leads.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import special, stats

import eljax
from eljax import plots, policies
from eljax.tails import PowerLawFit, TailEstimate, fit_power_law
from experiments import common

GAP = 1.0
SIGMAS = {"1": 1.0, "1.41": math.sqrt(2)}  # true; the policy believes in 1
INFLATIONS = {"0": 0.0, "1": 1.0}  # b
ROUNDS = 4  # horizon over x: the event is decided near round x, or never
FITTED_FROM = 100.0
COLUMNS = ["σ", "b", "x", "−log P", "formula", "passage", "se", "slope", "formula's", "passage's", "doubts"]
FAR = np.geomspace(1e6, 1e60, 10)
SIZE = {"horizon": 120_000, "runs": 10_000}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "fan_glynn", SIZE, argv, sigmas=list(SIGMAS), inflations=list(INFLATIONS))


def work(args: argparse.Namespace) -> None:
    """Estimate, then print and write the tables and the figure; on Ctrl-C, of what there is."""
    rows: list[dict] = []
    try:
        measure(args, rows)
    finally:
        title = f"−log P[R({ROUNDS}x) > x] of KL-UCB at rate (1 + b) log t, importance sampling, {args.runs:,} runs"
        common.show(title, rows, args.out / "table.csv")
        common.show("Fits of −log P for x ≥ 100, with the √log x term and without", fits(rows), args.out / "fits.csv")
        figure(rows, args.out / "fan_glynn.png")


def measure(args: argparse.Namespace, rows: list[dict]) -> None:
    """Add a row for each σ, b and x, from 30 to a quarter of the horizon."""
    most = max(args.horizon // ROUNDS, 30)
    points = min(1 + int(math.log(most / 30, 1.5)), 10)
    counts = np.unique(np.geomspace(30, most, points).round()) + 0.5
    for sigma in args.sigmas:
        bandit = eljax.Bandit([eljax.gaussian(GAP, SIGMAS[sigma]), eljax.gaussian(0.0, SIGMAS[sigma])])
        for inflation in args.inflations:
            policy, before = policies.kl_ucb("gaussian", INFLATIONS[inflation]), None
            for x in counts * GAP:
                path = args.out / f"{common.file_name(f'sigma {sigma}', f'b {inflation}', f'{x}')}.json"
                options = {"horizon": int(ROUNDS * x), "threshold": float(x), "method": "importance"}
                found = common.estimate_or_load(path, bandit, policy, **options, runs=args.runs, seed=args.seed)
                before = row(sigma, inflation, x, found, before)
                rows.append(before)


def row(sigma: str, inflation: str, x: float, found: TailEstimate, before: dict | None) -> dict:
    """One estimate, the theory beside it, and the local exponents since the row before."""
    values = {
        "−log P": -found.log_prob,
        "formula": formula(x, SIGMAS[sigma], INFLATIONS[inflation]),
        "passage": passage(x, SIGMAS[sigma], INFLATIONS[inflation]),
    }
    out = {"σ": sigma, "b": inflation, "x": x} | values | {"se": found.relative_error}
    for name, of in {"slope": "−log P", "formula's": "formula", "passage's": "passage"}.items():
        out[name] = math.nan if before is None else (values[of] - before[of]) / math.log(x / before["x"])
    doubts = common.doubts(found)
    if doubts or (before is not None and before["doubts"]):
        out["slope"] = math.nan
    return out | {"doubts": doubts}


def formula(x: float, sigma: float, inflation: float) -> float:
    """−log P, as above."""
    level = (1 + inflation) * math.log(x)
    tail = (level + GAP * math.sqrt(2 * level) + GAP**2 / 2) / sigma**2
    return tail + 0.5 * math.log(4 * math.pi * level / sigma**2)


def passage(x: float, sigma: float, inflation: float, most: int = 30, points: int = 2_001) -> float:
    """−log P[S_n < a_n for some n ≤ `most`], S_n sums of N(Δ, σ²): a recursion for the density of sums still above."""
    level, n = (1 + inflation) * math.log(x), np.arange(1, most + 1)
    bars = math.sqrt(2 * level) * (n / math.sqrt(x) - np.sqrt(n))
    s, step = np.linspace(bars.min(), most * GAP + 10 * sigma * math.sqrt(most), points, retstep=True)
    reward = stats.norm(GAP, sigma)
    kernel = reward.pdf(np.arange(1 - points, points) * step) * step
    density, logs = reward.pdf(s), [reward.logcdf(bars[0])]
    for above, below in itertools.pairwise(bars):
        density = np.where(s >= above, density, 0)
        logs.append(special.logsumexp(reward.logcdf(below - s), b=density * step))
        density = np.convolve(kernel, density, "valid")
    return -float(special.logsumexp(logs))


def fits(rows: list[dict]) -> list[dict]:
    """Per σ and b: exponents fitted to the estimates, to the first passages at the same x, and to those far out."""
    out = []
    for (sigma, inflation), part in pd.DataFrame(rows, columns=COLUMNS).groupby(["σ", "b"], sort=False):
        used = part[(part.x >= FITTED_FROM) & (part.doubts == "")]
        if len(used) < 4:
            continue
        x, errors = used.x / GAP, used.se
        with_root, without = (fit_power_law(x, -used["−log P"], errors, root=root) for root in (True, False))
        near = fit_power_law(x, -used.passage, errors)
        level = 1 + INFLATIONS[inflation]
        row = {"σ": sigma, "b": inflation, "points": len(used), "theory": level / SIGMAS[sigma] ** 2}
        row |= {"exponent": with_root.exponent, "se": with_root.standard_error, "passage's": near.exponent}
        row |= {"far out": far_out(SIGMAS[sigma], INFLATIONS[inflation]).exponent}
        row |= {"without √": without.exponent, "without √ se": without.standard_error}
        row |= {"√ theory": GAP * math.sqrt(2 * level) / SIGMAS[sigma] ** 2, "√": with_root.root}
        out.append(row | {"√ se": with_root.root_error, "√ passage's": near.root})
    return out


def far_out(sigma: float, inflation: float) -> PowerLawFit:
    """The fit of the first passages at FAR."""
    return fit_power_law(FAR / GAP, [-passage(x, sigma, inflation) for x in FAR])


def figure(rows: list[dict], path: Path) -> None:
    """Left −log P against x with formula and first passage, right the local exponents."""
    frame = pd.DataFrame(rows, columns=COLUMNS)
    picture = Figure(figsize=(10.4, 4.4), layout="constrained")
    left, right = picture.subplots(1, 2, sharex=True)
    for ((sigma, inflation), part), colour in zip(frame.groupby(["σ", "b"], sort=False), plots.COLOURS, strict=False):
        label, faces = f"σ = {sigma}, b = {inflation}", [colour if doubt == "" else "white" for doubt in part.doubts]
        left.plot(part.x, part.formula, color=colour, ls=":", lw=1.2)
        left.plot(part.x, part.passage, color=colour, ls="--", lw=1.2)
        left.errorbar(part.x, part["−log P"], yerr=1.96 * part.se, color=colour, fmt="none", elinewidth=1, capsize=2)
        left.scatter(part.x, part["−log P"], c=faces, edgecolors=colour, s=24, zorder=3)
        left.plot([], [], color=colour, marker="o", ms=4, ls="none", label=label)
        middle = np.sqrt(part.x * part.x.shift())
        right.plot(middle, part.slope, color=colour, marker="o", ms=4, lw=1.2, label=label)
        right.plot(middle, part["passage's"], color=colour, ls="--", lw=1.2)
        right.axhline((1 + INFLATIONS[inflation]) / SIGMAS[sigma] ** 2, color=colour, lw=0.8, alpha=0.6)
    for line, what in (("--", "first passage"), (":", "formula")):
        left.plot([], [], color="0.35", ls=line, lw=1.2, label=what)
    left.set(xscale="log", xlabel="x", ylabel="−log P[R(4x) > x] (nats)")
    right.set(xscale="log", xlabel="x", ylabel="local exponent (horizontal lines: (1 + b)/σ²)", ylim=(0, 4.5))
    for panel in (left, right):
        panel.grid(alpha=0.25, linewidth=0.6)
    left.legend(frameon=False, fontsize="small", loc="upper left")
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
