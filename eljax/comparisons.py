"""Policies compared on the runs of a sweep: differences on common rewards, quantiles, CVaR, high-regret runs.

With R runs of regret X and level a:

    CVaR_a = (1/(1 − a)) ∫_a^1 q(p) dp = q_a + mean (X − q_a)₊ / (1 − a)      mean of the worst share 1 − a of runs
    variance reduction = (Var X + Var Y) / Var(X − Y)                        runs that independent rewards would need
                                                                             to tell X from Y as well, over R
Intervals, none of which assumes a law of the regret: of quantiles and frequencies exact (binomial), of means, their
differences and CVaR by the bootstrap (percentiles), beyond 20,000 runs from the standard error.
Everything takes the `xarray.Dataset` of `eljax.sweep`, or its store as `xarray.open_zarr` gives it; no JAX is needed.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from eljax.results import clopper_pearson

RESAMPLES = 999
BOOTSTRAP_RUNS = 20_000  # up to so many
HIGH = 0.1  # a high-regret run: more than this times the smallest gap times the round


def summary(
    data: Any,
    *,
    at: int | None = None,
    quantiles: Sequence[float] = (0.5, 0.95),
    cvar_level: float = 0.95,
    threshold: float | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """One row per cell: mean regret, quantiles, CVaR and frequency of high-regret runs, with intervals.

    `at` is a checkpoint, the last one if None. `threshold` is what makes a regret high, in units of the reward: by
    default 0.1 · smallest gap · round. Columns: the cell's labels, runs, then NAME, NAME_low, NAME_high of mean, q50,
    q95, cvar95 and high; mean_se is the standard error. ValueError names an argument out of range.

    >>> import eljax
    >>> bandit = eljax.Bandit([eljax.dirac(1.0), eljax.dirac(0.0)])
    >>> data = eljax.sweep(bandit, eljax.policies.g_forcing(eljax.log_squared()), horizon=50, runs=4, progress=False)
    >>> summary(data).loc[0, ["mean", "q95", "high"]].tolist()
    [8.0, 8.0, 1.0]
    """
    levels = [_level("quantiles", q) for q in quantiles]
    cvar_level, confidence = _level("cvar_level", cvar_level), _level("confidence", confidence)
    final, round_ = regret_at(data, at)
    rows = []
    for labels, x in _cells(final):
        gaps = data["gaps"].sel(bandit=labels["bandit"]).values
        high = HIGH * min(gaps[gaps > 0], default=0.0) * round_ if threshold is None else float(threshold)
        row = labels | {"runs": x.size, "mean_se": _standard_error(x)}
        named = {"mean": (x.mean(), *interval(x, mean, confidence))}
        named |= {f"q{100 * q:g}": (np.quantile(x, q), *quantile_interval(x, q, confidence)) for q in levels}
        worst = partial(cvar, level=cvar_level)
        named[f"cvar{100 * cvar_level:g}"] = (worst(x), *interval(x, worst, confidence))
        hits = np.count_nonzero(x > high)
        named["high"] = (hits / x.size, *map(float, clopper_pearson(hits, x.size, confidence)))
        for name, values in named.items():
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), map(float, values), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def paired(data: Any, reference: Mapping[str, Any], *, at: int | None = None, confidence: float = 0.95) -> pd.DataFrame:
    """One row per other cell: its regret minus that of `reference` in the same run, which met the same rewards.

    `reference` fixes some of the policy dimensions, such as {"policy": "g-forcing"} or {"radius": 0.0}: a cell is
    compared with the one that differs from it in these alone. Columns: the cell's labels, `difference` (mean), its
    standard error `se` and interval `low`, `high`; `variance_reduction`; `better` and `worse`, the shares of runs with
    less and with more regret; `sign_p`, the exact two-sided p-value of the sign test that both are as likely.
    """
    confidence, (final, _) = _level("confidence", confidence), regret_at(data, at)
    dims = [dim for dim in final.dims if dim not in ("bandit", "run")]
    if not isinstance(reference, Mapping) or not reference or not set(reference) <= set(dims):
        raise ValueError(f"reference must give labels for some of {', '.join(dims)}, got {reference!r}")
    try:
        against = final.sel(reference)
    except KeyError as error:
        raise ValueError(f"reference must be labels of the sweep, got {dict(reference)!r}") from error
    rows = []
    for labels, x in _cells(final):
        if all(labels[name] == value for name, value in reference.items()):
            continue
        y = against.sel({name: label for name, label in labels.items() if name in against.dims}).values
        d = x - y
        better, worse = np.count_nonzero(d < 0), np.count_nonzero(d > 0)
        low, high = interval(d, mean, confidence)
        variances = [z.var(ddof=1) if z.size > 1 else math.nan for z in (x, y, d)]
        rows.append(
            labels
            | {"difference": d.mean(), "se": _standard_error(d), "low": low, "high": high}
            | {"variance_reduction": _ratio(variances[0] + variances[1], variances[2])}
            | {"better": better / d.size, "worse": worse / d.size}
            | {"sign_p": stats.binomtest(better, better + worse).pvalue if better + worse else 1.0}
        )
    return pd.DataFrame(rows)


def mean(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """The mean; its standard error is sd/√R."""
    return np.mean(x, axis)


def cvar(x: Any, level: float = 0.95, axis: int = -1) -> np.ndarray:
    """CVaR: the mean of the worst share 1 − level, a run at its edge counting in part.

    >>> float(cvar([1.0, 2.0, 3.0, 10.0], 0.5)), float(cvar([1.0, 2.0, 3.0, 10.0], 0.625))
    (6.5, 7.666666666666667)
    """
    x = np.asarray(x, np.float64)
    q = np.quantile(x, _level("level", level), axis, method="inverted_cdf", keepdims=True)
    return np.squeeze(q, axis) + np.maximum(x - q, 0).mean(axis) / (1 - level)


def interval(x: np.ndarray, statistic: Callable[..., np.ndarray], confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a statistic(x, axis) of the law that x [R] was drawn from; NaN for one run."""
    if x.size == 1:
        return math.nan, math.nan
    value = float(statistic(x))
    if x.min() == x.max():
        return value, value
    if x.size > BOOTSTRAP_RUNS:
        spread = stats.norm.isf((1 - confidence) / 2) * _error_from_parts(x, statistic)
        return value - spread, value + spread
    unit = np.abs(x).max()  # of any size: squares of regrets may overflow
    found = stats.bootstrap(
        (x / unit,),
        statistic,
        n_resamples=RESAMPLES,
        batch=max(1, 2**22 // x.size),
        confidence_level=confidence,
        method="percentile",  # BCa has no answer where leaving out any one run changes nothing
        rng=np.random.default_rng(0),  # the same numbers give the same interval
    ).confidence_interval
    return float(found.low * unit), float(found.high * unit)


def quantile_interval(x: np.ndarray, q: float, confidence: float = 0.95) -> tuple[float, float]:
    """Order statistics between which the q-quantile lies with at least this confidence; inf: too few runs to bound it.

    At most Binomial(R, q) runs lie below the quantile, whatever the law.
    """
    ordered, alpha = np.sort(x), (1 - confidence) / 2
    low = int(stats.binom.ppf(alpha, x.size, q))  # the low-th smallest, from 1
    high = int(stats.binom.isf(alpha, x.size, q)) + 1
    return float(ordered[low - 1]) if low >= 1 else 0.0, float(ordered[high - 1]) if high <= x.size else math.inf


def _error_from_parts(x: np.ndarray, statistic: Callable[..., np.ndarray]) -> float:
    """The standard error from the statistic of 100 parts of the runs: of means, and of CVaR but for O(1/R)."""
    parts = np.array([statistic(part) for part in np.array_split(x, 100)])
    return float(parts.std(ddof=1) / 10)


def regret_at(data: Any, at: int | None) -> tuple[Any, int]:
    """(regret [..., run] at a checkpoint, its round)."""
    rounds = data["checkpoint"].values
    if at is None:
        at = rounds[-1]
    if at not in rounds:
        raise ValueError(f"at must be one of the checkpoints, the last being {rounds[-1]}, got {at!r}")
    return data["regret"].sel(checkpoint=at).transpose(..., "run"), int(at)


def _cells(final: Any) -> Iterator[tuple[dict, np.ndarray]]:
    """(labels, regrets [R]) of each cell, read one at a time."""
    dims = [dim for dim in final.dims if dim != "run"]
    for index in np.ndindex(*(final.sizes[dim] for dim in dims)):
        cell = final.isel(dict(zip(dims, index, strict=True)))
        yield {dim: cell[dim].item() for dim in dims}, cell.values


def _standard_error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / math.sqrt(x.size)) if x.size > 1 else math.nan


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf if above > 0 else math.nan


def _level(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number) or not 0 < value < 1:
        raise ValueError(f"{name} must be in (0, 1), got {value!r}")
    return float(value)
