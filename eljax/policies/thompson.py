"""Thompson sampling: pull the arm that is best in a draw from the posterior.

Papers: Thompson, "On the likelihood that one unknown probability exceeds another in view of the evidence of two
samples" (1933); for the priors Korda, Kaufmann and Munos, "Thompson sampling for 1-dimensional exponential family
bandits" (2013). Each round draw θ_i for each arm, independently, and pull argmax_i θ_i:

    gaussian      θ = mean + σ Z / √N           Z ~ N(0, 1): flat improper prior, σ known; each arm once first
    bernoulli     θ ~ Beta(1 + S, 1 + N − S)    uniform prior, S successes
    exponential   θ = Σ X / G                   G ~ Gamma(N): prior 1/θ on the mean; each arm once first

A reward x strictly between 0 and 1 is a success of the Bernoulli family with probability x, by a coin (Agrawal and
Goyal, "Analysis of Thompson sampling for the multi-armed bandit problem", 2012), so rewards in [0, 1] will do.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import numerics, random
from eljax.policies import _divergences, _draws, _means
from eljax.types import Decision, Option, Policy


class BernoulliState(NamedTuple):
    """Pulls and successes, and the uniform number that the next reward is compared with."""

    count: jax.Array  # [K] int32
    successes: jax.Array  # [K] int32
    coin: jax.Array  # [] in (0, 1)


def thompson(family: str, *, sigma: float = 1.0) -> Policy:
    """Thompson sampling for rewards of `family`: "gaussian", "bernoulli" (in [0, 1]) or "exponential" (> 0).

    The draws take a fixed number of operations. Normal ones are exact; those made of Gamma numbers have distribution
    functions within 1e-6 of the posterior's (`_draws`).

    Args:
      family: of the likelihood; the priors are above.
      sigma: standard deviation of the Gaussian family, in the unit of the rewards; no other family takes it.

    Raises:
      ValueError: unknown family; sigma not positive, or given to a family without a scale.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.8)])
      >>> result = eljax.simulate(bandit, eljax.policies.thompson("bernoulli"), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    hyper = _divergences.hyperparameters(family, sigma)
    validate = Partial(_validate, **hyper)
    if family == "bernoulli":
        return Policy(Partial(_init_bernoulli), Partial(_select_bernoulli), Partial(_update_bernoulli), validate)
    sigma = {key: value for key, value in hyper.items() if key == "sigma"}
    select = Partial(_select_gaussian if family == "gaussian" else _select_exponential, **sigma)
    return Policy(Partial(_means.init), select, Partial(_means.update), validate)


def _validate(num_arms: int, horizon: int, *, family: Option, sigma: float = 1.0) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameters


def _select_gaussian(
    key: jax.Array, t: jax.Array, state: _means.MeanState, *, sigma: jax.Array
) -> tuple[Decision, _means.MeanState]:
    return _best(*_draw_gaussian(_draws.key_data(key), state, sigma)), state


def _select_exponential(key: jax.Array, t: jax.Array, state: _means.MeanState) -> tuple[Decision, _means.MeanState]:
    return _best(*_draw_exponential(_draws.key_data(key), state)), state


def _select_bernoulli(key: jax.Array, t: jax.Array, state: BernoulliState) -> tuple[Decision, BernoulliState]:
    arm, index, coin = _draw_bernoulli(_draws.key_data(key), state)
    return _best(arm, index), state._replace(coin=coin)


def _best(arm: jax.Array, index: jax.Array) -> Decision:
    """Draws have densities: what is within rounding of a tie has no weight, and no rule for ties is needed."""
    return Decision(arm, jnp.zeros((), bool), index, jnp.zeros_like(index))


def _init_bernoulli(num_arms: int, horizon: int, dtype: jnp.dtype) -> BernoulliState:
    zero = jnp.zeros(num_arms, jnp.int32)
    return BernoulliState(zero, zero, jnp.full((), 0.5, dtype))


def _update_bernoulli(state: BernoulliState, arm: jax.Array, reward: jax.Array) -> BernoulliState:
    count, successes = numerics.read(state.count, arm), numerics.read(state.successes, arm)
    return state._replace(
        count=numerics.write(state.count, arm, count + 1),
        successes=numerics.write(state.successes, arm, successes + (reward > state.coin)),
    )


@numerics.lanes_last
def _draw_gaussian(key: random.KeyData, state: _means.MeanState, sigma: jax.Array) -> tuple[jax.Array, jax.Array]:
    mean = _means.mean(state)
    z = _draws.normal(key, _draws.numbers(key, mean.shape[0]), mean.dtype)
    index = jnp.where(state.count > 0, mean + sigma * z / jnp.sqrt(jnp.maximum(state.count, 1)), jnp.inf)
    index = jax.lax.optimization_barrier(index)
    return numerics.argmax(index), index


@numerics.lanes_last
def _draw_exponential(key: random.KeyData, state: _means.MeanState) -> tuple[jax.Array, jax.Array]:
    mean = _means.mean(state)
    shape = jnp.maximum(state.count, 1).astype(mean.dtype)
    log_gamma = _draws.log_gamma(key, _draws.numbers(key, mean.shape[0]), shape)
    index = jnp.where(state.count > 0, mean * jnp.exp(-log_gamma), jnp.inf)
    index = jax.lax.optimization_barrier(index)
    return numerics.argmax(index), index


@numerics.lanes_last
def _draw_bernoulli(key: random.KeyData, state: BernoulliState) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Beta(a, b) = G_a / (G_a + G_b)."""
    num_arms, dtype = state.count.shape[0], state.coin.dtype
    place = _draws.numbers(key, 2 * num_arms)
    shape = 1 + jnp.concatenate([state.successes, state.count - state.successes]).astype(dtype)
    log_gamma = _draws.log_gamma(key, place, shape)
    odds = jnp.exp(log_gamma[num_arms:] - log_gamma[:num_arms]) * (shape[num_arms:] / shape[:num_arms])
    odds = jax.lax.optimization_barrier(odds)
    index = 1 / (1 + odds)
    coin = _draws.uniform(key, 4 * num_arms + jnp.zeros_like(key.low, jnp.int32), dtype)  # places up to 4K − 1 are used
    return numerics.argmax(-odds), index, coin
