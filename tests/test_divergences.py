"""Divergences and their upper inverses, against 40-digit arithmetic and values worked out elsewhere."""

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from eljax.policies import _divergences
from eljax.types import Option

DTYPE = jnp.result_type(float)
EPS = float(jnp.finfo(DTYPE).eps)
MEANS = [0.0, 1e-12, 1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.8, 0.97, 0.999, 1 - 2.0**-20, 1.0]
LEVELS = [1e-9, 1e-6, 1e-4, 3e-3, 0.05, 0.3, 0.5, 1.0, 3.0, 9.0, 40.0]


def exact(family, p, q):
    with mp.workdps(40):
        p, q = mp.mpf(float(p)), mp.mpf(float(q))
        if family == "gaussian":
            return (q - p) ** 2 / (2 * mp.mpf(1.5) ** 2)
        if family == "exponential":
            return p / q - 1 - mp.log(p / q) if p > 0 else mp.mpf(0) if q == p else mp.inf
        if q >= 1 > p:
            return mp.inf
        part = lambda a, b: a * mp.log(a / b) if a > 0 else mp.mpf(0)  # noqa: E731
        return part(p, q) + part(1 - p, 1 - q)


def pairs(values):
    p, c = np.meshgrid(np.asarray(values, DTYPE), np.asarray(LEVELS, DTYPE))
    return jnp.asarray(p.ravel()), jnp.asarray(c.ravel())


@pytest.mark.parametrize("family", _divergences.FAMILIES)
def test_divergence(family):
    p, q = np.meshgrid(np.asarray(MEANS, DTYPE), np.asarray(MEANS, DTYPE))
    keep = p <= q
    p, q = p[keep], q[keep]
    got = np.asarray(_divergences.divergence(Option(family), jnp.asarray(p), jnp.asarray(q), 1.5))
    for x, y, d in zip(p, q, got, strict=True):
        assert float(d) == pytest.approx(float(exact(family, x, y)), rel=64 * EPS), (x, y)


@pytest.mark.parametrize("family", _divergences.FAMILIES)
def test_slope_is_the_derivative(family):
    p, q = np.asarray([0.1, 0.3, 0.3]), np.asarray([0.4, 0.3, 0.9])
    got = np.asarray(_divergences.slope(Option(family), jnp.asarray(p, DTYPE), jnp.asarray(q, DTYPE), 1.5))
    for x, y, slope in zip(p, q, got, strict=True):
        wanted = float(exact(family, x - 1e-4, y) - exact(family, x + 1e-4, y)) / 2e-4
        assert float(slope) == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("family", _divergences.FAMILIES)
def test_upper_is_where_the_divergence_crosses_the_level(family):
    """No solver in the test: the divergence is below the level just below the result, and above it just above."""
    p, c = pairs(MEANS if family == "bernoulli" else [1e-9, 0.3, 1.0, 7.0, 1e9])
    got = np.asarray(_divergences.upper(Option(family), p, c, 1.5))
    for mean, level, q in zip(np.asarray(p), np.asarray(c), got, strict=True):
        slack = 8 * EPS * max(1.0, float(level))
        assert q >= mean
        below, above = float(q) * (1 - slack), float(q) * (1 + slack)
        assert below <= mean or exact(family, mean, below) <= level, (mean, level, q)
        assert above >= 1 or family != "bernoulli" or exact(family, mean, above) >= level, (mean, level, q)
        assert family == "bernoulli" or exact(family, mean, above) >= level, (mean, level, q)


@pytest.mark.parametrize(
    ("mean", "level", "value"),
    [  # binary samples have this as their EL index: 80-digit arithmetic; the first is (1 + √(1 − e⁻³))/2
        (0.5, 1.5, 0.98739432999167524),
        (0.5, 0.25, 0.81363567251166064),
        (0.001, 0.003, 0.0057353984013669998),
        (0.999, 0.003, 0.99998133020941877),
        (0.0, 0.7, 1 - np.exp(-0.7)),
        (1.0, 0.7, 1.0),
        (0.0, 0.0, 0.0),
        (0.4, 0.0, 0.4),
        (1.0, 0.0, 1.0),
    ],
)
def test_bernoulli_upper_values(mean, level, value):
    got = _divergences.upper(Option("bernoulli"), jnp.asarray(mean, DTYPE), jnp.asarray(level, DTYPE))
    assert float(got) == pytest.approx(value, rel=16 * EPS)


def test_exponential_upper_of_zero_is_zero_and_of_level_zero_is_the_mean():
    got = _divergences.upper(Option("exponential"), jnp.asarray([0.0, 2.0], DTYPE), jnp.asarray([0.7, 0.0], DTYPE))
    assert got.tolist() == [0.0, 2.0]


@pytest.mark.parametrize("mean", [-0.5, 1.5])
def test_bernoulli_means_out_of_range_give_no_nan(mean):
    got = _divergences.upper(Option("bernoulli"), jnp.asarray(mean, DTYPE), jnp.asarray([0.0, 0.7, 50.0], DTYPE))
    assert ((got >= 0) & (got <= 1)).all()
