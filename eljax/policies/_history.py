"""What policies that need past rewards share: the history of a run, sums over it, and random weights.

A history is an array [K, H]: the rewards of each arm in the order of its pulls, 0 where there are none yet. The cost of
a sum follows the number of rewards it is over, not H, and in a batch a single long sum does not make all lanes pay: the
rewards are taken in blocks, of all lanes at once as long as that is worth it, then of each lane that is left by itself.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from eljax import numerics, random

HALF = 32  # a block of rewards has two halves, because a threefry call gives two random words
BLOCK = 2 * HALF
STRETCH = 4 * BLOCK  # what is read at once of a single arm
APART = 12 * BLOCK  # what taking a sum by itself costs beyond its rewards, in rewards
LAST_WORD = 2**32 - 1  # the number of the draw that belongs to no reward


def init(num_arms: int, most: int, dtype: jnp.dtype) -> jax.Array:
    """[K, H], no rewards yet, with room for `most` per arm; later ones are dropped."""
    unit = BLOCK if most <= STRETCH else STRETCH
    return jnp.zeros((num_arms, -(-max(most, 1) // unit) * unit), dtype)


def push(history: jax.Array, arm: jax.Array, pull: jax.Array, reward: jax.Array) -> jax.Array:
    """Write the reward of pull number `pull` (from 0) of `arm`."""
    return history.at[arm, pull].set(reward, mode="drop")


@numerics.lanes_last
def arm_keys(key_data: jax.Array, numbers: jax.Array) -> random.KeyData:
    """The key data of fold_in(key, number) for each of `numbers`, from the two words of a key."""
    return random.fold_in(random.KeyData(key_data[0], key_data[1]), numbers)


def exponential(word: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """A standard exponential number from a random uint32: at most 32 log 2, 0 with probability 2^-31 or rounding."""
    # A signed conversion: an unsigned one has no vector instruction on common CPUs.
    u = (word >> 1).astype(jnp.int32).astype(dtype) * dtype.type(2.0**-31) + dtype.type(2.0**-32)
    return -jnp.log(u)


@numerics.lanes_last
def spare_weights(keys: random.KeyData, like: jax.Array) -> jax.Array:
    """[K] exponential numbers, of the dtype of `like`, that `weights` never gives."""
    return exponential(random.fold_in(keys, jnp.full_like(keys.high, LAST_WORD)).high, like.dtype)


def weights(keys: random.KeyData, pair: jax.Array, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
    """Exponential numbers for the two rewards of a pair."""
    high, low = random.fold_in(keys, pair)
    return exponential(high, dtype), exponential(low, dtype)


def sums(term: Callable, history: jax.Array, count: jax.Array, parameters: Any, skip: jax.Array | None = None) -> Any:
    """Sums over the first `count` [K] rewards of each arm.

    Args:
      term: a module-level function (pair, first, second, parameters) -> (terms of first, terms of second). It is given
        rewards two by two: `first` and `second` have any shape, `pair` numbers the pairs of an arm, and terms are trees
        of arrays of that shape.
      history: [K, H].
      count: [K] int32; 0 costs nothing.
      parameters: a tree of [K], given to `term` with axes that broadcast against the rewards.
      skip: an arm whose sums are not wanted; they come out as 0, and cost nothing in a batch either.

    Returns a tree of [K], each sum in one fixed order of its terms whatever the batch.
    """
    alone = lambda x: jnp.asarray(x)[None]  # noqa: E731
    out = _in_lanes(term)(*jax.tree.map(alone, (history, count, parameters, skip)))
    return jax.tree.map(lambda x: x[0], out)


@functools.cache
def _in_lanes(term: Callable) -> Callable:
    """`_sums` with a batching rule that makes one axis of lanes of all there are."""
    function = jax.custom_batching.custom_vmap(functools.partial(_sums, term))

    @function.def_vmap
    def rule(lanes: int, batched: list, *arguments: Any) -> tuple[Any, Any]:
        def merge(x: jax.Array, b: bool) -> jax.Array:
            x = x if b else jnp.broadcast_to(x, (lanes, *x.shape))
            return x.reshape(-1, *x.shape[2:])

        out = function(*jax.tree.map(merge, arguments, tuple(batched)))
        out = jax.tree.map(lambda x: x.reshape(lanes, -1, *x.shape[1:]), out)
        return out, jax.tree.map(lambda _: True, out)

    return function


def _sums(term: Callable, history: jax.Array, count: jax.Array, parameters: Any, skip: jax.Array | None) -> Any:
    """`sums` with L lanes as first axis of everything."""
    lanes, _, length = history.shape
    if skip is not None:
        count, parameters = jax.tree.map(lambda x: _without(x, skip), (count, parameters))
    jobs = count.shape[1]  # sums per lane
    # Barriers: the compiler would compute all this again in each of its uses, inside the loops too.
    count, parameters = jax.lax.optimization_barrier((count, jax.tree.map(lambda x: x[..., None], parameters)))
    total = _zeros(term, (lanes, jobs, HALF), history.dtype, parameters)

    def block_of_all(state: tuple) -> tuple:
        start, total = state
        block = jax.lax.dynamic_slice_in_dim(history, start, BLOCK, 2)
        block = jax.lax.optimization_barrier(block)  # read inside the loop over its terms it costs four times as much
        block = block if skip is None else _without(block, skip)
        pairs = _pairs(term, block, start, start, count[..., None], parameters)
        return start + BLOCK, jax.tree.map(jnp.add, total, pairs)

    start, end = jnp.zeros((), jnp.int32), _apart_from(count, length)
    if lanes * jobs > 1:
        start, total = jax.lax.while_loop(lambda state: state[0] < end, block_of_all, (start, total))
    width = min(STRETCH, length)

    def sum_of_one(state: tuple) -> tuple:
        open_, total = state
        job = jnp.argmax(open_).astype(jnp.int32)
        lane, j = job // jobs, job % jobs
        arm = j if skip is None else j + (j >= skip[lane])
        n, own = count[lane, j], jax.tree.map(lambda x: x[lane, j, None], parameters)

        def stretch_of_one(state: tuple) -> tuple:
            at, part = state
            stretch = jax.lax.dynamic_slice(history, (lane, arm, at), (1, 1, width))
            stretch = jax.lax.optimization_barrier(stretch).reshape(-1, BLOCK)
            starts = at + BLOCK * jnp.arange(width // BLOCK, dtype=jnp.int32)[:, None]
            pairs = jax.lax.optimization_barrier(_pairs(term, stretch, starts, start, n, own))
            for i in range(width // BLOCK):
                part = jax.tree.map(lambda x, y, i=i: x + y[i], part, pairs)
            return at + width, part

        part = jax.tree.map(lambda x: x[lane, j], total)
        _, part = jax.lax.while_loop(lambda s: s[0] < n, stretch_of_one, (start // width * width, part))
        return open_.at[job].set(False), jax.tree.map(lambda x, y: x.at[lane, j].set(y), total, part)

    if jobs > 0:
        open_ = (count > start).ravel()
        _, total = jax.lax.while_loop(lambda state: state[0].any(), sum_of_one, (open_, total))
    total = jax.lax.optimization_barrier(jax.tree.map(_fold, total))
    return total if skip is None else jax.tree.map(lambda x: _with_zero(x, skip), total)


def _apart_from(count: jax.Array, length: int) -> jax.Array:
    """The number of rewards after which sums that are not at their end are best taken one by one.

    Up to there a sum that has ended is computed as if it had not; each of the others has the cost of being taken apart.
    """
    if jax.default_backend() != "cpu":  # one by one, they would wait for launches of kernels with little to do
        return jnp.max(count)
    most = 1 << (length // BLOCK).bit_length()
    blocks = sorted({0, *(i << j for i in (1, 3) for j in range(most.bit_length()) if i << j <= most)})
    ends = BLOCK * jnp.asarray(blocks, jnp.int32)
    beyond = ends[:, None] - count.reshape(1, -1)
    cost = jnp.where(beyond >= 0, beyond, APART).astype(jnp.float32)
    return ends[jnp.argmin(jnp.sum(cost, 1))]


def _zeros(term: Callable, shape: tuple, dtype: jnp.dtype, parameters: Any) -> Any:
    rewards = jnp.zeros(shape, dtype)
    terms, _ = jax.eval_shape(term, jnp.zeros((1, 1, HALF), jnp.int32), rewards, rewards, parameters)
    return jax.tree.map(lambda x: jnp.zeros(shape, x.dtype), terms)


def _pairs(term, block, start, least, count, parameters) -> Any:
    """[..., HALF] of blocks [..., BLOCK]: the terms of each pair, of rewards numbered from `least` up to `count` only."""
    number = start + jnp.arange(HALF, dtype=jnp.int32).reshape(*[1] * (block.ndim - 1), HALF)
    halves = term(number - start // 2, block[..., :HALF], block[..., HALF:], parameters)
    first, second = ((i >= least) & (i < count) for i in (number, number + HALF))
    return jax.tree.map(lambda x, y: jnp.where(first, x, 0) + jnp.where(second, y, 0), *halves)


def _fold(total: jax.Array) -> jax.Array:
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return total[..., 0]


def _without(values: jax.Array, skip: jax.Array) -> jax.Array:
    """[L, K − 1, ...] of [L, K, ...]: the arms but for one."""
    later = _is_later(values.shape[1] - 1, values.ndim, skip)
    return jnp.where(later, values[:, 1:], values[:, :-1])


def _with_zero(values: jax.Array, skip: jax.Array) -> jax.Array:
    """[L, K] of [L, K − 1], 0 at the arm left out."""
    none = jnp.zeros_like(values, shape=(values.shape[0], 1))
    left, right = jnp.concatenate([values, none], 1), jnp.concatenate([none, values], 1)
    number = jnp.arange(left.shape[1], dtype=jnp.int32)[None]
    return jnp.where(number < skip[:, None], left, jnp.where(number == skip[:, None], 0, right))


def _is_later(jobs: int, axes: int, skip: jax.Array) -> jax.Array:
    number = jnp.arange(jobs, dtype=jnp.int32).reshape(1, jobs, *[1] * (axes - 2))
    return number >= skip.reshape(-1, *[1] * (axes - 1))
