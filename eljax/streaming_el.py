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

Written for any number of trailing axes: `numerics.lanes_last` puts a batch there, behind arms, slots and powers.
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
EVALUATIONS = 16  # at most; from the last pole one or two are the rule
BINOMIALS = np.array([[math.comb(k, j) for j in range(POWERS + 1)] for k in range(1, POWERS + 1)], np.float32)  # exact
LARGEST_LOG = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 300.0}  # the square of e^this is a normal number


class Stream(NamedTuple):
    """What is kept of one arm's rewards; of K arms, with K as a first axis of every field."""

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
    shaken: jax.Array  # []: rewards in the bulk at each of its growths, added up: what rounding they met
    bend: jax.Array  # []: v of the last root over its normal approximation, the next start


def init(num_arms: int, dtype: jnp.dtype) -> Stream:
    """Arms without rewards."""
    zero, some = jnp.zeros(num_arms, dtype), jnp.zeros((num_arms, NEAR), dtype)
    sums = jnp.zeros((num_arms, POWERS), dtype)
    return Stream(
        count=jnp.zeros(num_arms, jnp.int32),
        magnitude=zero,
        low=zero + jnp.inf,
        first=zero,
        total=numerics.RunningSum(zero, zero),
        top=some - jnp.inf,
        top_count=some,
        bottom=some + jnp.inf,
        bottom_count=some,
        centre=zero,
        half=zero,
        bulk_count=zero,
        power_sums=numerics.RunningSum(sums, sums),
        shaken=zero,
        bend=zero + 1,
    )


@numerics.lanes_last
def mean(stream: Stream) -> jax.Array:
    """Sample mean, right to rounding and independent of the order of the rewards."""
    return numerics.mean_about(stream.first, stream.total, stream.count)


@numerics.lanes_last
def push(streams: Stream, arm: jax.Array, x: jax.Array) -> Stream:
    """One more reward of `arm`. What it displaces from the near field moves on: top → bottom → bulk."""
    old = _of_arm(streams._replace(power_sums=None), arm)
    old = jax.lax.optimization_barrier(old)  # computed once, not again in each of its many uses
    first = jnp.where(old.count == 0, x, old.first)
    top, top_count, value, times = _insert(old.top, old.top_count, x, jnp.ones_like(x), 1)
    bottom, bottom_count, value, times = _insert(old.bottom, old.bottom_count, value, times, -1)

    # The bulk lies between the two lists, now and later, so an interval around them contains the earlier ones.
    moves = times > 0
    grow = moves & ((jnp.abs(value - old.centre) > old.half) | (old.bulk_count == 0))
    centre = jnp.where(grow, bottom[-1] + (top[-1] - bottom[-1]) / 2, old.centre)
    half = jnp.where(grow, SLACK * (top[-1] - bottom[-1]) / 2, old.half)
    unit = jnp.where(half > 0, half, 1)
    scale, shift = old.half / unit, (old.centre - centre) / unit
    sums = _grown(grow & (old.bulk_count > 0), arm, streams.power_sums, old.bulk_count, scale, shift)
    powers = _powers(jnp.where(moves, (value - centre) / unit, 0))
    new = Stream(
        count=old.count + 1,
        magnitude=jnp.maximum(old.magnitude, jnp.abs(x)),
        low=jnp.minimum(old.low, x),
        first=first,
        total=numerics.add(old.total, x - first),
        top=top,
        top_count=top_count,
        bottom=bottom,
        bottom_count=bottom_count,
        centre=centre,
        half=half,
        bulk_count=old.bulk_count + times,
        power_sums=None,
        shaken=old.shaken + jnp.where(grow, old.bulk_count, 0),
        bend=old.bend,
    )
    new, powers = jax.lax.optimization_barrier((new, times * powers))
    written = jax.tree.map(lambda x, y: numerics.write(x, arm, y), streams._replace(power_sums=None), new)
    # Adding 0 leaves the other arms' sums as they are, to the bit.
    return written._replace(power_sums=numerics.add(sums, numerics.place(powers, arm, sums.high.shape[0])))


@numerics.lanes_last
def arm_index(streams: Stream, arm: jax.Array, radius: jax.Array) -> tuple[jax.Array, jax.Array, Stream]:
    """(index, error, streams): upper EL index of `arm`, a bound on its absolute error, and the streams with its pole.

    The index is +inf for an arm without rewards, and exact for constant rewards and for radius 0 (the mean); the error
    is +inf where the expansion does not converge. Rounding of the result itself (eps · magnitude) is not included.
    """
    index, error, bend = _solve(_of_arm(streams, arm), radius)
    return index, error, streams._replace(bend=numerics.write(streams.bend, arm, bend))


@numerics.lanes_last
def all_indices(streams: Stream, radius: jax.Array) -> tuple[jax.Array, jax.Array, Stream]:
    """([K], [K], streams): `arm_index` of every arm."""
    axes = 1 + radius.ndim  # K and the lanes behind what is one arm's
    index, error, bend = _solve(jax.tree.map(lambda x: jnp.moveaxis(x, 0, x.ndim - axes), streams), radius)
    return index, error, streams._replace(bend=bend)


def _of_arm(streams: Stream, arm: jax.Array) -> Stream:
    return jax.tree.map(lambda x: numerics.read(x, arm), streams)


def _solve(stream: Stream, radius: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(index, error, bend) of one arm."""
    dtype = stream.low.dtype
    eps, largest = jnp.finfo(dtype).eps, LARGEST_LOG[np.dtype(dtype)]
    n = jnp.maximum(stream.count, 1).astype(dtype)
    average, high = mean(stream), stream.top[0]
    c = jnp.where(stream.bulk_count > 0, stream.centre, average)
    constant = ~(high > c)  # or so nearly that the centre is rounded to the maximum
    span = jnp.where(constant, 1, high - c)
    bulk = stream.power_sums.high + stream.power_sums.low
    near, bulk = jax.lax.optimization_barrier((_near_field(stream, c, span), bulk))
    level = jnp.clip(radius / n, eps**3, largest)  # C/n
    goal, _ = _arccosh_exp(level)
    # In v = log(1 + span/gap) the function arccosh(e^F) is nearly linear from ν = ∞ (v = 0) to the maximum (v = ∞).
    squares = (stream.half / span) ** 2 * bulk[1] + _total(near.times * (near.x / span) ** 2)
    normal = jnp.minimum(goal / jnp.sqrt(jnp.where(constant, 1, squares / n)), largest)

    def evaluate(last: _Evaluation) -> _Evaluation:
        # A root found is evaluated where it was, again and alike: the others of the batch change nothing of it.
        v, gap = (jnp.where(last.done > 0, x, y) for x, y in ((last.v, last.next_v), (last.gap, last.next_gap)))
        at = _evaluate(near, bulk, stream.half, n, average - c, span, gap)
        value, slope = _arccosh_exp(jnp.maximum(at.F, eps**3))
        step = (goal - value) / (slope * at.slope * gap / span)
        next_v = v + jnp.where(jnp.isfinite(step), step, 0)
        next_v = jnp.clip(next_v, v / 8, jnp.minimum(8 * v, largest))
        next_gap = span / jnp.expm1(next_v)
        rise = -jnp.expm1(at.log_mean - level) * (span + gap)
        newton = 2 * jnp.abs(jnp.expm1(at.F - level) * (next_gap - gap))
        # A long step says little of the distance to the root; a pole pinned at the maximum is within its gap of it.
        newton = jnp.where(jnp.abs(step) <= v / 4, newton, jnp.where(next_v == largest, gap, jnp.inf))
        done = (constant | (newton <= 3 * eps * (rise - (average - c)))).astype(dtype)
        return _Evaluation(done, v, gap, next_v, next_gap, rise, newton, at)

    zero = jnp.zeros_like(n)
    first = stream.bend * normal
    start = _Evaluation(zero, zero, zero, first, span / jnp.expm1(first), zero, zero, _Sums(*[zero] * 5))
    _, end = jax.lax.while_loop(
        lambda state: (state[0] < EVALUATIONS) & (state[1].done == 0).any(),
        lambda state: (state[0] + 1, evaluate(state[1])),
        (0, start),
    )

    error = _error(stream, bulk[-1], end, span, average - c, level)
    is_mean = radius == 0
    index = jnp.where(is_mean, average, jnp.where(constant, high, jnp.clip(c + end.rise, average, high)))
    index = jnp.where(stream.count > 0, index, jnp.inf)
    bend = end.next_v / normal
    bend = jnp.where((bend > 0.25) & (bend < 4) & ~constant, bend, 1)
    error = jnp.where(is_mean | (stream.count == 0), 0, jnp.where(constant, high - stream.low, error))
    return index, error, bend


class _Near(NamedTuple):
    """The near field, [2J, ...] each."""

    x: jax.Array  # relative to c
    below: jax.Array  # largest reward minus value
    times: jax.Array  # multiplicity, 0 for an empty slot, which then counts as a value at c


class _Sums(NamedTuple):
    S: jax.Array
    B: jax.Array  # mean (−log(1 − y) − y)
    log_mean: jax.Array  # L = −mean y − B
    F: jax.Array
    slope: jax.Array  # t dF/dt


class _Evaluation(NamedTuple):
    done: jax.Array  # 1 or 0: a bool between loops of other widths keeps CPUs from vector instructions
    v: jax.Array  # log(1 + span/gap), here
    gap: jax.Array  # ν − max, here
    next_v: jax.Array  # log(1 + span/gap) after a Newton step
    next_gap: jax.Array
    rise: jax.Array  # U − c in the min form, from above
    newton: jax.Array  # |∫ (1 − e^(F − C/n)) dν| to the root, twice the Newton step taken for the distance
    at: _Sums


def _total(terms: jax.Array) -> jax.Array:
    """Sum over the first axis; written out, because jnp.sum over a short axis costs 30 µs a call on CPUs."""
    return sum(terms[j] for j in range(terms.shape[0]))


def _near_field(stream: Stream, c: jax.Array, span: jax.Array) -> _Near:
    values = jnp.concatenate([stream.top, stream.bottom])
    times = jnp.concatenate([stream.top_count, stream.bottom_count])
    filled = times > 0
    return _Near(jnp.where(filled, values - c, 0), jnp.where(filled, stream.top[0] - values, span), times)


def _evaluate(
    near: _Near,
    bulk: jax.Array,
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
        w = bulk[k - 1]
        a, b, v = a * z + w, b * z + w / k, v * z + w * (k - 1)
    a, b, v = jax.lax.optimization_barrier((a * z**2, b * z**2, v * z**2))
    y = near.x * t
    rest = (near.below + gap) * t  # 1 − y, without cancellation next to the pole
    q = y / rest
    terms = near.times * (y * q), near.times * numerics.minus_log_minus(y, rest), near.times * q**2
    A, B, V = ((x + _total(terms)) / n for x, terms in zip((a, b, v), jax.lax.optimization_barrier(terms), strict=True))
    Y = offset * t
    S = Y + A
    F = jnp.where(jnp.abs(S) < 0.25, A - B - numerics.minus_log_minus(-S, 1 + S), jnp.log1p(S) - Y - B)
    return _Sums(S, B, -(Y + B), F, (V - S**2) / (1 + S))


def _error(
    stream: Stream, last: jax.Array, end: _Evaluation, span: jax.Array, offset: jax.Array, level: jax.Array
) -> jax.Array:
    """Truncation (first order through L, second through the root) + Newton + rounding; +inf where z ≥ 1."""
    n = jnp.maximum(stream.count, 1).astype(span.dtype)
    eps, at, has_bulk = jnp.finfo(n.dtype).eps, end.at, stream.bulk_count > 0
    width = span + end.gap  # 1/t
    z = stream.half / width
    tail_s = jnp.where(has_bulk, last * z ** (POWERS + 1) / (1 - z) / n, 0)
    tail_l = tail_s / (POWERS + 1)
    # Each growth moves every power sum by a few roundings of the number of rewards: Σ z^k of that, from k = 2.
    shaken = jnp.where(has_bulk, 4 * eps * stream.shaken / n * z**2 / (1 - z), 0)
    in_f = tail_s + tail_l + 2 * shaken + 4 * eps * (at.S - offset / width + at.B)  # F is a difference of A and B
    moved = jnp.abs(end.next_gap - end.gap) + in_f * width / at.slope  # how far the root may be
    root = 2 * (jnp.abs(jnp.expm1(at.F - level)) + in_f) * moved
    truncation = jnp.exp(at.log_mean - level) * (tail_l + shaken) * width
    rounding = eps * (24 * at.B * width + 4 * jnp.abs(end.rise) + 4 * jnp.abs(offset))
    error = truncation + jnp.maximum(root, end.newton) + rounding
    overflow = n >= 2 ** (jnp.finfo(n.dtype).nmant + 1)  # multiplicities are floats, whole up to here
    return jnp.where((has_bulk & ~(z < 1)) | jnp.isnan(error) | overflow, jnp.inf, error)


def _insert(values: jax.Array, counts: jax.Array, x: jax.Array, times: jax.Array, sign: int) -> tuple:
    """Put `times` copies of x into a list [J] of distinct values, descending (sign 1) or ascending (−1).

    Returns the list, its multiplicities, and the (value, times) left over: x itself if it belongs beyond the end, the
    last entry if x displaced it, times 0 if nothing is left.
    """
    stays, equal = sign * values > sign * x, values == x
    unchanged = functools.reduce(jnp.logical_or, [equal[j] for j in range(NEAR)]) | (times == 0)
    before, before_count = (jnp.concatenate([y[None], z[:-1]]) for y, z in ((x, values), (times, counts)))
    lands = jnp.concatenate([jnp.ones_like(stays[:1]), stays[:-1]])  # x comes right here, if not further down
    keep = unchanged | stays
    left = jnp.where(stays[-1], x, values[-1])
    left_times = jnp.where(unchanged, 0, jnp.where(stays[-1], times, counts[-1]))
    return (
        jnp.where(keep, values, jnp.where(lands, x, before)),
        jnp.where(keep, counts + jnp.where(equal, times, 0), jnp.where(lands, times, before_count)),
        left,
        left_times,
    )


def _grown(
    grow: jax.Array,
    arm: jax.Array,
    sums: numerics.RunningSum,
    count: jax.Array,
    scale: jax.Array,
    shift: jax.Array,
) -> numerics.RunningSum:
    """The power sums [K, P, ...], shifted where the bulk's interval grows: few lanes in any round, so one by one."""
    shape = sums.high.shape
    arm, *per_lane = (x.reshape(-1) for x in (arm, count, scale, shift))

    def shift_one(state: tuple) -> tuple:
        pending, sums = state
        lane = jnp.argmax(pending)
        place = arm[lane], jnp.zeros((), jnp.int32), lane.astype(jnp.int32)
        high, low = (jax.lax.dynamic_slice(x, place, (1, POWERS, 1)).reshape(POWERS) for x in sums)
        old, sums = jax.lax.optimization_barrier((high + low, sums))  # read before written: in place
        new = _shifted(old, *(x[lane] for x in per_lane))
        put = lambda x, y: jax.lax.dynamic_update_slice(x, y.reshape(1, POWERS, 1), place)  # noqa: E731
        return pending.at[lane].set(False), numerics.RunningSum(put(sums.high, new), put(sums.low, jnp.zeros_like(new)))

    flat = jax.tree.map(lambda x: x.reshape(*x.shape[:2], -1), sums)
    _, flat = jax.lax.while_loop(lambda state: state[0].any(), shift_one, (grow.reshape(-1), flat))
    return jax.tree.map(lambda x: x.reshape(shape), flat)


def _shifted(sums: jax.Array, count: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """[P]: Σ (scale·u + shift)^k = Σ_j binom(k, j) shift^(k−j) scale^j Σ u^j, k = 1..P, from the sums [P] of u^j."""
    one = jnp.ones_like(scale)[None]
    terms = jnp.concatenate([count[None], sums]) * jnp.concatenate([one, _powers(scale)])
    shifts = jnp.concatenate([one, _powers(shift)])
    k, j = np.ogrid[1 : POWERS + 1, : POWERS + 1]
    return (BINOMIALS * shifts[np.maximum(k - j, 0)] * terms).sum(1)


def _powers(u: jax.Array) -> jax.Array:
    """[P]: u, u², ..., u^16, as the products of two lists of four."""
    u = jax.lax.optimization_barrier(u)
    u2 = u * u
    u3, u4 = u2 * u, u2 * u2
    u8 = u4 * u4
    low, high = jnp.stack([u, u2, u3, u4]), jnp.stack([jnp.ones_like(u), u4, u8, u8 * u4])
    low, high = jax.lax.optimization_barrier((low, high))
    return (high[:, None] * low).reshape(POWERS, *u.shape)


def _arccosh_exp(F: jax.Array) -> tuple[jax.Array, jax.Array]:
    """arccosh(e^F) and its derivative: √(2F) for small F, F + log 2 for large F, accurate throughout."""
    q = jnp.expm1(F)
    root = jnp.sqrt(q * (q + 2))
    return jnp.log1p(q + root), (1 + q) / root
