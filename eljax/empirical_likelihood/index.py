"""The upper index: F(y) = c by a bracketed iteration, and the value and the derivatives that its root gives."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eljax import numerics
from eljax.empirical_likelihood import sums

# Evaluations of the sums per solve, at most. Worst relative error of (U − m) due to the root, over 110,000 adversarial
# samples (n up to 2,000, C from 1e-9 to 2,000, outliers of 1e12, weights over 12 decades): 3e-6 after 5 evaluations,
# 7e-14 after 6; with n = 1e5 and an outlier 2e-8 after 6, 2e-10 after 7.
STEPS = {np.dtype(np.float32): 5, np.dtype(np.float64): 7}
LANES = 32  # at least so many samples at a time: loops over fewer do not fill a vector
BLOCK_BYTES = 2**18  # of x, solved at a time on CPUs: the sums of an evaluation each read the block again


class _Root(NamedTuple):
    """The pole of the index and what the sums are there, each [1, ...]."""

    y: jax.Array
    low: jax.Array
    high: jax.Array
    eps: jax.Array
    moments: sums.Moments
    mean_log: jax.Array  # B
    surplus: jax.Array  # F − c
    slope: jax.Array  # −dF/dy ≥ 0

    def lift(self) -> jax.Array:
        """What (U − m)/R in the min form at this pole has too much, to third order in q.

        With q = −(F − c)/ξ2, dU/dF = R ε/a1, d²U/dF² = −(1 + 1/ξ2) dU/dF, d³U/dF³ = (1 + (3 + 2 ξ3/ξ2)/ξ2²) dU/dF.
        """
        a1, xi2, xi3 = self.moments.mean_tau, self.moments.xi2, self.moments.xi3
        q = jnp.where(xi2 > 0, -self.surplus / xi2, 0)
        skew = jnp.where(xi2 > 0, 2 / 3 * xi3 / xi2, 0)
        return self.eps / a1 * (xi2 / 2) * (q * q) * (1 - q * (1 + skew))

    def left(self) -> jax.Array:
        """Bound on what is left of the root's error in (U − m)/R then: δy = (F − c)/slope, some times ε slope δy⁴."""
        step = jnp.where(self.slope > 0, self.surplus / self.slope, 0)
        return 4 * self.eps * self.slope * jnp.square(jnp.square(step))


def _start(g: sums.Gaps, c: jax.Array, bound: jax.Array) -> jax.Array:
    """y near the root, from the moments of the gaps; log_root(bound/2), exact for large c, where they mislead.

    In v = log(1 + γ̄/ε) the function arccosh(e^F) is nearly linear (see `streaming_el`): its first three terms in v,
    inverted.
    """
    m2, m3, m4 = (g.spread(k) for k in (2, 3, 4))
    grown = jnp.expm1(c)
    w = g.mean * jnp.log1p(grown + jnp.sqrt(grown * (grown + 2))) / jnp.sqrt(m2)
    a, b, k = m3 / (g.mean * m2), m4 / (g.mean**2 * m2), m2 / g.mean**2
    first, second = 2 / 3 * a - 1 / 2, 1 / 6 - 2 / 3 * a + 3 / 4 * b - 5 / 12 * k - 2 / 9 * a * a
    bend = 1 - first * w + (2 * first * first - second) * w * w
    y = jnp.log(g.mean / jnp.expm1(w * bend))
    return jnp.where((bend > 0.5) & (bend < 2), y, bound)


def _solve(g: sums.Gaps, c: jax.Array) -> _Root:
    """F(y) = c by a bracketed third-order iteration on F^b, with the power b that makes F^b locally linear in y.

    F ~ ε^-2 for large ε (b = 0) and F ~ −y for small ε (b = 1): both ends are then solved in one step.
    """
    dtype, mean = g.gap.dtype, g.mean
    floor = sums.lowest_log(dtype)
    bound = g.spread(2) / jnp.expm1(c)  # F ≤ log1p(A) ≤ log1p(variance/(D ε)), hence D ε ≤ bound at the root

    def log_root(b: jax.Array) -> jax.Array:  # log of the ε with D ε = b; constant data have no gaps and any ε will do
        y = jnp.log(2 * b / (mean + jnp.sqrt(mean**2 + 4 * b)))
        return jnp.where(mean > 0, jnp.maximum(y, floor), floor)

    high = log_root(bound)
    start = jnp.clip(_start(g, c, log_root(bound / 2)), floor, high)

    def body(state: tuple[jax.Array, jax.Array, _Root]) -> tuple[jax.Array, jax.Array, _Root]:
        i, done, root = state
        eps = jnp.exp(root.y)
        moments = sums.moments(g, eps)
        mean_log = sums.mean_log(g, eps)
        a1, xi2 = moments.mean_tau, moments.xi2
        value = jnp.log1p(moments.excess * ((mean + eps) / eps)) - mean_log
        slope = a1 * xi2
        curvature = a1**2 * (3 * xi2 + 2 * moments.xi3 - xi2**2) - slope
        power = jnp.clip(1 - (value / slope) * (curvature / slope), 1e-3, 1.0)
        step = -value / slope * jnp.expm1(power * jnp.log(c / value)) / power
        y, low, high = sums.advance(root.y, step, root.low, root.high, value > c)
        new = _Root(y, low, high, eps, moments, mean_log, value - c, slope)
        # A root found stays as it is, so that a sample's index does not depend on the others of its batch.
        root = jax.tree.map(partial(jnp.where, done), root, new)
        rise = -(mean + root.eps) * jnp.expm1(-c - root.mean_log)
        close = jnp.abs(root.surplus) <= 0.1 * root.slope  # a long step says little of the distance to the root
        return i + 1, close & (root.left() <= jnp.finfo(dtype).eps * rise), root

    def unfinished(state: tuple[jax.Array, jax.Array, _Root]) -> jax.Array:
        return (state[0] < STEPS[dtype]) & ~state[1].all()

    blank = jnp.zeros_like(c)
    root = _Root(start, jnp.full_like(c, floor), high, blank, sums.Moments(*[blank] * 4), blank, blank, blank)
    return jax.lax.while_loop(unfinished, body, (0, blank > 0, root))[2]


class _Index(NamedTuple):
    upper: jax.Array  # [...]
    error: jax.Array  # [...] relative to (upper − mean)
    by_x: jax.Array  # [n, ...] dU/dx, the optimal weights q
    by_weight: jax.Array  # [n, ...] dU/dw
    by_radius: jax.Array  # [...] dU/dC


@numerics.lanes_last
def _parts(x: jax.Array, weights: jax.Array | None, radius: jax.Array) -> _Index:
    """Of x [n, ...], weights [n, ...] (numbers, a mask, or None) and radius [...]."""
    s = sums.sample(x, weights)
    g = sums.gaps(s, (s.top - s.x) / s.span)
    mean = jnp.clip(s.mean_about(s.x, s.top - s.span * g.mean), s.bottom, s.top)
    # Below c = eps³ the rise is ∝ √c to rounding, radius 0 included; above twice the lowest y nothing changes.
    rounding = jnp.finfo(x.dtype).eps
    asked = radius[None] / s.total
    c = jnp.clip(asked, rounding**3, -2 * sums.lowest_log(x.dtype))
    root = _solve(g, c)
    a1, denominator, decay, lift = root.moments.mean_tau, g.mean + root.eps, c + root.mean_log, root.lift()
    rise = (-denominator * jnp.expm1(-decay) - lift) * jnp.sqrt(jnp.minimum(asked / c, 1))  # (U − m)/R
    room = root.eps / a1 * (sums.rest(g, root.eps) + jnp.expm1(root.surplus)) + lift  # (M − U)/R
    upper = jnp.where(rise < room, mean + s.span * rise, s.top - s.span * jnp.maximum(room, 0))
    upper = jnp.where(s.constant, s.top, jnp.clip(upper, mean, s.top)) / s.scale
    largest = jnp.maximum(jnp.abs(s.top), jnp.abs(s.bottom)) / s.span
    relative = 1 / jnp.maximum(rise, jnp.finfo(x.dtype).tiny)
    count = s.total if s.p is None else jnp.sum(s.present, 0, keepdims=True, dtype=x.dtype)
    error = root.left() * relative + rounding * (16 + jnp.sqrt(count) + 4 * largest * relative)
    error = jnp.where(s.constant | (asked == 0), 0, error)
    # Derivatives are of first order in the root: they take the pole one step on.
    eps = jnp.exp(root.y)
    tau, denominator = s.only(eps / (g.gap + eps)), g.mean + eps
    a1, decay = s.average(tau), c + sums.mean_log(g, eps)
    a1 = jnp.where(a1 > 0, a1, 1)  # an empty sample
    by_x = tau / (a1 * s.total) if s.p is None else s.p * tau / a1
    by_weight = (
        -s.span * denominator * jnp.exp(-decay) / s.total * (decay + jnp.log((g.gap + eps) / denominator)) / s.scale
    )
    by_weight = s.only(jnp.where(s.constant, 0, by_weight))
    by_radius = jnp.where(s.constant, 0, s.span * eps / a1 / s.total / s.scale)
    upper, error = upper[0], error[0]
    if s.present is not None:
        empty = ~s.present.any(0)
        upper, error = jnp.where(empty, jnp.inf, upper), jnp.where(empty, 0, error)
    return _Index(upper, error, by_x, by_weight, by_radius[0])


def _in_blocks(function: Callable, x: jax.Array, weights: jax.Array | None, radius: jax.Array) -> Any:
    """function(x, weights, radius) of shapes as in `_parts`; on CPUs so many samples at a time as stay in cache."""
    if jax.default_backend() != "cpu":
        return function(x, weights, radius)
    lanes = max(BLOCK_BYTES // (len(x) * x.dtype.itemsize), LANES)
    flat = jax.tree.map(lambda t: t.reshape(*t.shape[: t.ndim - radius.ndim], -1), (x, weights, radius))
    out = numerics.in_blocks(function, lanes, flat)
    return jax.tree.map(lambda t: t.reshape(*t.shape[:-1], *radius.shape), out)


_one = numerics.lanes_last(partial(_in_blocks, lambda *block: _parts(*block)[:2]))
_both = numerics.lanes_last(partial(_in_blocks, lambda *block: _parts(*_mirrored(*block)).upper))


def _mirrored(x: jax.Array, weights: jax.Array | None, radius: jax.Array) -> tuple:
    """The samples −x and x, side by side on a second axis [n, 2, ...]."""
    return jnp.stack([-x, x], 1), None if weights is None else jnp.stack([weights] * 2, 1), jnp.stack([radius] * 2)


@jax.jit
@jax.custom_jvp
def index(x: jax.Array, weights: jax.Array | None, radius: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(U, error) of x [n, ...], weights [n, ...] (numbers, a mask, or None) and radius [...]."""
    return _one(x, weights, radius)


def _index_jvp(primals: tuple, tangents: tuple) -> tuple:
    parts = _parts(*primals)
    by_x, by_weight, by_radius = tangents
    tangent = jnp.sum(parts.by_x * by_x, 0) + parts.by_radius * by_radius
    if primals[1] is not None and primals[1].dtype != bool:
        tangent += jnp.sum(parts.by_weight * by_weight, 0)
    return parts[:2], (tangent, jnp.zeros_like(tangent))


index.__wrapped__.defjvp(_index_jvp)


@jax.jit
@jax.custom_jvp
def interval(x: jax.Array, weights: jax.Array | None, radius: jax.Array) -> jax.Array:
    """[2, ...]: the lower and the upper end."""
    ends = _both(x, weights, radius)
    return jnp.stack([-ends[0], ends[1]])


def _interval_jvp(primals: tuple, tangents: tuple) -> tuple:
    if primals[1] is not None and primals[1].dtype == bool:
        tangents = tangents[0], None, tangents[2]
    (upper, _), (tangent, _) = _index_jvp(_mirrored(*primals), _mirrored(*tangents))
    return jnp.stack([-upper[0], upper[1]]), jnp.stack([-tangent[0], tangent[1]])


interval.__wrapped__.defjvp(_interval_jvp)
