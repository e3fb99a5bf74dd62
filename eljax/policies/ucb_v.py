"""UCB-V: UCB with the empirical variance, for rewards of known range.

Paper: Audibert, Munos and Szepesvári, "Exploration-exploitation tradeoff using variance estimates in multi-armed
bandits" (2009), exploration function log t and c = 1. Each arm once, then

    pull argmax_i mean_i + √(2 V_i log t / N_i) + 3 b log t / N_i      V_i the biased (1/n) sample variance

Assumes rewards in an interval of known length b; where it lies does not matter.
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import checks, numerics
from eljax.policies import _means, _variances
from eljax.types import Decision, Policy


def ucb_v(reward_range: float) -> Policy:
    """UCB-V for rewards in an interval of length `reward_range` b > 0, in their unit: 1 for rewards in [0, 1].

    Raises:
      ValueError: reward_range not a positive number.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.beta(3.0, 2.0), eljax.beta(2.0, 3.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.ucb_v(1.0), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    reward_range = checks.hyperparameter("reward_range", reward_range, low=0.0, open_low=True)
    select = Partial(_select, reward_range=reward_range)
    validate = Partial(_validate, reward_range=reward_range)
    return Policy(Partial(_variances.init), select, Partial(_variances.update), validate)


def _validate(num_arms: int, horizon: int, *, reward_range: float) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameter


def _select(
    key: jax.Array, t: jax.Array, state: _variances.VarianceState, *, reward_range: jax.Array
) -> tuple[Decision, _variances.VarianceState]:
    index = _index(state, jnp.log(t.astype(state.means.centre.dtype)), reward_range)
    return _means.largest(index, state.means.magnitude), state


@numerics.lanes_last
def _index(state: _variances.VarianceState, log_t: jax.Array, reward_range: jax.Array) -> jax.Array:
    rate = log_t / jnp.maximum(state.means.count, 1)
    width = jnp.sqrt(2 * _variances.variance(state) * rate) + 3 * reward_range * rate
    return jnp.where(state.means.count > 0, _means.mean(state.means) + width, jnp.inf)
