"""Divergences d(m, q) between two laws of one family with means m ≤ q, and their upper inverses.

    gaussian      d = (q − m)² / (2 σ²)
    bernoulli     d = m log(m/q) + (1 − m) log((1 − m)/(1 − q))      0 log 0 = 0
    exponential   d = m/q − 1 − log(m/q)

    upper(m, c) = max { q : d(m, q) ≤ c }

The inverses run a fixed number of Newton steps on convex functions, from above the root: they fall to it monotonically
and are at rounding after `_steps`, at means 0 and 1 too. All functions act on each number alone.
"""

from typing import Any

import jax
import jax.numpy as jnp

from eljax import checks, numerics
from eljax.types import Option

FAMILIES = ("gaussian", "bernoulli", "exponential")


def hyperparameters(family: Any, sigma: Any) -> dict:
    """The checked `family`, with `sigma` where it means something: the Gaussian family's standard deviation."""
    if not isinstance(family, str) or family not in FAMILIES:
        checks.fail("family", family, "one of " + ", ".join(f'"{name}"' for name in FAMILIES))
    if family == "gaussian":
        return {"family": Option(family), "sigma": checks.hyperparameter("sigma", sigma, low=0.0, open_low=True)}
    if isinstance(sigma, jax.Array) or sigma != 1.0:
        checks.fail("sigma", sigma, f"left at 1.0 for the {family} family, which has no scale of its own")
    return {"family": Option(family)}


def divergence(family: Option, mean: jax.Array, other: jax.Array, sigma: jax.Array | float = 1.0) -> jax.Array:
    """d(mean, other) for mean ≤ other, accurate relative to itself; +inf where `other` rules out rewards of `mean`."""
    gap = other - mean
    if family == "gaussian":
        return 0.5 * (gap / sigma) ** 2
    least = jnp.finfo(mean.dtype).tiny
    if family == "exponential":
        other = jnp.maximum(other, least)
        return numerics.minus_log_minus(gap / other, mean / other)
    ones, zeros = jnp.clip(mean, least, 1), jnp.maximum(1 - mean, least)
    return ones * numerics.minus_log_minus(-gap / ones, other / ones) + zeros * numerics.minus_log_minus(
        gap / zeros, (1 - other) / zeros
    )


def slope(family: Option, mean: jax.Array, other: jax.Array, sigma: jax.Array | float = 1.0) -> jax.Array:
    """−∂d/∂mean ≥ 0: what an error of the mean is worth in the divergence."""
    if family == "gaussian":
        return (other - mean) / sigma**2
    least = jnp.finfo(mean.dtype).tiny
    if family == "exponential":
        return (other - mean) / jnp.maximum(mean, least) / jnp.maximum(other, least)
    logit = lambda p: jnp.log(jnp.maximum(p, least)) - jnp.log(jnp.maximum(1 - p, least))  # noqa: E731
    return logit(other) - logit(mean)


def upper(family: Option, mean: jax.Array, level: jax.Array, sigma: jax.Array | float = 1.0) -> jax.Array:
    """The largest q with d(mean, q) ≤ level, for level ≥ 0."""
    if family == "gaussian":
        return mean + sigma * jnp.sqrt(2 * level)
    if family == "exponential":
        return mean * exponential_stretch(level)
    return _upper_bernoulli(jnp.clip(mean, 0, 1), level)


def exponential_stretch(level: jax.Array) -> jax.Array:
    """upper(m, level) / m of the exponential family, the same for all m: e^u where u + e^−u − 1 = level, u ≥ 0."""
    u = level + jnp.sqrt(2 * level)
    for _ in range(_steps(level.dtype)):
        u = _newton(u, u + jnp.expm1(-u) - level, -jnp.expm1(-u))
    return jnp.exp(u)


def _upper_bernoulli(mean: jax.Array, level: jax.Array) -> jax.Array:
    """Solved in u = log((1 − m)/(1 − q)): d = (1 − m) u − m log(q/m) has slope 1 − m/q, so it is convex."""
    rest, ones = 1 - mean, jnp.maximum(mean, jnp.finfo(mean.dtype).tiny)
    some = jnp.where(rest > 0, rest, 1)
    u = level / some + jnp.sqrt(2 * level * mean / some)
    for _ in range(_steps(level.dtype)):
        above = -rest * jnp.expm1(-u)  # q − m
        u = _newton(u, rest * u - mean * jnp.log1p(above / ones) - level, above / (mean + above))
    return jnp.minimum(mean - rest * jnp.expm1(-u), 1)


def _newton(u: jax.Array, value: jax.Array, gradient: jax.Array) -> jax.Array:
    return jnp.where(gradient > 0, u - value / jnp.where(gradient > 0, gradient, 1), u)


def _steps(dtype: jnp.dtype) -> int:
    """The start is off by at most .4; each step squares the error: 1e-2, 4e-5, 4e-10, 1e-19."""
    return 4 if jnp.dtype(dtype) == jnp.float64 else 3
