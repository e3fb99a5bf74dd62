"""A sample in gaps below its maximum, and the sums over it that both problems are solved with.

Samples lie on the first axis, [n, ...], and whatever is one number per sample is [1, ...]: every sum then runs over
vectors of lanes, where a sum along the last axis would take one number after another. Masked entries are put where
their terms vanish, so that only weights ask for a product with p.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eljax import numerics

GROUP = 8  # factors to a logarithm


class Sample(NamedTuple):
    """Lengths are in units of 1/scale."""

    x: jax.Array  # [n, ...] scaled data, masked entries moved to `top`
    top: jax.Array
    bottom: jax.Array
    span: jax.Array  # top − bottom, or 1 for constant data
    constant: jax.Array  # bool: all data equal (or none)
    scale: jax.Array  # a power of two
    total: jax.Array  # total weight n (1 for an empty sample)
    present: jax.Array | None  # [n, ...] bool; None: all are
    p: jax.Array | None  # [n, ...] weights that sum to 1; None: those present count alike

    def only(self, values: jax.Array, other: jax.Array | float = 0) -> jax.Array:
        """The values [n, ...], with `other` on masked entries."""
        return values if self.present is None else jnp.where(self.present, values, other)

    def average(self, values: jax.Array) -> jax.Array:
        """Σ p · values of [n, ...] values that are 0 on masked entries."""
        if self.p is None:
            return jnp.sum(values, 0, keepdims=True) / self.total
        return jnp.sum(self.p * values, 0, keepdims=True)

    def mean_about(self, values: jax.Array, centre: jax.Array) -> jax.Array:
        """centre + Σ p (values − centre): the mean, correctly rounded but for an ulp if the centre is close to it."""
        return centre + self.average(self.only(values - centre))


def sample(x: jax.Array, weights: jax.Array | None) -> Sample:
    """Of x [n, ...] and weights [n, ...]: numbers, a bool mask, or None."""
    present = weights if weights is None or weights.dtype == bool else weights > 0
    only = lambda other: x if present is None else jnp.where(present, x, other)  # noqa: E731
    top, bottom = jnp.max(only(-jnp.inf), 0, keepdims=True), jnp.min(only(jnp.inf), 0, keepdims=True)
    if weights is None:
        p, total = None, jnp.full_like(top, x.shape[0])
    else:
        some = present.any(0, keepdims=True)
        top, bottom = jnp.where(some, top, 0), jnp.where(some, bottom, 0)
        total = jnp.where(some, jnp.sum(weights, 0, keepdims=True, dtype=x.dtype), 1)
        p = None if weights.dtype == bool else weights / total
    # An exact change of unit keeps sums and products of data near the ends of the exponent range finite and normal.
    unit = jnp.asarray(2.0**64, x.dtype)
    scale = jnp.where(jnp.maximum(jnp.abs(top), jnp.abs(bottom)) > 1, 1 / unit, unit)
    x, top, bottom = only(top) * scale, top * scale, bottom * scale
    constant = top == bottom
    return Sample(x, top, bottom, jnp.where(constant, 1, top - bottom), constant, scale, total, present, p)


class Gaps(NamedTuple):
    """Gaps γ below the maximum (or above the minimum) in units of the range."""

    gap: jax.Array  # [n, ...]; masked entries at the mean
    mean: jax.Array  # γ̄
    deviation: jax.Array  # [n, ...] γ̄ − γ
    sample: Sample

    def spread(self, power: int) -> jax.Array:
        """Σ p (γ̄ − γ)^power."""
        return self.sample.average(self.deviation**power)


def gaps(s: Sample, gap: jax.Array) -> Gaps:
    gap = s.only(gap)
    mean = s.mean_about(gap, s.average(gap))
    gap = s.only(gap, mean)
    return Gaps(gap, mean, mean - gap, s)


class Moments(NamedTuple):
    """Sums at one pole, each [1, ...]. τ = mean_tau · (1 + ξ) with Σ p ξ = 0."""

    mean_tau: jax.Array  # Σ p τ = κ (1 + A),  κ = ε/D
    excess: jax.Array  # κ A = Σ p u²τ
    xi2: jax.Array  # Σ p ξ²
    xi3: jax.Array  # Σ p ξ³


def moments(g: Gaps, eps: jax.Array) -> Moments:
    # v = u τ = κ (τ/κ − 1) lies in [−1, 1] and is small when τ is nearly constant: no cancellation.
    inverse = 1 / (g.mean + eps)
    v = g.deviation * (eps * inverse / (g.gap + eps))
    square = v * v
    excess, v2, v3 = (g.sample.average(t) for t in (g.deviation * v, square, square * v))
    excess = excess * inverse
    mean_tau = eps * inverse + excess
    xi2 = (v2 - jnp.square(excess)) / jnp.square(mean_tau)
    xi3 = (v3 - 3 * excess * v2 + 2 * excess**3) / mean_tau**3
    return Moments(mean_tau, excess, xi2, xi3)


def rest(g: Gaps, eps: jax.Array) -> jax.Array:
    """Σ p (1 − τ) = Σ p γ/(γ + ε)."""
    return g.sample.average(g.sample.only(g.gap / (g.gap + eps)))


def mean_log(g: Gaps, eps: jax.Array) -> jax.Array:
    """B = Σ p (−log(1 − u) − u), accurate relative to itself."""
    inverse = 1 / (g.mean + eps)
    u, r = g.deviation * inverse, (g.gap + eps) * inverse
    if g.sample.p is not None:
        return g.sample.average(numerics.minus_log_minus(u, r))
    rows = len(u) // GROUP
    blocks = [slice(j * rows, (j + 1) * rows) for j in range(GROUP)] if rows else []
    singles = [slice(j, j + 1) for j in range(GROUP * rows, len(u))]
    sums = [
        jnp.sum(numerics.minus_log_product([u[j] for j in part], [r[j] for j in part]), 0, keepdims=True)
        for part in (blocks, singles)
        if part
    ]
    return sum(sums) / g.sample.total


def lowest_log(dtype: Any) -> float:
    """The least y used: e^y and its quotients are normal numbers. A root below it puts U at the maximum to rounding."""
    return float(np.log(jnp.finfo(dtype).tiny)) + 4


def advance(y: jax.Array, step: jax.Array, low: jax.Array, high: jax.Array, right: jax.Array) -> tuple:
    """Narrow the bracket with the side the root lies on, then step, or bisect where the step leaves the bracket."""
    low, high = jnp.where(right, y, low), jnp.where(right, high, y)
    new = y + step
    return jnp.where((new >= low) & (new <= high), new, (low + high) / 2), low, high
