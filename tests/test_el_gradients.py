"""Derivatives of the empirical likelihood against finite differences, and where finite differences do not exist."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eljax.empirical_likelihood import el_index, el_interval, el_weights, log_el

X64 = jax.config.jax_enable_x64
DTYPE = np.float64 if X64 else np.float32
needs_x64 = pytest.mark.skipif(not X64, reason="finite differences need float64")


def samples():
    """[6, 8] samples with masks: plain, ties at the maximum, ties at the minimum, masked, skewed, far from 0."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 8))
    x[1, 2:5] = x[1].max() + 0.5
    x[2, :4] = x[2].min() - 0.5
    x[4] = np.exp(3 * x[4])
    x[5] += 1e3
    where = np.ones((6, 8), bool)
    where[3, 5:] = False
    x[3, 5:] = [50.0, -50.0, 0.0]
    return x.astype(DTYPE), where


def directional(function, step):
    """d/dt function(t) at 0 by central differences of fourth order."""
    plus, minus, plus2, minus2 = (np.asarray(function(t)) for t in (step, -step, 2 * step, -2 * step))
    return (8 * (plus - minus) - (plus2 - minus2)) / (12 * step)


@functools.cache
def _compiled(function):
    return jax.jit(jax.grad(lambda *arguments: function(*arguments).sum(), argnums=(0, 1)))


def gradients(function, x, value, where):
    """Reverse-mode derivatives of function(x, value, where) [m], lane by lane, by x and by value."""
    return [np.asarray(t) for t in _compiled(function)(x, value, where)]


def largest_weight(x, mean, where):
    return el_weights(x, mean, where).max(-1)


def first_weight(x, mean, where):
    return el_weights(x, mean, where)[..., 0]


def ties_move_together(x):
    """A direction for each sample in which tied points move alike (their order at the maximum must not change)."""
    direction = np.random.default_rng(1).normal(size=x.shape).astype(x.dtype)
    direction[1, 2:5] = direction[1, 2]
    direction[2, :4] = direction[2, 0]
    return direction


@needs_x64
@pytest.mark.parametrize("radius", [1e-6, 1e-2, 1.0, 3.0, 20.0])
def test_index_gradient(radius):
    x, where = samples()
    c = np.full(6, radius)
    by_x, by_radius = gradients(el_index, x, c, where)
    direction = ties_move_together(x)
    size = np.ptp(np.where(where, x, x[:, :1]), axis=-1)[:, None]
    moved = directional(lambda t: el_index(x + t * direction * size, c, where), 1e-4)
    np.testing.assert_allclose((by_x * direction * size).sum(-1), moved, rtol=1e-6, atol=1e-6 * size.max())
    np.testing.assert_allclose((by_x * direction * size).sum(-1) / size[:, 0], moved / size[:, 0], rtol=1e-6, atol=1e-8)
    # At an offset of 1e3 and C = 1e-6 rounding of U itself limits the difference quotient.
    grown = directional(lambda t: el_index(x, c * (1 + t), where), 1e-3) / c
    np.testing.assert_allclose(by_radius[:5], grown[:5], rtol=1e-6)
    np.testing.assert_allclose(by_radius[5], grown[5], rtol=1e-5)
    assert np.all(by_x[~where] == 0)
    np.testing.assert_allclose(by_x.sum(-1), 1, rtol=1e-12)
    assert np.all(by_x >= 0)


@needs_x64
def test_index_gradient_is_the_optimal_weights():
    x, where = samples()
    c = np.full(6, 1.5)
    by_x, _ = gradients(el_index, x, c, where)
    np.testing.assert_allclose(by_x, el_weights(x, el_index(x, c, where), where), rtol=1e-9, atol=1e-12)


@needs_x64
def test_interval_gradient_by_weights():
    x, _ = samples()
    weights = np.random.default_rng(2).uniform(0.2, 3, size=x.shape)
    direction = np.random.default_rng(3).normal(size=x.shape)
    ends = lambda w: jnp.stack(el_interval(x, 2.0, weights=w))  # noqa: E731
    _, tangent = jax.jit(lambda w, d: jax.jvp(ends, (w,), (d,)))(weights, direction)
    moved = directional(lambda t: ends(weights + t * direction), 1e-3)
    np.testing.assert_allclose(tangent, moved, rtol=1e-6, atol=1e-8)


@needs_x64
@pytest.mark.parametrize("place", [0.02, 0.3, 0.5, 0.9, 0.999])
def test_log_el_and_weights_gradients(place):
    x, where = samples()
    low, high = (np.where(where, x, s * np.inf) for s in (1, -1))
    low, high = low.min(-1), high.max(-1)
    mean, size = low + place * (high - low), (high - low)[:, None]
    direction, push = ties_move_together(x), np.random.default_rng(4).normal(size=6)
    step = 1e-3 * min(place, 1 - place) / 4

    by_x, by_mean = gradients(log_el, x, mean, where)
    tangent = (by_x * direction * size).sum(-1) + by_mean * push * size[:, 0]
    move = lambda f: directional(lambda t: f(x + t * direction * size, mean + t * push * size[:, 0], where), step)  # noqa: E731
    np.testing.assert_allclose(tangent, move(log_el), rtol=1e-6, atol=1e-8)
    assert np.all(by_x[~where] == 0)

    _, forward = jax.jit(lambda d, p: jax.jvp(lambda x, m: el_weights(x, m, where), (x, mean), (d, p)))(
        direction * size, push * size[:, 0]
    )
    quotient = move(el_weights)
    np.testing.assert_allclose(forward, quotient, rtol=1e-6, atol=1e-7 * np.abs(quotient).max())
    np.testing.assert_allclose(forward.sum(-1), 0, atol=1e-9 * np.abs(forward).max())


def test_forward_equals_reverse_under_jit_vmap_scan_checkpoint():
    x, where = samples()
    c, mean = np.full(6, 1.5, DTYPE), np.where(where, x, 0).mean(-1)
    rtol = 1e-9 if X64 else 2e-3
    for function, value in ((el_index, c), (log_el, mean), (first_weight, mean)):
        reverse, _ = gradients(function, x, value, where)
        single = lambda x, v, w, f=function: jax.jacfwd(lambda x: f(x, v, w))(x)  # noqa: E731
        np.testing.assert_allclose(jax.jit(jax.vmap(single))(x, value, where), reverse, rtol=rtol, atol=rtol * 1e-2)

        def scanned(x, f=function, value=value):
            step = jax.checkpoint(lambda total, lane: (total + f(*lane), None))
            return jax.lax.scan(step, jnp.zeros((), DTYPE), (x, value, where))[0]

        np.testing.assert_allclose(jax.jit(jax.grad(scanned))(x), reverse, rtol=rtol, atol=rtol * 1e-2)


def test_no_nan_where_derivatives_do_not_exist():
    x = np.zeros((6, 8), DTYPE)
    where = np.zeros((6, 8), bool)
    x[0, :4], where[0, :4] = 0.1, True  # constant: every point alike
    x[1, 3], where[1, 3] = -7.3, True  # one point
    x[2] = np.nan  # nothing
    x[3], where[3] = np.arange(8), True
    x[4, :3], where[4, :3] = [0.0, 0.0, 3.0], True
    for radius in (0.0, 1e-30, 3.0, 1e4, np.inf):
        by_x, by_radius = gradients(el_index, x, np.full(6, radius, DTYPE), where)
        np.testing.assert_allclose(by_x.sum(-1), [1, 1, 0, 1, 1, 0], rtol=1e-6)
        assert np.all((by_radius >= 0) & np.isfinite(by_radius))
        assert np.all(by_radius[:3] == 0)
        if radius == 0:
            np.testing.assert_allclose(by_x[3], 1 / 8, rtol=1e-6)
            assert np.all(by_radius[3:5] > 1e6)
    for mean in (0.1, 0.0, 1.0, 3.5, 7.0, 100.0, np.inf):
        value = np.full(6, mean, DTYPE)
        for function in (log_el, largest_weight):
            by_x, by_mean = gradients(function, x, value, where)
            assert np.all(np.isfinite(by_x))
            assert np.all(np.isfinite(by_mean))
            assert np.all(by_x[~where] == 0)
    by_x, by_mean = gradients(log_el, x, np.array([0.1, -7.3, 0, 3.5, 1, 0], DTYPE), where)
    np.testing.assert_allclose(by_x, 0, atol=1e-6)
    np.testing.assert_allclose(by_mean, 0, atol=1e-6)


@needs_x64
def test_radius_towards_zero():
    x, where = samples()
    variance = np.array([np.var(row[present]) for row, present in zip(x, where, strict=True)])
    for radius in (1e-8, 1e-12, 1e-20):
        by_x, by_radius = gradients(el_index, x, np.full(6, radius), where)
        np.testing.assert_allclose(by_x, where / where.sum(-1, keepdims=True), rtol=10 * np.sqrt(radius))
        slope = np.sqrt(variance / (2 * radius * where.sum(-1)))  # U ~ m + sd √(2C/n)
        np.testing.assert_allclose(by_radius, slope, rtol=10 * np.sqrt(radius))
