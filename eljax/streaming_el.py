"""The EL index from a fixed-size summary of the rewards: O(1) per reward in time and memory, with an error bound.

With a pole ν > max x, a centre c, t = 1/(ν − c) and y_i = t (x_i − c), the index of `empirical_likelihood` reads

    S = mean y/(1 − y)     L = mean log(1 − y)     F(ν) = log(1 + S) + L = C/n     U = c + (1 − exp(L − C/n)) / t

and S, L are sums over rewards, kept in two parts:

  near field   the J largest and the J smallest distinct values with their multiplicities: summed term by term, so that
               the pole sees the extremes exactly (few-valued data, such as Bernoulli, are exact altogether)
  bulk         everything between, in |x − c| ≤ s: power sums W_k = Σ u^k, u = (x − c)/s, k = 1..P, expanded in z = s t:
               Σ y/(1 − y) = Σ_k W_k z^k     Σ log(1 − y) = −Σ_k W_k z^k / k

Truncating at even P costs Σ y/(1 − y) at most W_P z^(P+1)/(1 − z), Σ log(1 − y) at most that over P + 1. U is a minimum
over ν, so an error in the root, Newton's or the truncation's, enters it at second order only; `arm_index` adds up what
is left. When a reward falls outside [c − s, c + s], c and s grow and the sums are shifted by binomials, whose
coefficients' absolute values sum to at most 1: stable.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eljax import numerics

NEAR = 4  # J: extremes kept on each side
POWERS = 16  # P: power sums of the bulk, even
SLACK = 1.2  # the bulk's interval is made this much wider than needed, so that it seldom has to grow
EVALUATIONS = 16  # at most; the last pole is a start from which two are the rule
LARGEST_LOG = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 300.0}  # the square of e^this is a normal number


class Stream(NamedTuple):
    """What is kept of one arm's rewards."""

    count: jax.Array  # [] int32: n
    magnitude: jax.Array  # []: largest |reward|
    low: jax.Array  # []: smallest reward
    first: jax.Array  # []: first reward, the fixed centre of the sum below
    total: numerics.RunningSum  # of []: Σ (reward − first), compensated
    top: jax.Array  # [J]: largest distinct values, descending; −inf where there are fewer
    top_count: jax.Array  # [J]: their multiplicities
    bottom: jax.Array  # [J]: smallest distinct values not in `top`, ascending; +inf where there are fewer
    bottom_count: jax.Array  # [J]
    centre: jax.Array  # []: c of the bulk
    half: jax.Array  # []: s of the bulk
    bulk_count: jax.Array  # []: rewards in the bulk
    power_sums: numerics.RunningSum  # of [P]: W_1..W_P, compensated
    gap: jax.Array  # []: last pole minus largest reward, 0 if it is of no use as a start


def init(dtype: jnp.dtype) -> Stream:
    """An arm without rewards."""
    zero, zeros = jnp.zeros((), dtype), jnp.zeros(NEAR, dtype)
    inf = jnp.full(NEAR, jnp.inf, dtype)
    return Stream(
        jnp.zeros((), jnp.int32),
        zero,
        jnp.full((), jnp.inf, dtype),
        zero,
        numerics.RunningSum(zero, zero),
        -inf,
        zeros,
        inf,
        zeros,
        zero,
        zero,
        zero,
        numerics.RunningSum(jnp.zeros(POWERS, dtype), jnp.zeros(POWERS, dtype)),
        zero,
    )


def mean(stream: Stream) -> jax.Array:
    """Sample mean, right to rounding and independent of the order of the rewards."""
    return stream.first + (stream.total.high + stream.total.low) / jnp.maximum(stream.count, 1)


def push(stream: Stream, x: jax.Array) -> Stream:
    """One more reward. What it displaces from the near field moves on: top → bottom → bulk."""
    one = jnp.ones_like(x)
    first = jnp.where(stream.count == 0, x, stream.first)
    top, top_count, value, times = _insert(stream.top, stream.top_count, x, one, descending=True)
    bottom, bottom_count, value, times = _insert(stream.bottom, stream.bottom_count, value, times, descending=False)

    # The bulk lies between the two lists, now and later, so an interval around them contains the earlier ones.
    moves = times > 0
    grow = moves & ((jnp.abs(value - stream.centre) > stream.half) | (stream.bulk_count == 0))
    centre = jnp.where(grow, bottom[-1] + (top[-1] - bottom[-1]) / 2, stream.centre)
    half = jnp.where(grow, SLACK * (top[-1] - bottom[-1]) / 2, stream.half)
    unit = jnp.where(half > 0, half, 1)
    shift = jnp.where(grow & (stream.bulk_count > 0), (stream.centre - centre) / unit, 0)
    sums = _grown(grow, stream.power_sums, stream.bulk_count, stream.half / unit, shift)
    u = jnp.where(moves, (value - centre) / unit, 0)
    return Stream(
        stream.count + 1,
        jnp.maximum(stream.magnitude, jnp.abs(x)),
        jnp.minimum(stream.low, x),
        first,
        numerics.add(stream.total, x - first),
        top,
        top_count,
        bottom,
        bottom_count,
        centre,
        half,
        stream.bulk_count + times,
        numerics.add(sums, times * _powers(u)),
        jnp.where((x > stream.top[0]) | (x < stream.low), 0, stream.gap),  # a record may move the pole far
    )


def arm_index(stream: Stream, radius: jax.Array) -> tuple[jax.Array, jax.Array, Stream]:
    """(index, error, stream): upper EL index, a bound on its absolute error, and the stream with the new pole.

    The index is +inf for an arm without rewards, and exact for constant rewards and for radius 0 (the mean); the error
    is +inf where the expansion does not converge. Rounding of the result itself (eps · magnitude) is not included.
    """
    dtype = stream.top.dtype
    eps, largest = jnp.finfo(dtype).eps, LARGEST_LOG[np.dtype(dtype)]
    n = jnp.maximum(stream.count, 1).astype(dtype)
    average, high = mean(stream), stream.top[0]
    constant = ~(high > stream.low)
    has_bulk = stream.bulk_count > 0
    c = jnp.where(has_bulk, stream.centre, average)
    span = jnp.where(constant, 1, high - c)
    near, sums = _near_field(stream, c), stream.power_sums.high + stream.power_sums.low
    level = jnp.clip(radius / n, eps**3, largest)  # C/n
    goal, _ = _arccosh_exp(level)

    def evaluate(gap: jax.Array) -> _Evaluation:
        at = _evaluate(near, sums, stream.half, n, average - c, span, gap)
        value, slope = _arccosh_exp(jnp.maximum(at.F, eps**3))
        # In v = log(1 + span/gap) the function arccosh(e^F) is nearly linear from ν = ∞ (v = 0) to the maximum (v = ∞).
        v_before = jnp.log1p(span / gap)
        step = (goal - value) / (slope * at.slope * gap / span)
        v = v_before + jnp.where(jnp.isfinite(step), step, 0)
        v = jnp.clip(v, v_before / 8, jnp.minimum(8 * v_before, largest))
        rise = -jnp.expm1(at.log_mean - level) / at.t
        next_gap = span / jnp.expm1(v)
        newton = 2 * jnp.abs(jnp.expm1(at.F - level) * (next_gap - gap))
        # A long step says little of the distance to the root; a pole pinned at the maximum is within its gap of it.
        newton = jnp.where(jnp.abs(step) <= v_before / 4, newton, jnp.where(v == largest, gap, jnp.inf))
        return _Evaluation(gap, next_gap, at, rise, newton)

    def unfinished(state: tuple) -> jax.Array:
        i, last = state
        above_mean = last.rise - (average - c)
        return (i < EVALUATIONS) & ~constant & ~(last.newton <= 1e-3 * jnp.sqrt(eps) * above_mean)

    squares = (stream.half / span) ** 2 * sums[1] + sum(slot.times * (slot.x / span) ** 2 for slot in near)
    start = jnp.minimum(goal / jnp.sqrt(jnp.where(constant, 1, squares / n)), largest)
    gap = jnp.where(stream.gap > 0, stream.gap, span / jnp.expm1(start))
    _, end = jax.lax.while_loop(unfinished, lambda s: (s[0] + 1, evaluate(s[1].next_gap)), (1, evaluate(gap)))

    error = _error(sums, end, n, has_bulk, average - c, level)
    zero = radius == 0
    index = jnp.where(constant, high, jnp.where(zero, average, jnp.clip(c + end.rise, average, high)))
    index = jnp.where(stream.count > 0, index, jnp.inf)
    usable = ~constant & jnp.isfinite(end.next_gap)
    return index, jnp.where(constant | zero, 0, error), stream._replace(gap=jnp.where(usable, end.next_gap, 0))


class _Near(NamedTuple):
    """One value of the near field, as scalars: in a batch, vectors over the lanes, which is what vectorises."""

    x: jax.Array  # [] relative to c
    below: jax.Array  # [] largest reward minus value
    times: jax.Array  # [] multiplicity, 0 for an empty slot


class _Sums(NamedTuple):
    t: jax.Array
    z: jax.Array
    S: jax.Array
    log_mean: jax.Array  # L
    squares: jax.Array  # B = mean (−log(1 − y) − y), so that L = −mean y − B
    F: jax.Array
    slope: jax.Array  # t dF/dt


class _Evaluation(NamedTuple):
    gap: jax.Array  # ν − max, here
    next_gap: jax.Array  # and after a Newton step
    at: _Sums
    rise: jax.Array  # U − c in the min form, from above
    newton: jax.Array  # |∫ (1 − e^(F − C/n)) dν| to the root, twice the Newton step taken for the distance


def _near_field(stream: Stream, c: jax.Array) -> list[_Near]:
    slots = []
    for values, counts in ((stream.top, stream.top_count), (stream.bottom, stream.bottom_count)):
        for value, times in zip(values, counts, strict=True):
            value = jnp.where(times > 0, value, c)
            slots.append(_Near(value - c, jnp.where(times > 0, stream.top[0], c) - value, times))
    return slots


def _evaluate(
    near: list[_Near],
    sums: jax.Array,
    half: jax.Array,
    n: jax.Array,
    offset: jax.Array,
    span: jax.Array,
    gap: jax.Array,
) -> _Sums:
    """All sums at the pole max + gap, from terms of one sign: with Y = mean y = t·offset,

    S = Y + A, A = mean y²/(1 − y);   L = −Y − B;   F = A − B − (S − log(1 + S));   t dF/dt = Var(y/(1 − y)) / (1 + S)
    """
    t = 1 / (span + gap)
    z = half * t
    a = b = v = jnp.zeros_like(t)
    for k in range(POWERS, 1, -1):
        w = sums[k - 1]
        a, b, v = a * z + w, b * z + w / k, v * z + w * (k - 1)
    a, b, v = a * z**2, b * z**2, v * z**2
    for x, below, times in near:
        y, rest = x * t, (below + gap) * t  # rest = 1 − y, without cancellation next to the pole
        q = y / jnp.where(times > 0, rest, 1)
        a, b, v = a + times * (y * q), b + times * _minus_log_minus(y, rest), v + times * q**2
    A, B, V = a / n, b / n, v / n
    Y = offset * t
    S = Y + A
    F = jnp.where(jnp.abs(S) < 0.125, A - B - _minus_log_minus(-S, 1 + S), jnp.log1p(S) - Y - B)
    return _Sums(t, z, S, -(Y + B), B, F, (V - S**2) / (1 + S))


def _error(
    sums: jax.Array, end: _Evaluation, n: jax.Array, has_bulk: jax.Array, offset: jax.Array, level: jax.Array
) -> jax.Array:
    """Truncation (first order through L, second through the root) + Newton + rounding; +inf where z ≥ 1."""
    eps, at = jnp.finfo(n.dtype).eps, end.at
    tail_s = jnp.where(has_bulk, sums[-1] * at.z ** (POWERS + 1) / (1 - at.z) / n, 0)
    tail_l = tail_s / (POWERS + 1)
    both = at.S + at.log_mean + 2 * at.squares  # A + B, between whose terms the rounding of F happens
    in_f = tail_s + tail_l + 4 * eps * both
    moved = jnp.abs(end.next_gap - end.gap) + in_f / (at.t * at.slope)  # how far the root may be
    root = 2 * (jnp.abs(jnp.expm1(at.F - level)) + in_f) * moved
    truncation = jnp.exp(at.log_mean - level) * tail_l / at.t
    # Power sums are compensated; each of some tens of growths costs them a few roundings.
    rounding = eps * (32 * at.squares / at.t + 2 * jnp.abs(end.rise) + 2 * jnp.abs(offset))
    error = truncation + jnp.maximum(root, end.newton) + rounding
    overflow = n >= 2 ** (jnp.finfo(n.dtype).nmant + 1)  # multiplicities are floats, whole up to here
    return jnp.where((has_bulk & ~(at.z < 1)) | jnp.isnan(error) | overflow, jnp.inf, error)


def _insert(values: jax.Array, counts: jax.Array, x: jax.Array, times: jax.Array, *, descending: bool) -> tuple:
    """Put `times` copies of x into a sorted list of distinct values; returns the list and the (value, times) left over:
    x itself if it belongs beyond the end, the last entry if x displaced it, times 0 if nothing is left.
    """
    sign = 1 if descending else -1
    stays = sign * values > sign * x
    before = jnp.concatenate([jnp.full(1, sign * jnp.inf, values.dtype), values[:-1]])
    before_count = jnp.concatenate([jnp.zeros(1, counts.dtype), counts[:-1]])
    before_stays = sign * before > sign * x
    moved = jnp.where(stays, values, jnp.where(before_stays, x, before))
    moved_count = jnp.where(stays, counts, jnp.where(before_stays, times, before_count))
    equal = values == x
    found = functools.reduce(jnp.logical_or, [equal[j] for j in range(NEAR)])
    unchanged = found | (times == 0)
    left = jnp.where(stays[-1], x, values[-1])
    left_times = jnp.where(unchanged, 0, jnp.where(stays[-1], times, counts[-1]))
    return (
        jnp.where(unchanged, values, moved),
        jnp.where(unchanged, counts + jnp.where(equal, times, 0), moved_count),
        left,
        left_times,
    )


@jax.custom_batching.custom_vmap
def _grown(
    grow: jax.Array, sums: numerics.RunningSum, count: jax.Array, scale: jax.Array, shift: jax.Array
) -> numerics.RunningSum:
    """The power sums, shifted where the bulk's interval grows."""
    shifted = _shifted(sums.high + sums.low, count, scale, shift)
    return numerics.RunningSum(jnp.where(grow, shifted, sums.high), jnp.where(grow, 0, sums.low))


@_grown.def_vmap
def _grown_batch(lanes: int, batched: list, *arguments) -> tuple[numerics.RunningSum, numerics.RunningSum]:
    """Growth is rare: the work is done in the rounds in which some lane needs it, with the lanes as the last axis."""
    spread = lambda x, b: x if b else jnp.broadcast_to(x, (lanes, *x.shape))  # noqa: E731
    grow, sums, count, scale, shift = jax.tree.map(spread, tuple(arguments), tuple(batched))

    def work() -> numerics.RunningSum:
        shifted = _shifted((sums.high + sums.low).T, count, scale, shift).T
        chosen = grow[:, None]
        return numerics.RunningSum(jnp.where(chosen, shifted, sums.high), jnp.where(chosen, 0, sums.low))

    return jax.lax.cond(grow.any(), work, lambda: sums), numerics.RunningSum(True, True)


def _shifted(sums: jax.Array, count: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """Σ (scale·u + shift)^k for k = 1..P from Σ u^k, k = 0..P: k! Σ_j (scale^j Σ u^j / j!) (shift^(k−j) / (k−j)!)."""
    terms, powers = [count], [jnp.ones_like(shift)]
    for k in range(1, POWERS + 1):
        terms.append(sums[k - 1] * scale**k / float(math.factorial(k)))
        powers.append(shift**k / float(math.factorial(k)))
    return jnp.stack(
        [float(math.factorial(k)) * sum(terms[j] * powers[k - j] for j in range(k + 1)) for k in range(1, POWERS + 1)]
    )


def _powers(u: jax.Array) -> jax.Array:
    """[P]: u, u², ..., each from two lower ones."""
    powers = [u]
    for k in range(2, POWERS + 1):
        powers.append(powers[k // 2 - 1] * powers[k - k // 2 - 1])
    return jnp.stack(powers)


def _minus_log_minus(y: jax.Array, rest: jax.Array) -> jax.Array:
    """−log(1 − y) − y ≥ 0 with rest = 1 − y, accurate relative to itself.

    −log(1 − y) = 2 artanh h with h = y/(2 − y), and 2h − y = y h; seven terms give 1e-15 for |y| < 1/8.
    """
    h = y / (1 + rest)
    square = h * h
    series = 1 / 15
    for k in (13, 11, 9, 7, 5, 3):
        series = series * square + 1 / k
    near = y * h + 2 * h * square * series
    return jnp.where(jnp.abs(y) < 0.125, near, -jnp.log(rest) - y)


def _arccosh_exp(F: jax.Array) -> tuple[jax.Array, jax.Array]:
    """arccosh(e^F) and its derivative: √(2F) for small F, F + log 2 for large F, accurate throughout."""
    q = jnp.expm1(F)
    root = jnp.sqrt(q * (q + 2))
    return jnp.log1p(q + root), (1 + q) / root
