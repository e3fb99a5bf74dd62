"""Small numerical pieces shared by policies and the engine; none has an absolute tolerance."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Two indices are tied when they differ by less than TIE_ULPS · eps · (larger |reward| of the two arms). Rounding
# depends on the order of the rewards; without the rule it, not the data, would choose between equal arms.
TIE_ULPS = 32


def read(values: jax.Array, arm: jax.Array) -> jax.Array:
    """`values[arm]` along a short leading axis, by selection: fuses with what follows, where a gather would not."""
    chosen = jnp.arange(values.shape[0], dtype=jnp.int32) == arm
    chosen = chosen.reshape(chosen.shape + (1,) * (values.ndim - 1))
    return jnp.where(chosen, values, jnp.zeros_like(values)).sum(0, dtype=values.dtype)


def tie_tolerance(magnitude: jax.Array) -> jax.Array:
    """The difference below which indices of rewards up to this |reward| are tied."""
    return TIE_ULPS * jnp.finfo(magnitude.dtype).eps * magnitude


def argmax_tied(index: jax.Array, magnitude: jax.Array, error: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(arm, sure): the lowest arm whose index ties with the largest, and whether errors could not change that.

    `magnitude` [K] is each arm's largest |reward|, `error` [K] a bound on each index's absolute error. An infinite
    index (an arm not yet pulled) ties only with another infinite one. With a NaN among the indices nothing is sure.
    """
    best = jnp.argmax(index)
    largest = index[best]
    tolerance = tie_tolerance(jnp.maximum(magnitude, magnitude[best]))
    behind = jnp.where(index == largest, 0, largest - index)  # inf − inf is a tie
    tied = (behind < tolerance) | (behind == 0)
    doubt = jnp.where(jnp.arange(index.shape[0]) == best, 0, error + error[best])
    sure = ((behind + doubt < tolerance) | (behind - doubt >= tolerance) | (doubt == 0)).all()
    return jnp.argmax(tied).astype(jnp.int32), sure & ~jnp.isnan(index).any()


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
