"""The exact EL index from a run's whole history: O(n) per solve, O(K·T) memory per run.

The reference that the streaming index must agree with, and what settles the decisions it cannot certify. A history is
an array [K, T]: the rewards of each arm in the order of its pulls.
"""

import jax
import jax.numpy as jnp

from eljax.empirical_likelihood import el_index_with_error


def init(num_arms: int, horizon: int, dtype: jnp.dtype) -> jax.Array:
    """[K, T], no rewards yet."""
    return jnp.zeros((num_arms, horizon), dtype)


def push(history: jax.Array, arm: jax.Array, pull: jax.Array, reward: jax.Array) -> jax.Array:
    """Write the reward of pull number `pull` (from 0) of `arm`."""
    return history.at[arm, pull].set(reward, mode="drop")


def arm_index(rewards: jax.Array, count: jax.Array, mean: jax.Array, radius: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(index, error) of one arm from its row [T] of the history: upper EL index and a bound on its absolute error."""
    seen = jnp.arange(rewards.shape[0], dtype=jnp.int32) < count
    index, relative = el_index_with_error(rewards, radius, seen)
    return index, jnp.where(relative > 0, relative * (index - mean), 0)


def all_indices(
    history: jax.Array, count: jax.Array, mean: jax.Array, radius: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """([K], [K]): index and error of every arm."""
    return jax.vmap(arm_index, (0, 0, 0, None))(history, count, mean, radius)


@jax.custom_batching.custom_vmap
def settle(
    open_: jax.Array,
    history: jax.Array,
    count: jax.Array,
    mean: jax.Array,
    radius: jax.Array,
    index: jax.Array,
    error: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Index and error [K] as given, or solved from the history where `open_` [] bool says the decision is open."""
    solve = lambda: all_indices(history, count, mean, radius)  # noqa: E731
    return jax.lax.cond(open_, solve, lambda: (index, error))


@settle.def_vmap
def _settle_batch(lanes: int, batched: list, *args: jax.Array) -> tuple[tuple, tuple]:
    """A batched cond would solve every lane in every round; few lanes are open, so solve those one after another."""
    args = [x if b else jnp.broadcast_to(x, (lanes, *jnp.shape(x))) for x, b in zip(args, batched, strict=True)]
    open_, history, count, mean, radius, index, error = args

    def body(state: tuple) -> tuple:
        pending, index, error = state
        lane = jnp.argmax(pending)
        solved = all_indices(history[lane], count[lane], mean[lane], radius[lane])
        return pending.at[lane].set(False), index.at[lane].set(solved[0]), error.at[lane].set(solved[1])

    _, index, error = jax.lax.while_loop(lambda state: state[0].any(), body, (open_, index, error))
    return (index, error), (True, True)
