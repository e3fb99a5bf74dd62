"""What policies on sample means share: the state, and the choice of the arm of largest index."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from eljax import numerics
from eljax.types import Decision


class MeanState(NamedTuple):
    """Counts and compensated sums about each arm's first reward (a running mean would depend on the order)."""

    count: jax.Array  # [K] int32: pulls
    magnitude: jax.Array  # [K]: largest |reward|
    centre: jax.Array  # [K]: first reward
    total: numerics.RunningSum  # of [K]: Σ (reward − centre)


def init(num_arms: int, horizon: int, dtype: jnp.dtype) -> MeanState:
    """No rewards yet."""
    zero = jnp.zeros(num_arms, dtype)
    return MeanState(jnp.zeros(num_arms, jnp.int32), zero, zero, numerics.RunningSum(zero, zero))


def update(state: MeanState, arm: jax.Array, reward: jax.Array) -> MeanState:
    """One more reward of `arm`."""
    count, magnitude, centre, total = jax.tree.map(lambda x: numerics.read(x, arm), state)
    centre = jnp.where(count == 0, reward, centre)
    new = MeanState(count + 1, jnp.maximum(magnitude, jnp.abs(reward)), centre, numerics.add(total, reward - centre))
    return jax.tree.map(lambda x, y: numerics.write(x, arm, y), state, new)


@numerics.lanes_last
def mean(state: MeanState) -> jax.Array:
    """[K] sample means, the first centre (0) for arms without rewards."""
    return numerics.mean_about(state.centre, state.total, state.count)


def largest(index: jax.Array, magnitude: jax.Array) -> Decision:
    """The lowest arm whose index [K] ties with the largest; the indices are exact."""
    arm, sure = _argmax_tied(index, magnitude)
    return Decision(arm, jnp.zeros((), bool), index, jnp.zeros_like(index), sure)


@numerics.lanes_last
def _argmax_tied(index: jax.Array, magnitude: jax.Array) -> tuple[jax.Array, jax.Array]:
    return numerics.argmax_tied(index, magnitude, jnp.zeros_like(index))
