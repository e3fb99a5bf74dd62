"""IMED: the arm whose rewards would be least surprising if it were the best one.

Paper: Honda and Takemura, "Non-asymptotic analysis of a new bandit algorithm for semi-bounded rewards" (2015), for
one-parameter families. Each arm once, then

    pull argmin_i N_i d(mean_i, max_j mean_j) + log N_i

with d the divergence of the family (`_divergences`); no time enters. Assumes rewards of the family: "gaussian" of known
standard deviation σ; "bernoulli", or anything in [0, 1]; "exponential", positive.
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import numerics
from eljax.policies import _divergences, _means
from eljax.types import Decision, Option, Policy


def imed(family: str, *, sigma: float = 1.0) -> Policy:
    """IMED for rewards of `family`: "gaussian", "bernoulli" (rewards in [0, 1]) or "exponential" (rewards > 0).

    A decision's `index` holds the negative of what the arms are compared by, so that the largest is pulled.

    Args:
      family: what d is the divergence of.
      sigma: standard deviation of the Gaussian family, in the unit of the rewards; no other family takes it.

    Raises:
      ValueError: unknown family; sigma not positive, or given to a family without a scale.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.exponential(1.5), eljax.exponential(1.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.imed("exponential"), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    hyper = _divergences.hyperparameters(family, sigma)
    return Policy(Partial(_means.init), Partial(_select, **hyper), Partial(_means.update), Partial(_validate, **hyper))


def _validate(num_arms: int, horizon: int, *, family: Option, sigma: float = 1.0) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameters


def _select(
    key: jax.Array, t: jax.Array, state: _means.MeanState, *, family: Option, sigma: jax.Array | float = 1.0
) -> tuple[Decision, _means.MeanState]:
    index, offset, magnitude = _index(family, state, sigma)
    decision = _means.largest(-index, magnitude)
    return decision._replace(index=decision.index - offset), state


@numerics.lanes_last
def _index(family: Option, state: _means.MeanState, sigma: jax.Array | float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The indices [K] less log N of the best arm, that logarithm, and the numbers [K] whose rounding is theirs.

    Two arms near the top differ by much less than log N: with it in their indices float32 would often call them tied.
    """
    mean, count = _means.mean(state), state.count.astype(state.centre.dtype)
    leader = numerics.argmax(jnp.where(state.count > 0, mean, -jnp.inf))
    best, most = numerics.read(mean, leader), jnp.maximum(numerics.read(count, leader), 1)
    surprise, novelty = count * _divergences.divergence(family, mean, best, sigma), jnp.log(count / most)
    rounding = surprise + jnp.abs(novelty) + count * (_divergences.slope(family, mean, best, sigma) * state.magnitude)
    pulled = state.count > 0
    return jnp.where(pulled, surprise + novelty, -jnp.inf), jnp.log(most), jnp.where(pulled, rounding, 0)
