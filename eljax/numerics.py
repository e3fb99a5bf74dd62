"""Small numerical pieces shared by policies and the engine; none has an absolute tolerance."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Two indices are tied when they differ by less than TIE_ULPS · eps · (larger |reward| of the two arms). Rounding
# depends on the order of the rewards; without the rule it, not the data, would choose between equal arms.
TIE_ULPS = 32

SELECTED = 16  # at most so many entries are read and written by selection


def lanes_last(function: Callable) -> Callable:
    """The function with a batching rule that puts the lanes behind all other axes, and calls it as it is.

    What is written for any number of trailing axes then runs on vectors over the lanes. vmap itself puts the lanes
    first, and loops over a short last axis do not compile to vector instructions: 8 times slower.
    """

    def promoting(*arguments: Any) -> Any:  # [J, L] with [L]: meant, where a strict setting would refuse it
        with jax.numpy_rank_promotion("allow"):
            return function(*arguments)

    batching = jax.custom_batching.custom_vmap(promoting)

    @batching.def_vmap
    def rule(lanes: int, batched: list, *arguments: Any) -> tuple[Any, Any]:
        spread = lambda x, b: jnp.moveaxis(x if b else jnp.broadcast_to(x, (lanes, *jnp.shape(x))), 0, -1)  # noqa: E731
        out = promoting(*jax.tree.map(spread, arguments, tuple(batched)))
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), out), jax.tree.map(lambda _: True, out)

    return functools.wraps(function)(lambda *arguments: batching(*arguments))


def in_blocks(function: Callable, lanes: int, arrays: Any) -> Any:
    """function(*arrays) of arrays [..., L], at most so many lanes at a time, in blocks as equal as can be.

    The function returns arrays [..., lanes]. The last block is padded with its last lane.
    """
    count = jax.tree.leaves(arrays)[0].shape[-1]
    number = -(-count // lanes)
    if number == 1:
        return function(*arrays)
    lanes = -(-count // number)

    def blocks(array: jax.Array) -> jax.Array:
        padded = jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, number * lanes - count)], mode="edge")
        return jnp.moveaxis(padded.reshape(*array.shape[:-1], number, lanes), -2, 0)

    out = jax.lax.map(lambda block: function(*block), jax.tree.map(blocks, arrays))
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -2).reshape(*a.shape[1:-1], -1)[..., :count], out)


def read(values: jax.Array, arm: jax.Array) -> jax.Array:
    """`values[arm]` of [K, ...], by selection while K is small: a batched gather is a loop over scalars.

    `arm` is [] or has trailing axes of `values`, each position with its own arm.
    """
    if values.shape[0] > SELECTED:
        if jnp.ndim(arm) == 0:
            return jnp.asarray(values).at[arm].get(mode="promise_in_bounds")
        return jnp.take_along_axis(values, jnp.broadcast_to(arm, (1, *values.shape[1:])), 0)[0]
    chosen = jnp.asarray(values[0])
    for k in range(1, values.shape[0]):
        chosen = jnp.where(arm == k, values[k], chosen)
    return chosen


def write(values: jax.Array, arm: jax.Array, new: jax.Array) -> jax.Array:
    """[K, ...] `values` with `new` at `arm`, of the shapes of `read`.

    A sum of two selections, exact because one term is 0: a plain where(chosen, new, values), stored where `values`
    was, compiles on CPUs to one conditional store after another, seven times slower.
    """
    if values.shape[0] > SELECTED:
        if jnp.ndim(arm) == 0:
            return values.at[arm].set(new, mode="promise_in_bounds")
        return jnp.put_along_axis(values, jnp.broadcast_to(arm, (1, *values.shape[1:])), new[None], 0, inplace=False)
    zero = jnp.zeros_like(new)
    if values.ndim == 1:  # in a batch then K vectors, not an array with a short last axis
        return jnp.stack(
            [jnp.where(arm == k, new, zero) + jnp.where(arm == k, zero, values[k]) for k in range(values.shape[0])]
        )
    chosen = _numbers(values.shape[0], values.ndim - 1) == arm
    return jnp.where(chosen, new, zero) + jnp.where(chosen, zero, values)


def place(new: jax.Array, arm: jax.Array, num_arms: int) -> jax.Array:
    """[K, ...]: `new` at `arm`, 0 elsewhere."""
    chosen = _numbers(num_arms, new.ndim) == arm
    return jnp.where(chosen, new, jnp.zeros_like(new))


def tie_tolerance(magnitude: jax.Array) -> jax.Array:
    """The difference below which indices of rewards up to this |reward| are tied."""
    return TIE_ULPS * jnp.finfo(magnitude.dtype).eps * magnitude


def argmax_tied(index: jax.Array, magnitude: jax.Array, error: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(arm, sure): the lowest arm whose index ties with the largest, and whether errors could not change that.

    `magnitude` [K, ...] is each arm's largest |reward|, `error` [K, ...] a bound on each index's absolute error. An
    infinite index (an arm not yet pulled) ties only with another infinite one. With a NaN among the indices nothing is
    sure.
    """
    best = argmax(index)
    largest = read(index, best)
    tolerance = tie_tolerance(jnp.maximum(magnitude, read(magnitude, best)))
    behind = jnp.where(index == largest, 0, largest - index)  # inf − inf is a tie
    tied = (behind < tolerance) | (behind == 0)
    doubt = jnp.where(_numbers(index.shape[0], index.ndim - 1) == best, 0, error + read(error, best))
    sure = (behind + doubt < tolerance) | (behind - doubt >= tolerance) | (doubt == 0)
    return argmax(tied), all_of(sure & ~jnp.isnan(index))


def argmax(values: jax.Array) -> jax.Array:
    """int32: the first position along the first axis of the largest value (bool or number; NaN is never larger)."""
    if values.shape[0] > SELECTED:
        return jnp.argmax(values, 0).astype(jnp.int32)
    best, largest = jnp.zeros(values.shape[1:], jnp.int32), values[0]
    for k in range(1, values.shape[0]):
        larger = values[k] > largest
        best, largest = jnp.where(larger, k, best), jnp.where(larger, values[k], largest)
    return best


def all_of(flags: jax.Array) -> jax.Array:
    """bool: whether all `flags` along the first axis hold."""
    if flags.shape[0] > SELECTED:
        return flags.all(0)
    return functools.reduce(jnp.logical_and, [flags[k] for k in range(flags.shape[0])])


def _numbers(num_arms: int, axes: int) -> jax.Array:
    """[K, 1, ...]: 0, 1, ..., K − 1 before `axes` trailing axes."""
    return jnp.arange(num_arms, dtype=jnp.int32).reshape(-1, *[1] * axes)


class RunningSum(NamedTuple):
    """A compensated sum: the exact total is high + low, with low at rounding level."""

    high: jax.Array
    low: jax.Array


def add(total: RunningSum, x: jax.Array) -> RunningSum:
    """Add x without loss: 1e7 float32 terms stay exact to 2e-9 where a plain or Welford mean is 3.6e-5 off."""
    high = total.high + x
    part = high - total.high
    return RunningSum(high, total.low + ((total.high - (high - part)) + (x - part)))


def mean_about(centre: jax.Array, total: RunningSum, count: jax.Array) -> jax.Array:
    """The mean of `count` numbers from the sum of their distances to `centre`; the centre if there are none."""
    return centre + (total.high + total.low) / jnp.maximum(count, 1)


def index_tolerance(dtype: jnp.dtype) -> float:
    """Largest relative error of (index − mean) that a decision by index may rest on."""
    return 1e-6 if jnp.dtype(dtype) == jnp.float64 else 1e-4


def minus_log_minus(y: jax.Array, rest: jax.Array) -> jax.Array:
    """−log(1 − y) − y ≥ 0 with rest = 1 − y, accurate relative to itself.

    A series up to |y| = 1/3; beyond, rounding of log(1 − y) and y is worth at most 12 ulp of their difference.
    """
    h = y / (1 + rest)  # 2h − y = y h
    return jnp.where(jnp.abs(y) < 1 / 3, y * h + _artanh_tail(h), -jnp.log(rest) - y)


def minus_log_product(u: Sequence[jax.Array], rest: Sequence[jax.Array]) -> jax.Array:
    """Σ (−log(1 − u) − u) ≥ 0 with rest = 1 − u > 0, over lists of up to a few dozen arrays, in one logarithm.

    With P = Π (1 − u), s = Σ u and e = P − 1 + s, a sum of products of two and more u that never sees the 1, this is
    −log(1 − y) − y − e at y = s − e. Where y is small Σ u² bounds s² and e to the number of terms: little cancels.
    Elsewhere log P is taken from the mantissas and exponents of the factors, so that P neither over- nor underflows.
    """
    s, e = u[0], jnp.zeros_like(u[0])
    product, exponent = _mantissa(rest[0])
    for y, factor in zip(u[1:], rest[1:], strict=True):
        e, s = e + y * (s - e), s + y
        mantissa, more = _mantissa(factor)
        product, exponent = product * mantissa, exponent + more
    mantissa, more = _mantissa(product)
    y, exponent = s - e, (exponent + more).astype(s.dtype)
    near = jnp.abs(y) < 1 / 3
    h = jnp.where(near, y, 1 - mantissa) / (1 + jnp.where(near, 1 - y, mantissa))
    return _artanh_tail(h) + jnp.where(near, y * h - e, 2 * h - (exponent * math.log(2) + s))


def _artanh_tail(h: jax.Array) -> jax.Array:
    """2 (artanh h − h) for |h| ≤ 1/5, to 2e-17 (float32: 1e-8) of 2 artanh h; −log(1 − y) is that at h = y/(2 − y)."""
    square = h * h
    series = 0.0
    for k in (21, 19, 17, 15, 13, 11, 9, 7, 5, 3) if h.dtype == jnp.float64 else (9, 7, 5, 3):
        series = series * square + 1 / k
    return 2 * h * square * series


def _mantissa(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """x = mantissa · 2^exponent of positive normal numbers, the mantissa in [2/3, 4/3), the exponent a whole number."""
    integer, width = (jnp.int64, 52) if x.dtype == jnp.float64 else (jnp.int32, 23)
    bits = jax.lax.bitcast_convert_type(x, integer)
    exponent = (bits - np.asarray(2 / 3, x.dtype).view(integer)) >> width
    return jax.lax.bitcast_convert_type(bits - (exponent << width), x.dtype), exponent
