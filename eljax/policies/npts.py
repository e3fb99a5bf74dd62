"""NPTS: non-parametric Thompson sampling for rewards with a known upper bound.

Paper: Riou and Honda, "Bandit algorithms based on Thompson sampling for bounded reward distributions" (2020). Each arm
once, then with the bound B as first entry of each arm's history X_0 = B, X_1, ..., X_n:

    pull argmax_i Σ_s w_s X_s,   w ~ Dirichlet(1, ..., 1) on the n + 1 entries of arm i

Assumes rewards ≤ B, with B known: rewards on another scale need another B. Each round weighs all rewards anew, so a run
costs O(T²).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import checks, numerics, random
from eljax.policies import _history
from eljax.types import Decision, Policy


class NPTSState(NamedTuple):
    """All rewards."""

    count: jax.Array  # [K] int32: pulls
    history: jax.Array  # [K, H]


def npts(bound: float) -> Policy:
    """NPTS with `bound` B, the largest possible reward, in the unit of the rewards.

    Raises:
      ValueError: bound not a finite number.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.beta(2.0, 3.0), eljax.beta(3.0, 2.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.npts(1.0), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    bound = checks.hyperparameter("bound", bound)
    return Policy(Partial(_init), Partial(_select, bound=bound), Partial(_update), Partial(_validate, bound=bound))


def _validate(num_arms: int, horizon: int, *, bound: float) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameter


def _init(num_arms: int, horizon: int, dtype: jnp.dtype) -> NPTSState:
    return NPTSState(jnp.zeros(num_arms, jnp.int32), _history.init(num_arms, horizon, dtype))


def _update(state: NPTSState, arm: jax.Array, reward: jax.Array) -> NPTSState:
    pull = numerics.read(state.count, arm)
    return NPTSState(numerics.write(state.count, arm, pull + 1), _history.push(state.history, arm, pull, reward))


def _select(key: jax.Array, t: jax.Array, state: NPTSState, *, bound: jax.Array) -> tuple[Decision, NPTSState]:
    num_arms, dtype = state.count.shape[0], state.history.dtype
    keys = _history.arm_keys(jax.random.key_data(key), jnp.arange(num_arms, dtype=jnp.uint32))
    bounds = jnp.full(num_arms, bound, dtype)
    weight, moment = _history.sums(_terms, state.history, state.count, (keys, bounds))
    arm, index = _choose(keys, state.count, weight, moment, bounds)
    return Decision(arm, jnp.zeros((), bool), index, jnp.zeros_like(index)), state


def _terms(pair: jax.Array, first: jax.Array, second: jax.Array, parameters: tuple) -> tuple:
    """e and e (X − B)."""
    keys, bound = parameters
    e = jax.lax.optimization_barrier(_history.weights(keys, pair, first.dtype))  # for both terms
    return tuple((e, e * (x - bound)) for e, x in zip(e, (first, second), strict=True))


@numerics.lanes_last
def _choose(
    keys: random.KeyData, count: jax.Array, weight: jax.Array, moment: jax.Array, bound: jax.Array
) -> tuple[jax.Array, jax.Array]:
    index = bound + moment / (weight + _history.spare_weights(keys, weight))
    index = jnp.where(count > 0, index, jnp.inf)
    return numerics.argmax(index), index
