"""KL-UCB: the largest mean that a one-parameter family still finds plausible, for rewards of a known family.

Paper: Garivier and Cappé, "The KL-UCB algorithm for bounded stochastic bandits and beyond" (2011). Each arm once, then

    pull argmax_i max { q : N_i d(mean_i, q) ≤ (1 + b) log t + c log log t }

with d the divergence of the family (`_divergences`). b = 0 is KL-UCB, and c = 0 what its authors recommend in practice.
b > 0 is the inflated rate of Fan and Glynn, "The fragility of optimized bandit algorithms" (2025), which thins the
regret tail from about 1/x to x^−(1+b).

Assumes rewards of the family: "gaussian" of known standard deviation σ, with index mean + σ √(2 (1+b) log t / N) at
c = 0; "bernoulli", or anything in [0, 1]; "exponential", positive.
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import checks, numerics
from eljax.policies import _divergences, _means
from eljax.types import Decision, Option, Policy


def kl_ucb(family: str, inflation: float = 0.0, *, loglog: float = 0.0, sigma: float = 1.0) -> Policy:
    """KL-UCB for rewards of `family`: "gaussian", "bernoulli" (rewards in [0, 1]) or "exponential" (rewards > 0).

    Args:
      family: what d is the divergence of.
      inflation: b >= 0, the level is (1 + b) log t.
      loglog: c >= 0, adds c log log t to the level (nothing while log t < 1).
      sigma: standard deviation of the Gaussian family, in the unit of the rewards; no other family takes it.

    Raises:
      ValueError: unknown family; inflation or loglog negative or not finite; sigma not positive, or given to a family
        without a scale.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.8)])
      >>> result = eljax.simulate(bandit, eljax.policies.kl_ucb("bernoulli"), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    hyper = _divergences.hyperparameters(family, sigma)
    inflation = checks.hyperparameter("inflation", inflation, low=0.0)
    loglog = checks.hyperparameter("loglog", loglog, low=0.0)
    hyper = {"family": hyper.pop("family"), "inflation": inflation, "loglog": loglog, **hyper}
    return Policy(Partial(_means.init), Partial(_select, **hyper), Partial(_means.update), Partial(_validate, **hyper))


def _validate(
    num_arms: int, horizon: int, *, family: Option, inflation: float, loglog: float, sigma: float = 1.0
) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameters


def _select(
    key: jax.Array,
    t: jax.Array,
    state: _means.MeanState,
    *,
    family: Option,
    inflation: jax.Array,
    loglog: jax.Array,
    sigma: jax.Array | float = 1.0,
) -> tuple[Decision, _means.MeanState]:
    log_t = jnp.log(t.astype(state.centre.dtype))
    level = (1 + inflation) * log_t + loglog * jnp.log(jnp.maximum(log_t, 1))
    index, magnitude = _index(family, state, level, sigma)
    return _means.largest(index, magnitude), state


@numerics.lanes_last
def _index(
    family: Option, state: _means.MeanState, level: jax.Array, sigma: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """The indices [K], and the numbers [K] whose rounding is theirs."""
    level = level / jnp.maximum(state.count, 1)
    mean, magnitude = _means.mean(state), state.magnitude
    if family == "exponential":  # the mean's rounding is stretched with it
        stretch = _divergences.exponential_stretch(level)
        index, magnitude = mean * stretch, magnitude * stretch
    else:
        index = _divergences.upper(family, mean, level, sigma)
    if family == "bernoulli":  # the index may be far above all rewards
        magnitude = jnp.maximum(magnitude, index)
    return jnp.where(state.count > 0, index, jnp.inf), magnitude
