"""ISM-NORMAL2: the index policy for Gaussian rewards whose mean and variance are both unknown.

Paper: Cowan, Honda and Katehakis, "Normal bandits of unknown means and variances" (2018). Each arm three times, then

    pull argmax_i mean_i + S_i √(n^{2/(N_i − 2)} − 1)      S_i² = (1/N_i) Σ (X − mean_i)², n pulls of all arms so far

Assumes Gaussian rewards; knows neither location nor scale, so the same arms in another unit get the same pulls.
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import numerics
from eljax.policies import _means, _variances
from eljax.types import Decision, Policy

OPENING = 3  # the exponent needs N > 2


def ism_normal() -> Policy:
    """ISM-NORMAL2; it has no parameter.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(10.0, 4.0), eljax.gaussian(8.0, 4.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.ism_normal(), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    return Policy(Partial(_variances.init), Partial(_select), Partial(_variances.update), Partial(_validate))


def _validate(num_arms: int, horizon: int) -> None:
    pass  # there is nothing to check


def _select(key: jax.Array, t: jax.Array, state: _variances.VarianceState) -> tuple[Decision, _variances.VarianceState]:
    index, magnitude, opening = _index(state)
    return _means.largest(index, magnitude)._replace(forced=opening), state


@numerics.lanes_last
def _index(state: _variances.VarianceState) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The indices [K], the numbers [K] whose rounding is theirs, and whether the opening goes on."""
    count, mean = state.means.count, _means.mean(state.means)
    log_n = jnp.log(jnp.maximum(count.astype(mean.dtype).sum(0), 1))
    growth = jnp.expm1(2 * log_n / jnp.maximum(count - (OPENING - 1), 1))
    width = jnp.sqrt(_variances.variance(state) * growth)
    least = numerics.read(count, numerics.argmax(-count))
    in_turns = jnp.where(count == least, jnp.inf, mean)
    return jnp.where(count < OPENING, in_turns, mean + width), state.means.magnitude + width, least < OPENING
