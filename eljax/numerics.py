"""Small numerical pieces shared by policies and the engine; none has an absolute tolerance."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Two indices are tied when they differ by less than TIE_ULPS · eps · (larger |reward| of the two arms). Rounding
# depends on the order of the rewards; without the rule it, not the data, would choose between equal arms.
TIE_ULPS = 32


def read(values: jax.Array, arm: jax.Array) -> jax.Array:
    """`values[arm]` along the leading axis K, by selection: batched gathers are scalar loops on a CPU."""
    chosen = _one_hot(values, arm)
    return jnp.where(chosen, values, jnp.zeros_like(values)).sum(0, dtype=values.dtype)


def write(values: jax.Array, arm: jax.Array, new: jax.Array) -> jax.Array:
    """`values` with row `arm` replaced by `new`, by selection."""
    return jnp.where(_one_hot(values, arm), new, values)


def _one_hot(values: jax.Array, arm: jax.Array) -> jax.Array:
    chosen = jnp.arange(values.shape[0], dtype=jnp.int32) == arm
    return chosen.reshape(chosen.shape + (1,) * (values.ndim - 1))


def argmax_tied(index: jax.Array, magnitude: jax.Array) -> jax.Array:
    """The lowest arm whose index ties with the largest one; `magnitude` [K] is each arm's largest |reward|.

    An infinite index (an arm not yet pulled) ties only with another infinite one.
    """
    best = jnp.argmax(index)
    scale = jnp.maximum(magnitude, read(magnitude, best))
    largest = read(index, best)
    tolerance = TIE_ULPS * jnp.finfo(index.dtype).eps * scale
    tied = (index == largest) | ((largest < jnp.inf) & (largest - index < tolerance))
    return jnp.argmax(tied).astype(jnp.int32)


class RunningSum(NamedTuple):
    """A compensated sum: the exact total is high + low, with low at rounding level."""

    high: jax.Array
    low: jax.Array


def add(total: RunningSum, x: jax.Array) -> RunningSum:
    """Add x without loss: 1e7 float32 terms stay exact to 2e-9 where a plain or Welford mean is 3.6e-5 off."""
    high = total.high + x
    part = high - total.high
    return RunningSum(high, total.low + ((total.high - (high - part)) + (x - part)))


def index_tolerance(dtype: jnp.dtype) -> float:
    """Largest relative error of (index − mean) that a decision by index may rest on."""
    return 1e-6 if jnp.dtype(dtype) == jnp.float64 else 1e-4
