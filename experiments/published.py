"""The simulator against published numbers: mean pseudo-regret of classical policies, ours and theirs.

    python -m experiments.published      # about half an hour on two cores

Four tables, each at the horizon it was published with unless --horizon says otherwise:

    baudry    Baudry, Kaufmann and Maillard, "Sub-sampling for efficient non-parametric bandit exploration" (2020)
    npts      the same paper's row for NPTS
    authors   public code of the policies' own authors, run unchanged
    bayesian  the first paper's average over random instances: ten Gaussian arms of sd 1, means drawn from N(0, 1)

The difference is in standard errors of both; theirs contains the rounding of what was printed. Of the last table no
standard deviation is known: theirs is taken to be ours, at as many instances.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.types import Policy
from experiments import common, random_means
from experiments.random_means import on_random_means, standard_arms

G2 = common.SCHEDULES["g2"]
MOST = 3.5  # standard errors: beyond, one of both is wrong


class Row(NamedTuple):
    """A published mean and what it was measured on."""

    instance: str
    policy: str
    arms: Sequence[Any]
    make: Callable[[], Policy]
    mean: float
    error: float  # standard error of the mean
    median: float = np.nan


class Table(NamedTuple):
    """Rows of one source."""

    horizon: int
    runs: int
    rounding: float  # the last digit that was printed is worth this much
    rows: Sequence[Row]


def _sampled(instance: str, policy: str, arms: Sequence[Any], make: Callable[[], Policy], mean: float, sd: float):
    return Row(instance, policy, arms, make, mean, sd / np.sqrt(5_000))


TWO = [eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)]
SMALL = [eljax.exponential(0.2), eljax.exponential(0.1)]
HEAVIER = [eljax.exponential(1.5), eljax.exponential(1.0)]
FOUR = [eljax.gaussian(0.5, 1.0)] + 3 * [eljax.gaussian(0.0, 1.0)]
CLIPPED = [eljax.clipped_gaussian(0.5, 0.1), eljax.clipped_gaussian(0.6, 0.1)]
TEN = standard_arms(10).arms
COINS = {name: [eljax.bernoulli(p) for p in name] for name in ((0.9, 0.8), (0.5, 0.6))}
TABLES = {
    "baudry": Table(
        20_000,
        5_000,
        0.1,
        [
            _sampled("Gaussian .5, 0", "TS", TWO, lambda: policies.thompson("gaussian"), 24.4, 17.1),
            _sampled("Gaussian .5, 0, 0, 0", "TS", FOUR, lambda: policies.thompson("gaussian"), 73.5, 107.8),
            _sampled("Bernoulli .9, .8", "TS", COINS[0.9, 0.8], lambda: policies.thompson("bernoulli"), 11.2, 10.0),
            _sampled("Bernoulli .5, .6", "TS", COINS[0.5, 0.6], lambda: policies.thompson("bernoulli"), 22.9, 29.2),
            _sampled("exponential 1.5, 1", "TS", HEAVIER, lambda: policies.thompson("exponential"), 48.2, 191.8),
            _sampled("exponential 1.5, 1", "IMED", HEAVIER, lambda: policies.imed("exponential"), 40.0, 78.4),
            _sampled("exponential .2, .1", "TS", SMALL, lambda: policies.thompson("exponential"), 3.8, 9.9),
            _sampled("exponential .2, .1", "IMED", SMALL, lambda: policies.imed("exponential"), 3.4, 3.6),
        ],
    ),
    "npts": Table(  # its cost is quadratic in the horizon; with so small a deviation few runs will do
        20_000,
        256,
        0.1,
        [_sampled("clipped Gaussian .5, .6", "NPTS", CLIPPED, lambda: policies.npts(1.0), 4.2, 0.6)],
    ),
    "authors": Table(
        10_000,
        2_000,
        0.01,
        [
            Row("Gaussian .5, 0", "FE sqrt", TWO, lambda: policies.fe("sqrt"), 100.5, 3.0, 50.5),
            Row("Gaussian .5, 0", "FE linear", TWO, lambda: policies.fe("linear"), 74.44, 0.46, 70.5),
            Row("Gaussian .5, 0", "FE exponential", TWO, lambda: policies.fe("exponential"), 34.11, 0.19, 32.5),
            Row("Gaussian .5, 0", "R-UCB g2", TWO, lambda: policies.r_ucb(G2), 65.82, 0.46, 64.0),
            Row("Gaussian .5, 0", "UCB", TWO, lambda: policies.ucb(1.0), 31.69, 0.34, 29.5),
            Row("Gaussian .5, 0", "TS", TWO, lambda: policies.thompson("gaussian"), 22.31, 0.38, 20.0),
            Row("Gaussian .5, 0", "KL-UCB", TWO, lambda: policies.kl_ucb("gaussian"), 30.86, 0.34, 29.0),
        ],
    ),
    "bayesian": Table(
        10_000,
        10_000,
        0.1,
        [
            Row("10 Gaussian arms", "TS", TEN, lambda: on_random_means(policies.thompson("gaussian")), 118.5, np.nan),
            Row("10 Gaussian arms", "IMED", TEN, lambda: on_random_means(policies.imed("gaussian")), 124.0, np.nan),
        ],
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "published", {}, argv, tables=list(TABLES))


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    rows = [row for name in args.tables for row in measure(name, args)]
    common.show("Mean pseudo-regret, ours and published (se: standard error)", rows, args.out / "table.csv")
    differences = np.array([row["difference_in_se"] for row in rows])
    known = np.isfinite(differences)
    if known.any():
        beyond = np.count_nonzero(np.abs(differences[known]) > MOST)
        largest = np.abs(differences[known]).max()
        print(f"{beyond} of {known.sum()} differ by more than {MOST} standard errors; the largest by {largest:.2f}")
        figure([row for row, good in zip(rows, known, strict=True) if good], args.out / "published.png")


def measure(name: str, args: argparse.Namespace) -> list[dict]:
    """The rows of one table."""
    table = TABLES[name]
    args = argparse.Namespace(**({"horizon": table.horizon, "runs": table.runs} | vars(args)))
    jobs = {(name, row.instance, row.policy): (eljax.Bandit(row.arms), row.make()) for row in table.rows}
    results = {names[1:]: result for names, result in common.simulate_all(args, jobs).items()}
    final = random_means.regret if name == "bayesian" else lambda result: result.regret[:, -1]
    finals = {names: final(result) for names, result in results.items()}
    return [compare(name, table, row, args.horizon, finals[row.instance, row.policy]) for row in table.rows]


def compare(name: str, table: Table, row: Row, horizon: int, final: np.ndarray) -> dict:
    """Both means with their standard errors, and the difference; none where the horizon is another."""
    sd = final.std(ddof=1)
    ours, published = sd / np.sqrt(final.size), sd / np.sqrt(table.runs) if np.isnan(row.error) else row.error
    theirs = np.hypot(published, table.rounding / np.sqrt(12))  # the sd of a uniform error
    same = horizon == table.horizon
    return {
        "instance": row.instance,
        "policy": row.policy,
        "table": name,
        "horizon": horizon,
        "runs": final.size,
        "mean": final.mean(),
        "mean_se": ours,
        "published": row.mean,
        "published_se": theirs,
        "difference_in_se": (final.mean() - row.mean) / np.hypot(ours, theirs) if same else np.nan,
        "median": np.median(final),
        "published_median": row.median,
    }


def figure(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The differences in standard errors, one line a row, with the band that chance allows."""
    picture = Figure(figsize=(7.5, 1.2 + 0.3 * len(rows)), layout="constrained")
    panel = picture.subplots()
    panel.axvspan(-MOST, MOST, color="0.93")
    panel.axvline(0, color="0.5", linewidth=0.8)
    places = np.arange(len(rows))[::-1]
    for table, colour in zip(TABLES, plots.COLOURS, strict=False):
        mine = np.array([row["table"] == table for row in rows])
        if mine.any():
            differences = np.array([row["difference_in_se"] for row in rows])
            panel.plot(differences[mine], places[mine], "o", color=colour, label=table)
    panel.set_yticks(places, [f"{row['policy']}: {row['instance']}" for row in rows])
    panel.set_xlabel(f"ours − published, in standard errors of both (grey: ± {MOST})")
    panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
