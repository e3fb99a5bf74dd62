"""The exact EL index over all rewards of every arm: O(n) per solve, O(K·T) memory per run.

The reference that any faster index must agree with. An index implementation is three functions of one run:

    init(num_arms, horizon, dtype) -> state      push(state, arm, reward) -> state
    arm_index(state, arm, radius) -> (index, error)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from eljax import numerics
from eljax.empirical_likelihood import el_index_with_error


class History(NamedTuple):
    """Every reward of every arm, in the order of the pulls."""

    count: jax.Array  # [K] int32: pulls
    magnitude: jax.Array  # [K]: largest |reward|, the scale of rounding
    rewards: jax.Array  # [K, T]


def init(num_arms: int, horizon: int, dtype: jnp.dtype) -> History:
    """No rewards yet."""
    return History(jnp.zeros(num_arms, jnp.int32), jnp.zeros(num_arms, dtype), jnp.zeros((num_arms, horizon), dtype))


def push(history: History, arm: jax.Array, reward: jax.Array) -> History:
    """Append one reward of `arm`."""
    n = numerics.read(history.count, arm)
    magnitude = jnp.maximum(numerics.read(history.magnitude, arm), jnp.abs(reward))
    return History(
        numerics.write(history.count, arm, n + 1),
        numerics.write(history.magnitude, arm, magnitude),
        history.rewards.at[arm, n].set(reward, mode="drop"),
    )


def arm_index(history: History, arm: jax.Array, radius: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Upper EL index of one arm and its relative error; +inf while the arm has not been pulled."""
    seen = jnp.arange(history.rewards.shape[1], dtype=jnp.int32) < numerics.read(history.count, arm)
    return el_index_with_error(history.rewards[arm], radius, seen)
