"""What policies on sample variances share: the state of `_means` with a compensated sum of squared deviations.

    Σ (x_i − mean)²  grows by  (x − mean_n)² · n / (n + 1)  with the reward after the first n

Every term is positive, so nothing cancels: the variance keeps the relative accuracy of the rewards' differences at any
offset, and scales exactly. (Squares must stay within the range of the dtype.)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from eljax import numerics
from eljax.policies import _means


class VarianceState(NamedTuple):
    """The means, and the squared deviations from them."""

    means: _means.MeanState
    squares: numerics.RunningSum  # of [K]: Σ (reward − mean)²


def init(num_arms: int, horizon: int, dtype: jnp.dtype) -> VarianceState:
    """No rewards yet."""
    means = _means.init(num_arms, horizon, dtype)
    return VarianceState(means, means.total)


def update(state: VarianceState, arm: jax.Array, reward: jax.Array) -> VarianceState:
    """One more reward of `arm`."""
    means, squares = jax.tree.map(lambda x: numerics.read(x, arm), state)
    count = means.count.astype(reward.dtype)
    from_mean = (reward - means.centre) - (means.total.high + means.total.low) / jnp.maximum(count, 1)
    from_mean = jnp.where(means.count > 0, from_mean, 0)
    new = numerics.add(squares, from_mean * from_mean * (count / (count + 1)))
    squares = jax.tree.map(lambda x, y: numerics.write(x, arm, y), state.squares, new)
    return VarianceState(_means.update(state.means, arm, reward), squares)


@numerics.lanes_last
def variance(state: VarianceState) -> jax.Array:
    """[K] biased (1/n) sample variances, 0 for arms with less than two rewards."""
    return (state.squares.high + state.squares.low) / jnp.maximum(state.means.count, 1)
