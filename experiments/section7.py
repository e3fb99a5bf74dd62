"""What Section 7 of the paper reports of its experiments, counted on the results of table3 and table4_5.

Part of `experiments.claims`. Each judge takes the results and returns the evidence, and whether it shows the claim; the
instances are ours (`eljax.paper_instances`), so orders and counts compare, values do not.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import eljax
from eljax import policies
from eljax.results import Result
from experiments import common, table3

OURS, RDS = "EL-F g1, radius 3", "RDS sqrt_log"
FE = ("FE sqrt", "FE linear", "FE exponential")
MOVING = "EL-F g1, radius loglog t + 3"
POLICIES = table3.POLICIES | {MOVING: policies.el_f(common.SCHEDULES["g1"], eljax.loglog_radius(3.0))}


class Section7(NamedTuple):
    """Table 3, and the moving radius of table 4: a Result for each (instance, policy)."""

    cells: dict[tuple[str, str], Result]

    def each(self, policy: str, statistic: str) -> np.ndarray:
        """[6]: mean, median or high (frequency of high-regret runs) on each instance."""
        results = [result for (_, name), result in self.cells.items() if name == policy]
        if statistic == "high":
            return np.array([table3.high_regret(result).probability for result in results])
        return np.array([getattr(result, statistic)()[-1] for result in results])

    def at(self, policy: str, statistic: str, instance: str) -> float:
        """The same on one instance."""
        return float(self.each(policy, statistic)[list(eljax.paper_instances()).index(instance)])

    def size(self) -> str:
        """Rounds and runs of the smallest result."""
        least = min(self.cells.values(), key=lambda result: (result.runs, result.horizon))
        return f"T = {least.horizon:,}, {least.runs:,} runs"


@functools.lru_cache(maxsize=1)
def load_or_simulate(out: Path, horizon: int, runs: int, seed: int) -> Section7:
    """Results that experiments.table3 and table4_5 left in the folders next to `out`; else smaller ones, kept there."""
    cells: dict[tuple[str, str], Result] = {}
    for instance, bandit in eljax.paper_instances().items():
        for name, policy in POLICIES.items():
            script, names = ("table4_5", ("g1", "radius loglog t + 3")) if name == MOVING else ("table3", (name,))
            file = f"{common.file_name(instance, *names)}.npz"
            path, size = out / file, {"horizon": horizon, "runs": runs, "seed": seed}
            if (out.parent / script / file).exists():
                path = out.parent / script / file
                stored = Result.load(path).provenance
                size = {key: stored[key] for key in size}
            cells[instance, name] = common.simulate_or_load(path, bandit, policy, **size)[0]
    return Section7(cells)


def el_f_and_rds(table: Section7) -> common.Finding:
    smaller = int((table.each(OURS, "median") < table.each(RDS, "median")).sum())
    ratio = table.each(OURS, "mean") / table.each(RDS, "mean")
    near = int(((ratio < 2) & (ratio > 0.5)).sum())
    evidence = f"{OURS} has the smaller median on {smaller} of 6, means within a factor 2 on {near} of 6"
    return f"{evidence} (ratios {_list(ratio)})", smaller >= 5 and near >= 4


def mean_and_median(table: Section7) -> common.Finding:
    name = "EL-F g1, radius 0"
    ratio = table.each(name, "mean") / table.each(name, "median")
    return f"{name}: mean/median {_list(ratio)} on {_instances()}", bool(ratio[3] > 5 and ratio[5] > 5)


def r_ucb_medians(table: Section7) -> common.Finding:
    names = [name for name in POLICIES if name not in (MOVING, "R-UCB g1", "R-UCB g2")]
    rest = np.min([table.each(name, "median") for name in names], 0)
    mine = np.minimum(table.each("R-UCB g1", "median"), table.each("R-UCB g2", "median"))
    lowest, means = mine < rest, table.each("R-UCB g1", "mean") / table.each(OURS, "mean")
    evidence = (
        f"R-UCB has the lowest median on {lowest.sum()} of 6; its mean is {_list(means)} times EL-F's (g1, radius 3)"
    )
    return evidence, bool(lowest.sum() == 4 and (means[lowest] > 3).all())


def r_ucb_units(table: Section7) -> common.Finding:
    told, held = [], True
    for name in ("R-UCB g1", OURS):
        values = table.each(name, "median")
        ratio = values[2:4] / 50 / values[4:6]
        told.append(f"{name} {_list(ratio)}")
        held &= bool((np.abs(np.log(ratio)) > 0.5).all()) == (name == "R-UCB g1")
    return f"median on [0, 50] over 50 times that on [0, 1], two instances: {'; '.join(told)}", held


def fe_costly(table: Section7) -> common.Finding:
    name = FE[2]
    steady = table.each(name, "mean") / table.each(name, "median")
    dearer = [int((table.each(fe, "median") > table.each(OURS, "median")).sum()) for fe in FE]
    evidence = f"{name}: mean/median {_list(steady)}; median above EL-F's (g1, radius 3): {_pairs(FE, dearer)} of 6"
    return evidence, bool((steady < 4).all() and min(dearer) >= 5)


def faster_schedule(table: Section7) -> common.Finding:
    told, held = [], True
    for radius in (0, 3):
        g1, g2 = (table.each(f"EL-F {name}, radius {radius}", "high")[[1, 3]] for name in ("g1", "g2"))
        told.append(f"radius {radius}: {_list(g1)} → {_list(g2)}")
        held &= bool((g2 < g1).all())
    easy = [table.at(f"EL-F {name}, radius 3", "mean", "beta_easy") for name in ("g1", "g2")]
    evidence = f"high-regret runs on exponential and beta_small_gap, g1 → g2, {'; '.join(told)}; "
    return evidence + f"mean on beta_easy {easy[0]:.4g} → {easy[1]:.4g}", held and easy[1] > easy[0]


def larger_radius(table: Section7) -> common.Finding:
    (m0, m3), (d0, d3) = (
        [table.each(f"EL-F g1, radius {r}", statistic) for r in (0, 3)] for statistic in ("mean", "median")
    )
    hard = [0, 1, 3]
    lower, higher = int((m3 < m0).sum()), int((d3[hard] > d0[hard]).sum())
    evidence = f"g1, radius 0 → 3: lower mean on {lower} of 6, higher median on {higher} of the 3 hard ones"
    return f"{evidence} (gaussian, exponential, beta_small_gap)", lower >= 5 and higher == 3


def moving_radius(table: Section7) -> common.Finding:
    ratio = table.each(MOVING, "mean") / table.each(OURS, "mean")
    evidence = f"g1: mean with radius loglog t + 3 over that with radius 3: {_list(ratio)} on {_instances()}"
    return evidence, bool((ratio < 1).any() and (ratio > 1).any())


def _list(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _pairs(names: Sequence[str], values: Sequence[int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))


def _instances() -> str:
    return ", ".join(eljax.paper_instances())


JUDGES: dict[str, tuple[str, Callable[[Section7], common.Finding]]] = {
    "13a": ("Section 7: EL-F (radius 3) has smaller medians than RDS and comparable means", el_f_and_rds),
    "13b": ("Section 7: radius 0 and g1: mean ≫ median on small-gap Beta", mean_and_median),
    "13c": ("Section 7: R-UCB has the lowest median on 4 of 6, far larger means", r_ucb_medians),
    "13d": ("Section 7: R-UCB differs on [0, 1] and [0, 50]", r_ucb_units),
    "13e": ("Section 7: FE is consistent but costly", fe_costly),
    "13f": ("Section 7: g2 cuts high-regret runs, costs more on easy instances", faster_schedule),
    "13g": ("Section 7: a radius cuts the mean, raises the median on hard instances", larger_radius),
    "13h": ("Section 7: the moving radius helps, not uniformly", moving_radius),
}
