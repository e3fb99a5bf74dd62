"""Quantile functions of the laws against scipy.stats and mpmath, in both tails."""

import jax
import mpmath
import numpy as np
import pytest
from law_table import CONTINUOUS, DTYPES, LAWS, draw
from scipy import special, stats

from eljax.arms import (
    Bandit,
    bernoulli,
    beta,
    discrete,
    empirical,
    exponential,
    gamma,
    gaussian,
    reward,
    student_t,
    tabulated,
    two_point,
    uniform,
)

TAILS = np.array([0.5, 0.499, 0.25, 0.1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 2.0**-64])


@pytest.mark.parametrize(("arm", "truth"), CONTINUOUS)
def test_both_tails_in_float64(arm, truth):
    """To 1e-12 (tables: their stated 1e-9) of the distance to the nearer end, or to the median where there is none."""
    tolerance = 1e-9 if arm.family in ("beta", "gamma", "student_t") else 1e-12
    ends = [end for end in truth.support() if np.isfinite(end)] or [truth.median()]
    for upper, exact in ((False, truth.ppf(TAILS)), (True, truth.isf(TAILS))):
        distance = np.min([np.abs(exact - end) for end in ends], axis=0)
        rounding = 4 * np.spacing(np.maximum(np.abs(exact), max(map(abs, ends))))
        error = np.abs(arm.quantile(TAILS, upper=upper) - exact)
        assert (error <= tolerance * distance + rounding).all()


def test_float32_tails_are_not_truncated():
    """ndtri(2^-64) = -9.08; a float32 uniform would stop at 5.4 standard deviations."""
    law = Bandit([gaussian(0, 1), exponential(1)]).law(np.float32)
    p = np.float32(2.0**-64)
    for upper, sign in ((False, -1), (True, 1)):
        assert float(reward(law, np.int32(0), p, upper)) == pytest.approx(sign * 9.08, abs=0.02)
    assert float(reward(law, np.int32(1), p, True)) == pytest.approx(64 * np.log(2), rel=1e-6)
    assert float(reward(law, np.int32(1), p, False)) == pytest.approx(2.0**-64, rel=1e-6)


BETAS = [
    (0.05, 0.05),
    (0.05, 1e4),
    (1e4, 0.05),
    (0.3, 0.6),
    (0.5, 2),
    (1, 1),
    (3, 2),
    (4.5, 5.5),
    (1e3, 1e4),
    (1e4, 1e4),
]
RANDOM_P = np.exp(np.random.default_rng(2).uniform(-64 * np.log(2), np.log(0.5), 1_500))
RANDOM_P = np.concatenate([RANDOM_P, np.random.default_rng(3).uniform(0.02, 0.5, 500)])


@pytest.mark.parametrize(("a", "b"), BETAS)
@pytest.mark.parametrize("upper", [False, True])
def test_beta_table_error(a, b, upper):
    """The stated 1e-9, in mass: |F(x) / p - 1| <= 1e-9 |dlog F / dlog(nearer distance)|, F from scipy."""
    x = beta(a, b).quantile(RANDOM_P, upper=upper)
    inside = (x > 1e-290) & (1 - x > 1e-6)  # a float64 x near 1 cannot hold 1 - x to 1e-9
    x, p = x[inside], RANDOM_P[inside]
    mass = special.betaincc(a, b, x) if upper else special.betainc(a, b, x)
    nearer = np.minimum(x, 1 - x)
    slope = nearer * np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b)) / mass
    rounding = 2e-16 * x / nearer + 4e-13 / slope  # of x itself, and of scipy's F
    assert (np.abs(np.log(mass / p)) / slope <= 1e-9 + rounding).all()


@pytest.mark.parametrize("shape", [0.05, 0.3, 1, 2.5, 50, 1e3, 1e4])
@pytest.mark.parametrize("upper", [False, True])
def test_gamma_table_error(shape, upper):
    x = gamma(shape, 3).quantile(RANDOM_P, upper=upper) / 3
    inside = x > 1e-290
    x, p = x[inside], RANDOM_P[inside]
    mass = special.gammaincc(shape, x) if upper else special.gammainc(shape, x)
    slope = np.exp(shape * np.log(x) - x - special.gammaln(shape)) / mass
    assert (np.abs(np.log(mass / p)) / slope <= 1e-9 + 4e-13 / slope).all()


@pytest.mark.parametrize("df", [1.1, 1.5, 2, 3, 10, 100, 1e4, 1e6])
def test_student_t_table_error(df):
    exact = stats.t.ppf(RANDOM_P, df)
    assert (np.abs(student_t(df).quantile(RANDOM_P) - exact) <= 1e-9 * np.maximum(1, -exact)).all()
    np.testing.assert_array_equal(student_t(df).quantile(RANDOM_P, upper=True), -student_t(df).quantile(RANDOM_P))


@pytest.mark.parametrize(
    ("a", "b", "p"), [(0.3, 0.6, 1e-12), (3, 2, 1e-15), (0.05, 20, 0.3), (200, 5, 1e-6), (5, 5, 0.4)]
)
def test_beta_against_mpmath(a, b, p):
    """An oracle that shares no code with scipy: 40 digits."""
    with mpmath.workdps(40):
        x = mpmath.mpf(float(beta(a, b).quantile(p)))
        mass = mpmath.betainc(a, b, 0, x, regularized=True)
        slope = min(x, 1 - x) * x ** (a - 1) * (1 - x) ** (b - 1) / mpmath.beta(a, b) / mass
        assert abs(mpmath.log(mass / mpmath.mpf(p)) / slope) < 1e-9


def test_table_far_below_float_range():
    """log Q(1e-19) of Beta(.01, .01) is about -4,400: from the power law, where scipy returns 0."""
    a = b = 0.01
    exact = (np.log(1e-19) + np.log(a) + special.betaln(a, b)) / a
    np.testing.assert_allclose(tabulated.logit_beta(np.array([1e-19]), False, a, b), exact, rtol=1e-13)
    assert beta(a, b).quantile(1e-19) == np.finfo(np.float64).tiny


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arm", [pytest.param(arm, id=name) for name, (arm, _) in LAWS.items()])
def test_quantiles_increase(arm, dtype):
    """Over 20,000 p, across all cell boundaries: never down by more than rounding, which is all a float can promise."""
    p = np.geomspace(2.0**-64, 0.5, 20_000).astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        law = Bandit([arm]).law(dtype)
        draw_all = jax.jit(jax.vmap(reward, (None, None, 0, None)))
        lower, upper = (np.asarray(draw_all(law, np.int32(0), p, flag)) for flag in (False, True))
    x = np.concatenate([lower, upper[::-1]]).astype(np.float64)
    rounding = 32 * np.finfo(dtype).eps * np.maximum(np.abs(x), abs(arm.mean))
    if arm.family in ("beta", "gamma"):  # x = e^g: rounding of g counts
        rounding = rounding * (1 + np.abs(np.log(x / arm.mean)))
    assert (np.diff(x) >= -rounding[1:]).all()
    assert np.isfinite(x).all()


@pytest.mark.parametrize("n", [1, 2, 3, 2_000, 1_000_000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_empirical_reaches_every_sample(n, dtype):
    """The middle of each sample's mass gives that sample, from either end."""
    arm = empirical(np.arange(n)[::-1])
    k = np.unique(np.linspace(0, (n - 1) // 2, 500).astype(int))
    p = np.minimum((k + 0.5) / n, 0.5).astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        law = Bandit([arm]).law(dtype)
        x = jax.vmap(reward, (None, None, 0, None))
        np.testing.assert_array_equal(x(law, np.int32(0), p, False), k)
        np.testing.assert_array_equal(x(law, np.int32(0), p, True), n - 1 - k)
        np.testing.assert_array_equal(x(law, np.int32(0), np.full(1, 0.5, dtype), False), (n - 1) // 2)


def test_discrete_is_the_smallest_value_reaching_u():
    values, probs = np.array([-2.0, 0, 1, 5]), np.array([0.3, 0.1, 0.2, 0.4])
    arm = discrete(values, probs)
    p = np.array([2.0**-64, 0.29, 0.31, 0.39, 0.41, 0.499])
    np.testing.assert_array_equal(arm.quantile(p), values[np.searchsorted(np.cumsum(probs), p)])
    np.testing.assert_array_equal(arm.quantile(p, upper=True), values[np.searchsorted(np.cumsum(probs), 1 - p)])
    rare = two_point([0, 1e6], [1 - 1e-15, 1e-15])
    np.testing.assert_array_equal(rare.quantile([0.9e-15, 1.1e-15], upper=True), [1e6, 0])
    np.testing.assert_array_equal(bernoulli(1e-15).quantile([0.9e-15, 1.1e-15], upper=True), [1, 0])


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_sure_bernoulli_never_varies(p):
    assert (draw(bernoulli(p), np.float32) == p).all()
    assert (bernoulli(p).quantile([2.0**-64, 0.5]) == p).all()
    assert (bernoulli(p).quantile([2.0**-64, 0.5], upper=True) == p).all()


EXTREME = [beta(1e4, 1), beta(0.5, 0.5), beta(0.3, 0.6), beta(0.01, 0.01), beta(1e-3, 1e6), beta(1e6, 1e-3)]
EXTREME += [beta(1, 1, 0.1), gamma(1e-3, 1), gamma(0.05, 3), exponential(1e-30)]
EXTREME += [uniform(0, 1), uniform(0.1, 0.7), uniform(-1, 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "arm",
    EXTREME,
    ids=repr,
)
def test_rewards_stay_strictly_inside_an_open_support(arm, dtype):
    p = np.geomspace(2.0**-64, 0.5, 1_024).astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        x = jax.jit(jax.vmap(reward, (None, None, 0, None)))
        law = Bandit([arm]).law(dtype)
        both = np.concatenate([x(law, np.int32(0), p, flag) for flag in (False, True)] + [draw(arm, dtype)])
    assert np.isfinite(both).all()
    low, high = arm.support
    assert (both.astype(np.float64) > low).all()
    assert (both.astype(np.float64) < high).all()
    assert (np.abs(both[both != 0]) >= np.finfo(dtype).tiny).all()
