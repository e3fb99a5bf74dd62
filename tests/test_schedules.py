"""Schedules and radii: published values, the clamp, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from eljax import schedules


@pytest.mark.parametrize(("t", "expected"), [(300, 16.27), (1_000, 23.86), (10_000, 42.42), (100_000, 66.27)])
def test_log_squared_has_the_published_values(t, expected):
    assert float(schedules.log_squared()(float(t), 2)) == pytest.approx(expected, abs=0.005)


def test_formulas_against_numpy():
    t = np.array([3.0, 10.0, 1e4, 1e7])
    log_t = np.log(t)
    np.testing.assert_allclose(schedules.log_loglog()(t, 3), log_t * np.log(log_t) / 3, rtol=1e-6)
    np.testing.assert_allclose(schedules.log_schedule(2.5)(t, 3), 2.5 * log_t / 3, rtol=1e-6)
    np.testing.assert_allclose(schedules.loglog_radius(3.0)(t, 3), np.log(log_t) + 3, rtol=1e-6)


def test_the_moving_radius_is_its_offset_before_loglog_is_positive():
    np.testing.assert_allclose(schedules.loglog_radius(3.0)(np.array([1.0, 2.0]), 2), [3.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize("schedule", [schedules.log_loglog(), schedules.log_squared(), schedules.log_schedule(1.0)])
def test_the_clamp_is_positive_finite_and_non_decreasing_from_the_first_round(schedule):
    g = np.asarray(schedules.clamped(schedule, jnp.arange(1.0, 5_000.0), 2))
    assert np.isfinite(g).all()
    assert (g > 0).all()
    assert (np.diff(g) >= 0).all()
    assert g[0] <= 1


def test_the_clamp_keeps_a_late_nan_visible():
    g = schedules.clamped(lambda t, k: jnp.where(t < 10, jnp.log(t), jnp.nan), jnp.asarray(20.0), 2)
    assert np.isnan(g)


@pytest.mark.parametrize(
    ("schedule", "allowed"),
    [
        (lambda t, k: 10.0 - t, "non-decreasing"),
        (lambda t, k: jnp.sin(t) + 2.0, "non-decreasing"),
        (lambda t, k: -1.0 + 0.0 * t, "positive"),
        (lambda t, k: 0.0 * t, "positive"),
        (lambda t, k: jnp.where(t < 50, t, jnp.nan), "finite"),
        (lambda t, k: jnp.where(t < 50, t, jnp.inf), "finite"),
        (lambda t, k: jnp.ones(3), "scalar-valued"),
    ],
)
def test_bad_schedules_are_named(schedule, allowed):
    with pytest.raises(ValueError, match=f"schedule.*{allowed}"):
        schedules.check_schedule("schedule", schedule, 2, 100)


@pytest.mark.parametrize("radius", [lambda t, k: 3.0 - t, lambda t, k: jnp.log(jnp.log(t)) + 3.0])
def test_bad_moving_radii_are_named(radius):
    with pytest.raises(ValueError, match=r"radius\(t=\d+\) must be finite and >= 0"):
        schedules.check_radius("radius", radius, 2, 100)


def test_good_ones_pass():
    schedules.check_schedule("schedule", lambda t, k: jnp.sqrt(t), 2, 1_000)
    schedules.check_schedule("schedule", lambda t, k: jnp.log(t) - 2.0, 2, 1_000)
    schedules.check_radius("radius", schedules.loglog_radius(0.0), 2, 1_000)
    schedules.check_radius("radius", 3.0, 2, 1_000)
