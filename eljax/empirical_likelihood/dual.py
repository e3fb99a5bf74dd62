"""The log ratio and the optimal weights at a given mean: H(y) = g by Newton, and their derivatives."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from eljax import numerics
from eljax.empirical_likelihood import sums

STEPS = 8  # evaluations; worst relative error 1e-7 after 5, 7e-13 after 6; weights (first order) 2e-11 after 7


class _Dual(NamedTuple):
    value: jax.Array  # [...] logEL
    multiplier: jax.Array  # [1, ...] λ R
    weights: jax.Array  # [n, ...] q
    deviation: jax.Array  # [n, ...] (x − μ)/R
    sample: sums.Sample


def _exact_distance(mean: jax.Array, s: sums.Sample) -> jax.Array:
    """Σ (μ − x) over the unmasked, in twice the working precision: μ may lie next to the sample mean."""
    high, low = numerics.add(numerics.RunningSum(mean + jnp.zeros_like(s.x), jnp.zeros_like(s.x)), -s.x)
    n = len(s.x)
    padding = [(0, (1 << (n - 1).bit_length()) - n)] + [(0, 0)] * (s.x.ndim - 1)
    high, low = (jnp.pad(s.only(part), padding) for part in (high, low))
    while len(high) > 1:
        high, error = numerics.add(numerics.RunningSum(high[::2], low[::2]), high[1::2])
        low = error + low[1::2]
    return high + low


def _solve(g: sums.Gaps, target_gap: jax.Array, shift: jax.Array) -> jax.Array:
    """H(y) = g by Newton on log((γ̄ − H)/H), whose slope in y is −1 for small and large ε and for binary data always."""
    floor = sums.lowest_log(g.gap.dtype)
    target = jnp.log(shift / target_gap)
    start = jnp.maximum(jnp.log(g.spread(2) / g.mean) - target, floor)

    def body(_, state: tuple) -> tuple:
        y, low, high = state
        eps = jnp.exp(y)
        moments = sums.moments(g, eps)
        rise = (g.mean + eps) * moments.excess / moments.mean_tau  # γ̄ − H
        room = eps * sums.rest(g, eps) / moments.mean_tau  # H
        surplus = jnp.log(rise / room) - target
        slope = eps * moments.xi2 * (1 / rise + 1 / room)
        return sums.advance(y, surplus / slope, low, high, surplus > 0)

    state = (start, jnp.full_like(start, floor), jnp.maximum(start, floor))
    return jax.lax.fori_loop(0, STEPS, body, state)[0]


@numerics.lanes_last
def _parts(x: jax.Array, mask: jax.Array | None, mean: jax.Array) -> _Dual:
    """Of x [n, ...], mask [n, ...] or None, and mean [...]."""
    s = sums.sample(x, mask)
    mu = mean[None] * s.scale
    inside = (s.bottom < mu) & (mu < s.top)
    mu = jnp.where(inside, mu, s.top)
    # The distance of μ from the sample mean, exact to rounding however small; reflect so that μ lies above it.
    shift = _exact_distance(mu, s) / s.span / s.total
    above = shift >= 0
    g = sums.gaps(s, jnp.where(above, s.top - s.x, s.x - s.bottom) / s.span)
    target_gap = jnp.where(above, s.top - mu, mu - s.bottom) / s.span
    # Below eps² logEL is ∝ shift² to rounding, and λ ∝ shift, the sample mean itself included.
    usable = inside & (target_gap > 0)
    target_gap, g = jnp.where(usable, target_gap, 0.25), g._replace(mean=jnp.where(usable, g.mean, 0.5))
    floored = jnp.where(usable, jnp.maximum(jnp.abs(shift), jnp.finfo(x.dtype).eps ** 2), 0.25)
    ratio = jnp.minimum(jnp.abs(shift) / floored, 1)
    eps = jnp.exp(_solve(g, target_gap, floored))
    value = jnp.log1p(floored / (target_gap + eps)) - sums.mean_log(g, eps)
    value = jnp.maximum(value, 0) * jnp.square(ratio)
    multiplier = jnp.where(usable, -jnp.sign(shift) * ratio / (target_gap + eps), 0)
    q = s.only(eps / (g.gap + eps))
    q = q / jnp.sum(q, 0, keepdims=True)
    present = s.only(jnp.ones_like(x))
    empty = jnp.all(present == 0, 0, keepdims=True)
    exact = empty | (s.constant & (mean[None] * s.scale == s.top))
    value = jnp.where(exact, 0, jnp.where(usable, value, jnp.inf))
    value = jnp.where(jnp.isnan(mean[None]), mean[None], value)
    q = jnp.where(usable, q, jnp.where(exact, present / s.total, 0))
    return _Dual(value[0], multiplier, q, (s.x - mu) / s.span, s)


@jax.jit
@jax.custom_jvp
def log_el(x: jax.Array, mask: jax.Array | None, mean: jax.Array) -> jax.Array:
    """logEL [...] of x [n, ...], mask [n, ...] or None, at mean [...]."""
    return _parts(x, mask, mean).value


def _log_el_jvp(primals: tuple, tangents: tuple) -> tuple:
    """dlogEL = λ Σ q (dx − dμ)."""
    parts = _parts(*primals)
    relative = _relative_tangent(parts.sample, tangents)
    return parts.value, jnp.sum(parts.multiplier * parts.weights * relative, 0)


@jax.jit
@jax.custom_jvp
def weights(x: jax.Array, mask: jax.Array | None, mean: jax.Array) -> jax.Array:
    """q [n, ...] of x [n, ...], mask [n, ...] or None, at mean [...]."""
    return _parts(x, mask, mean).weights


def _weights_jvp(primals: tuple, tangents: tuple) -> tuple:
    """With z = x − μ, q = p/(1 + λ z) and Σ q z = 0: dλ = Σ (q²/p) dz / Σ (q²/p) z², dq = −(q²/p) (dλ z + λ dz)."""
    parts = _parts(*primals)
    dz, z, multiplier = _relative_tangent(parts.sample, tangents), parts.deviation, parts.multiplier
    square = jnp.square(parts.weights) * parts.sample.total
    curvature = jnp.sum(square * jnp.square(z), 0, keepdims=True)
    dual = jnp.sum(square * dz, 0, keepdims=True) / jnp.where(curvature > 0, curvature, 1)
    return parts.weights, jnp.where(curvature > 0, -square * (dual * z + multiplier * dz), 0)


def _relative_tangent(s: sums.Sample, tangents: tuple) -> jax.Array:
    """(dx − dμ)/R; 0 for constant data, where nothing that depends on R is differentiable."""
    dx, _, dmean = tangents
    return jnp.where(s.constant, 0, (dx - dmean[None]) * s.scale / s.span)


log_el.__wrapped__.defjvp(_log_el_jvp)
weights.__wrapped__.defjvp(_weights_jvp)
