"""A random instance for every run: Gaussian arms of sd 1 whose means are drawn from N(0, 1) as the run begins.

The simulator plays arms N(0, 1); a wrapped policy draws the means of its run with its first key and adds them to what
it is given. So all runs still share one law and one program, and a run can be found again by its number.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

import eljax
from eljax import numerics, random
from eljax.results import Result
from eljax.types import Decision, Option, Policy, describe

PLACE = np.uint32(2**31)  # of the means among the words of a key: far beyond those that a policy takes


class Playing(NamedTuple):
    """The state of the policy, and the means of the run."""

    inner: Any
    means: jax.Array  # [K]


def on_random_means(policy: Policy) -> Policy:
    """The policy, to be simulated on `standard_arms`, as if each run had means of its own."""
    validate = Partial(_validate, policy=Option(describe(policy)))
    parts = (Partial(f, policy=policy._replace(validate=None)) for f in (_init, _select, _update))
    return Policy(*parts, validate)


def standard_arms(num_arms: int) -> eljax.Bandit:
    """N(0, 1), `num_arms` times."""
    return eljax.Bandit([eljax.gaussian(0.0, 1.0)] * num_arms)


def regret(result: Result) -> np.ndarray:
    """[R]: final pseudo-regret of each run against the means it had."""
    num_arms, dtype = result.pulls.shape[1], jnp.dtype(result.provenance["dtype"])
    with jax.enable_x64(dtype == np.float64):

        def means(run: jax.Array) -> jax.Array:
            run_key = jax.random.fold_in(random.seed_key(result.provenance["seed"]), run)
            policy_key = jax.random.fold_in(run_key, random.POLICY_STREAM)
            return _draw(jax.random.fold_in(policy_key, 1), num_arms, dtype)

        drawn = np.asarray(jax.jit(jax.vmap(means))(jnp.arange(result.runs, dtype=jnp.uint32)), np.float64)
    return ((drawn.max(axis=1, keepdims=True) - drawn) * result.pulls).sum(axis=1)


def _draw(key: jax.Array, num_arms: int, dtype: jnp.dtype) -> jax.Array:
    return jax.random.normal(jax.random.fold_in(key, PLACE), (num_arms,), dtype)


def _validate(num_arms: int, horizon: int, *, policy: Option) -> None:
    pass  # the slot names the policy


def _init(num_arms: int, horizon: int, dtype: jnp.dtype, *, policy: Policy) -> Playing:
    return Playing(policy.init(num_arms, horizon, dtype), jnp.zeros(num_arms, dtype))


def _select(key: jax.Array, t: jax.Array, state: Playing, *, policy: Policy) -> tuple[Decision, Playing]:
    num_arms, dtype = state.means.shape[0], state.means.dtype
    # t is the same for all runs of a batch, so the draw is made once, not every round.
    means = jax.lax.cond(t == 1, lambda: _draw(key, num_arms, dtype), lambda: state.means)
    decision, inner = policy.select(key, t, state.inner)
    return decision, Playing(inner, means)


def _update(state: Playing, arm: jax.Array, reward: jax.Array, *, policy: Policy) -> Playing:
    own = reward + numerics.read(state.means, arm)
    return state._replace(inner=policy.update(state.inner, arm, own))
