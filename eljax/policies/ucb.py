"""UCB for rewards of known scale.

Paper: Auer, Cesa-Bianchi and Fischer, "Finite-time analysis of the multiarmed bandit problem" (2002), UCB1, with the
width of sub-Gaussian rewards. Each arm once, then

    pull argmax_i mean_i + σ √(2 log t / N_i)

Assumes σ-sub-Gaussian rewards with σ known: rewards on another scale need another σ.
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import checks, numerics
from eljax.policies import _means
from eljax.types import Decision, Policy


def ucb(sigma: float) -> Policy:
    """UCB with scale `sigma` > 0, in the unit of the rewards; UCB1 is sigma = 1 on rewards in [0, 1].

    Raises:
      ValueError: sigma not a positive number.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.ucb(1.0), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    sigma = checks.hyperparameter("sigma", sigma, low=0.0, open_low=True)
    return Policy(
        Partial(_means.init), Partial(_select, sigma=sigma), Partial(_means.update), Partial(_validate, sigma=sigma)
    )


def _validate(num_arms: int, horizon: int, *, sigma: float) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameter


def _select(
    key: jax.Array, t: jax.Array, state: _means.MeanState, *, sigma: jax.Array
) -> tuple[Decision, _means.MeanState]:
    index = _index(state, jnp.log(t.astype(state.centre.dtype)), sigma)
    return _means.largest(index, state.magnitude), state


@numerics.lanes_last
def _index(state: _means.MeanState, log_t: jax.Array, sigma: jax.Array) -> jax.Array:
    width = sigma * jnp.sqrt(2 * log_t / jnp.maximum(state.count, 1))
    return jnp.where(state.count > 0, _means.mean(state) + width, jnp.inf)
