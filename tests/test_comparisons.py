"""Comparisons of runs: intervals against exact probabilities and known laws, differences against plain NumPy."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from eljax import comparisons


def dataset(regret, policies=None, gaps=(0.0, 0.5), rounds=(10, 100)):
    """Of one bandit: regret [P, R] after the last of the rounds, half of it after the first."""
    regret = np.asarray(regret, float)
    both = np.stack([regret / 2, regret], -1)[None]
    names = policies or [f"p{i}" for i in range(len(regret))]
    coordinates = {"bandit": ["b"], "policy": names, "run": np.arange(regret.shape[1]), "checkpoint": list(rounds)}
    known = {"regret": (("bandit", "policy", "run", "checkpoint"), both), "gaps": (("bandit", "arm"), [list(gaps)])}
    return xr.Dataset(known, coordinates)


@pytest.mark.parametrize(("runs", "q", "confidence"), [(20, 0.5, 0.95), (200, 0.95, 0.95), (57, 0.1, 0.8)])
def test_quantile_intervals_cover_as_promised_and_are_no_wider_than_needed(runs, q, confidence):
    """Of the order statistics l and u: P[l-th < quantile < u-th] = P[l <= B <= u - 1], B binomial; exact."""
    low, high = (int(x) for x in comparisons.quantile_interval(np.arange(1.0, runs + 1), q, confidence))
    cover = lambda low, high: stats.binom.cdf(high - 1, runs, q) - stats.binom.cdf(low - 1, runs, q)  # noqa: E731
    assert cover(low, high) >= confidence
    alpha = (1 - confidence) / 2
    assert stats.binom.cdf(low, runs, q) > alpha  # the next order statistic up would miss too often
    assert stats.binom.sf(high - 2, runs, q) > alpha


def test_a_quantile_that_few_runs_cannot_bound():
    low, high = comparisons.quantile_interval(np.arange(10.0), 0.99)
    assert 0 < low < 9
    assert high == np.inf
    assert comparisons.quantile_interval(np.arange(10.0), 0.01)[0] == 0


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.123])
def test_cvar_is_the_integral_of_the_quantile_function(level):
    x = np.random.default_rng(0).exponential(size=37)
    p = level + (1 - level) * (np.arange(200_000) + 0.5) / 200_000
    integral = np.quantile(x, p, method="inverted_cdf").mean()
    assert comparisons.cvar(x, level) == pytest.approx(integral, rel=1e-5)
    np.testing.assert_allclose(
        comparisons.cvar(np.stack([x, 2 * x]), level), [comparisons.cvar(x, level)] * np.array([1, 2])
    )


def test_cvar_of_an_exponential_law():
    """q + 1, by the lack of memory, with variance ((1 + .95)/(1 − .95))/R: sd .0062; five of them allowed."""
    x = np.random.default_rng(1).exponential(size=1_000_000)
    assert comparisons.cvar(x, 0.95) == pytest.approx(np.log(20) + 1, abs=5 * 0.0062)
    low, high = comparisons.interval(x, lambda x, axis=-1: comparisons.cvar(x, 0.95, axis), 0.99999)
    assert low < np.log(20) + 1 < high
    assert (high - low) / 2 / stats.norm.isf(0.000005) == pytest.approx(
        np.sqrt(39 / 1e6), rel=0.35
    )  # from 100 parts: sd of 7%


def test_bootstrap_intervals_cover():
    """Means of 60 exponential numbers, 90% intervals: at least 80% of 200 cover, unless chance has less than 1e-5."""
    rng, hits = np.random.default_rng(2), 0
    for _ in range(200):
        low, high = comparisons.interval(rng.exponential(size=60), comparisons.mean, 0.9)
        hits += low < 1 < high
    assert stats.binom.cdf(159, 200, 0.87) < 1e-2  # 0.87 is what skewness leaves of 0.9 here
    assert 156 <= hits <= 196


def test_intervals_of_few_or_equal_runs():
    assert np.isnan(comparisons.interval(np.array([3.0]), comparisons.mean)).all()
    assert comparisons.interval(np.full(9, 3.0), comparisons.mean) == (3.0, 3.0)


def test_summary_shows_the_numbers():
    rng = np.random.default_rng(3)
    regret = np.stack([rng.exponential(20, 400), np.zeros(400)])
    frame = comparisons.summary(dataset(regret, ["a", "b"]))
    x, row = regret[0], frame.loc[0]
    assert (row["bandit"], row["policy"], row["runs"]) == ("b", "a", 400)
    assert row["mean"] == pytest.approx(x.mean())
    assert row["mean_se"] == pytest.approx(stats.sem(x))
    assert row["mean_low"] < x.mean() < row["mean_high"]
    assert row["mean_high"] - row["mean_low"] == pytest.approx(2 * 1.96 * stats.sem(x), rel=0.15)
    assert row["q50"] == pytest.approx(np.median(x))
    assert row["q95_low"] < row["q95"] < row["q95_high"]
    assert row["cvar95"] == pytest.approx(np.sort(x)[-20:].mean())
    hits = np.count_nonzero(x > 0.1 * 0.5 * 100)  # the default: a tenth of the gap times the round
    exact = stats.binomtest(hits, 400).proportion_ci(method="exact")
    assert (row["high"], row["high_low"], row["high_high"]) == pytest.approx((hits / 400, exact.low, exact.high))
    flat = frame.loc[1]
    assert (flat["mean_low"], flat["mean_high"], flat["cvar95_high"], flat["high"]) == (0, 0, 0, 0)
    early = comparisons.summary(dataset(regret, ["a", "b"]), at=10, threshold=1.0, quantiles=[0.25])
    assert early.loc[0, "mean"] == pytest.approx(x.mean() / 2)
    assert early.loc[0, "high"] == np.mean(x / 2 > 1)
    assert "q25_low" in early


def test_pairs_are_differences_in_the_same_runs():
    """Correlation r and equal variances: independent rewards need 1/(1 − r) times the runs; r = .9, 1/(1 − .9) = 10."""
    rng = np.random.default_rng(4)
    common, own = rng.normal(size=4_000), rng.normal(size=(2, 4_000))
    regret = 50 + np.sqrt(0.9) * common + np.sqrt(0.1) * own + np.array([[0.0], [0.02]])
    frame = comparisons.paired(dataset(regret, ["a", "b"]), {"policy": "a"})
    row, d = frame.loc[0], regret[1] - regret[0]
    assert len(frame) == 1
    assert row["policy"] == "b"
    assert row["difference"] == pytest.approx(d.mean())
    assert row["se"] == pytest.approx(stats.sem(d))
    assert row["low"] < row["difference"] < row["high"]
    assert row["variance_reduction"] == pytest.approx(10, rel=0.1)  # sd of a variance ratio here: 3%
    assert (row["better"], row["worse"]) == (np.mean(d < 0), np.mean(d > 0))
    assert row["sign_p"] == pytest.approx(stats.binomtest(int((d < 0).sum()), 4_000).pvalue)


def test_a_reference_fixes_some_dimensions_and_keeps_the_others():
    rng = np.random.default_rng(5)
    regret = rng.exponential(size=(1, 2, 3, 50, 1))
    dims, names = ("bandit", "schedule", "radius", "run", "checkpoint"), {"bandit": ["b"], "schedule": ["g1", "g2"]}
    data = xr.Dataset({"regret": (dims, regret)}, names | {"radius": [0.0, 1.0, 3.0], "checkpoint": [7]})
    frame = comparisons.paired(data, {"radius": 0.0})
    assert frame[["schedule", "radius"]].values.tolist() == [["g1", 1.0], ["g1", 3.0], ["g2", 1.0], ["g2", 3.0]]
    np.testing.assert_allclose(frame["difference"], (regret[0, :, 1:] - regret[0, :, :1]).mean((2, 3)).ravel())


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("at", lambda data: comparisons.summary(data, at=11)),
        ("quantiles", lambda data: comparisons.summary(data, quantiles=[1.5])),
        ("cvar_level", lambda data: comparisons.summary(data, cvar_level=1.0)),
        ("confidence", lambda data: comparisons.summary(data, confidence="high")),
        ("reference", lambda data: comparisons.paired(data, {})),
        ("reference", lambda data: comparisons.paired(data, {"radius": 0.0})),
        ("reference", lambda data: comparisons.paired(data, {"bandit": "b"})),
        ("reference", lambda data: comparisons.paired(data, {"policy": "nobody"})),
        ("level", lambda data: comparisons.cvar([1.0], 0.0)),
    ],
)
def test_bad_arguments(name, call):
    with pytest.raises(ValueError, match=rf"^{name} must "):
        call(dataset([[1.0, 2.0]]))
