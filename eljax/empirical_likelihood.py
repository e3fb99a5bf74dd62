"""Empirical likelihood of a mean, exactly: log ratio, optimal weights, upper index, confidence interval.

Owen, "Empirical Likelihood" (2001), chapter 2. For a sample x_1..x_n with weights w_i (1, or 0 where masked), total
weight n, p_i = w_i/n and sample mean m:

    logEL(μ) = inf { KL(P, Q) : supp Q in {x_i}, mean(Q) = μ } = max over λ of Σ p_i log(1 + λ (x_i − μ))
    U(C)     = sup { μ : n logEL(μ) ≤ C }

The optimal Q puts weight q_i ∝ p_i/(ν − x_i) with a pole ν > M = max x when μ > m (else reflect). Everything is done in
gaps γ_i = (M − x_i)/R ≥ 0, R the range, whose relative rounding error is eps whatever the scale and offset of the data.
With the unknown y = log ε, ν = M + Rε, and centred about the mean gap γ̄:

    D = γ̄ + ε      r_i = (γ_i + ε)/D      u_i = (γ̄ − γ_i)/D = 1 − r_i      τ_i = ε/(γ_i + ε)
    A = Σ p u²/r ≥ 0                       B = Σ p (−log(1 − u) − u) ≥ 0                     (Σ p u = 0)
    F = log1p(A) − B                       logEL at the mean of Q
    H = Σ p γτ / Σ p τ                     (M − mean of Q)/R,   γ̄ − H = D A/(1 + A)

Every sum has terms of one sign, so nothing cancels at C/n = 1e-10 or at an offset of 1e8 standard deviations. An error
δ in γ̄ itself shifts every u_i alike and changes F by the factor 1 + O(δ) only. The two problems are

    index:   F(y) = c = C/n     U − m = min over y of R D (1 − e^(−c−B)),      M − U = R (H + D/(1 + A) (e^(F−c) − 1))
    logEL:   H(y) = g = (M − μ)/R      logEL = max over y of log1p((γ̄ − g)/(g + ε)) − B

and an error in the root enters either value at second order only. By the envelope theorem dU/dC = 1/Σ w/(ν − x),
dU/dx_i = q_i, dlogEL/dμ = −λ, dlogEL/dx_i = λ q_i: the derivative rules never differentiate a solver.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from eljax import checks, numerics

# Evaluations of the sums per solve. Worst relative error of (U − m) due to the root, over 110,000 adversarial samples
# (n up to 2,000, C from 1e-9 to 2,000, outliers of 1e12, weights over 12 decades): 3e-6 after 5 evaluations, 7e-14
# after 6; with n = 1e5 and an outlier 2e-8 after 6, 2e-10 after 7. logEL: 1e-7 after 5, 7e-13 after 6; its weights, of
# first order in the root: 2e-11 after 7, rounding after 8.
INDEX_STEPS = {np.dtype(np.float32): 5, np.dtype(np.float64): 7}
DUAL_STEPS = 8
BLOCK_BYTES = 2**19  # of x, solved at a time on CPUs: the five sums of a step each read the block again


def log_el(x: Any, mean: Any, where: Any = None) -> jax.Array:
    """Per-sample log empirical likelihood ratio of a candidate mean: min KL(P, Q) over laws Q on the sample.

    Args:
      x: [..., n] finite numbers, in any unit.
      mean: candidate mean μ in the unit of x; broadcasts against x's leading axes.
      where: optional bool mask broadcastable to [..., n]; False entries do not count and are never looked at.

    Returns:
      [...] in nats, in the dtype of x: ≥ 0; 0 at the sample mean; +inf on and beyond the hull (constant data: 0 if μ
      equals them, else +inf). An empty sample constrains nothing: 0. n · log_el is half the usual −2 log ratio.
      Differentiable once in x and mean; where the value is +inf the derivative is 0.

    Raises ValueError: non-numeric, empty-axis or non-finite x; mask not boolean; shapes that do not broadcast.

    >>> float(5 * log_el([0.0, 1.0, 2.0, 3.0, 4.0], 3.0))  # doctest: +ELLIPSIS
    1.37242...
    """
    x, weights, mean = _arguments(x, where, None, "mean", mean)
    return _log_el(x, weights, mean)


def el_weights(x: Any, mean: Any, where: Any = None) -> jax.Array:
    """Weights q [..., n] of the law Q on the sample nearest to the empirical law among those with the given mean.

    Arguments and errors as for `log_el`. The weights are ≥ 0, sum to 1, are 0 on masked entries, and Σ q x = mean. All
    are 0 where there is no such law: mean on or beyond the hull, or an empty sample.

    >>> print(el_weights([0.0, 1.0], 0.75))
    [0.25 0.75]
    """
    x, weights, mean = _arguments(x, where, None, "mean", mean)
    return _el_weights(x, weights, mean)


def el_index(x: Any, radius: Any, where: Any = None) -> jax.Array:
    """Upper empirical-likelihood index U = sup { μ : n · log_el(x, μ) ≤ radius }.

    Args:
      x: [..., n] finite numbers, in any unit.
      radius: C ≥ 0 in nats (+inf allowed); broadcasts against x's leading axes.
      where: optional bool mask broadcastable to [..., n]; False entries do not count and are never looked at.

    Returns:
      [...] in the unit and dtype of x, mean ≤ U ≤ max: the mean at radius 0, the value itself for constant data or
      n = 1, +inf for an empty sample. Differentiable once in x and radius; dU/dradius grows like radius^(-1/2) as
      radius → 0, and at 0 itself, where it is infinite, a huge finite number stands for it.

    Raises ValueError: as `log_el`; negative or NaN radius.

    >>> print(round(float(el_index([0.0, 1.0], 0.5)), 5))
    0.81364
    """
    return el_index_with_error(x, radius, where)[0]


def el_index_with_error(x: Any, radius: Any, where: Any = None) -> tuple[jax.Array, jax.Array]:
    """`el_index`, and an estimate from above of its error relative to (index − mean), which is 0 where it is exact.

    The error is that of the root, which enters at second order, and of rounding: of the sums, and of the result itself
    (eps · max|x|, which is all of it when the data sit far from 0 compared with their spread).
    """
    x, weights, radius = _arguments(x, where, None, "radius", radius)
    return _index(x, weights, radius)


def el_interval(
    x: Any, radius: Any = None, *, confidence: float | None = None, where: Any = None, weights: Any = None
) -> tuple[jax.Array, jax.Array]:
    """Empirical-likelihood confidence interval of the mean: all μ with n · log_el(x, μ) ≤ radius.

    Args:
      x: [..., n] finite numbers, in any unit.
      radius: C ≥ 0 in nats; broadcasts against x's leading axes. Exactly one of `radius` and `confidence`.
      confidence: a Python number in (0, 1); the radius is half the chi-square quantile (1 degree of freedom).
      where: optional bool mask broadcastable to [..., n].
      weights: optional non-negative weights broadcastable to [..., n], such as multiplicities: weight 2 is the point
        taken twice, weight 0 a masked one, and the total weight plays the part of n.

    Returns:
      (lower, upper), each [...]; upper = el_index(x, radius), lower = −el_index(−x, radius). An empty sample gives
      (−inf, inf).

    Raises ValueError: as `el_index`; both or none of radius and confidence; confidence not in (0, 1); negative weights.

    >>> print([round(float(end), 4) for end in el_interval([0.0, 1.0, 2.0, 3.0, 4.0], confidence=0.95)])
    [0.8417, 3.1583]
    """
    if (radius is None) == (confidence is None):
        checks.fail("radius, confidence", (radius, confidence), "given one at a time: exactly one of the two")
    if radius is None:
        level = checks.number("confidence", confidence, low=0.0, high=1.0, open_low=True)
        if level == 1.0:
            checks.fail("confidence", confidence, "in (0, 1)")
        radius = special.chdtri(1, 1.0 - level) / 2
    x, weights, radius = _arguments(x, where, weights, "radius", radius)
    both = jnp.stack([-x, x])
    ends, _ = _index(both, jnp.broadcast_to(weights[None], both.shape), jnp.stack([radius, radius]))
    return -ends[0], ends[1]


class _Sample(NamedTuple):
    """A sample in gaps. Arrays are [..., n] or [..., 1]; lengths are in units of 1/scale."""

    x: jax.Array  # [..., n] scaled data, masked entries moved to `top`
    top: jax.Array
    bottom: jax.Array
    span: jax.Array  # top − bottom, or 1 for constant data
    constant: jax.Array  # bool: all data equal (or none)
    scale: jax.Array  # a power of two
    total: jax.Array  # total weight n (1 for an empty sample)
    p: jax.Array  # [..., n] weights that sum to 1


def _sample(x: jax.Array, weights: jax.Array) -> _Sample:
    present = weights > 0
    top = jnp.max(jnp.where(present, x, -jnp.inf), -1, keepdims=True)
    bottom = jnp.min(jnp.where(present, x, jnp.inf), -1, keepdims=True)
    some = present.any(-1, keepdims=True)
    top, bottom = jnp.where(some, top, 0), jnp.where(some, bottom, 0)
    # An exact change of unit keeps sums and products of data near the ends of the exponent range finite and normal.
    unit = jnp.asarray(2.0**64, x.dtype)
    scale = jnp.where(jnp.maximum(jnp.abs(top), jnp.abs(bottom)) > 1, 1 / unit, unit)
    x, top, bottom = jnp.where(present, x, top) * scale, top * scale, bottom * scale
    constant = top == bottom
    total = jnp.where(some, jnp.sum(weights, -1, keepdims=True), 1)
    return _Sample(x, top, bottom, jnp.where(constant, 1, top - bottom), constant, scale, total, weights / total)


def _mean_about(values: jax.Array, p: jax.Array, centre: jax.Array) -> jax.Array:
    """centre + Σ p (values − centre): the weighted mean, correctly rounded but for an ulp if centre is close to it."""
    return centre + jnp.sum(p * (values - centre), -1, keepdims=True)


def _mean_gap(gap: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of the gaps, in two passes."""
    mean = _mean_about(gap, p, jnp.sum(p * gap, -1, keepdims=True))
    return mean, jnp.sum(p * jnp.square(gap - mean), -1, keepdims=True)


class _Moments(NamedTuple):
    """Sums over the sample at one pole, each [..., 1]. τ = mean_tau · (1 + ξ) with Σ p ξ = 0."""

    mean_tau: jax.Array  # Σ p τ = κ (1 + A),  κ = ε/D
    excess: jax.Array  # κ A = Σ p u²τ
    rest: jax.Array  # Σ p (1 − τ) = Σ p γ/(γ + ε)
    xi2: jax.Array  # Σ p ξ²
    xi3: jax.Array  # Σ p ξ³


def _moments(gap: jax.Array, p: jax.Array, mean_gap: jax.Array, eps: jax.Array) -> _Moments:
    # u τ = κ (τ/κ − 1) lies in [−1, 1] and is small when τ is nearly constant: central moments without cancellation.
    denominator = mean_gap + eps
    inverse = 1 / (gap + eps)
    u = (mean_gap - gap) * (1 / denominator)
    v = u * (eps * inverse)
    excess, rest, v2, v3 = (
        jnp.sum(t, -1, keepdims=True) for t in (p * (u * v), p * (gap * inverse), p * (v * v), p * (v * v * v))
    )
    mean_tau = eps / denominator + excess
    xi2 = (v2 - jnp.square(excess)) / jnp.square(mean_tau)
    xi3 = (v3 - 3 * excess * v2 + 2 * excess**3) / mean_tau**3
    return _Moments(mean_tau, excess, rest, xi2, xi3)


def _mean_log(gap: jax.Array, p: jax.Array, mean_gap: jax.Array, eps: jax.Array) -> jax.Array:
    """B = Σ p (−log(1 − u) − u), every term accurate relative to itself."""
    scale = 1 / (mean_gap + eps)
    terms = numerics.minus_log_minus((mean_gap - gap) * scale, (gap + eps) * scale)
    return jnp.sum(p * terms, -1, keepdims=True)


def _advance(y: jax.Array, step: jax.Array, low: jax.Array, high: jax.Array, right: jax.Array) -> tuple:
    """Narrow the bracket with the side the root lies on, then step, or bisect where the step leaves the bracket."""
    low, high = jnp.where(right, y, low), jnp.where(right, high, y)
    new = y + step
    return jnp.where((new >= low) & (new <= high), new, (low + high) / 2), low, high


def _lowest_log(dtype: Any) -> float:
    """The least y used: e^y and its quotients are normal numbers. A root below it puts U at the maximum to rounding."""
    return float(np.log(jnp.finfo(dtype).tiny)) + 4


class _Root(NamedTuple):
    """The pole of the index and what the sums are there, each [..., 1]."""

    y: jax.Array
    low: jax.Array
    high: jax.Array
    eps: jax.Array
    moments: _Moments
    mean_log: jax.Array  # B
    surplus: jax.Array  # F − c
    slope: jax.Array  # −dF/dy ≥ 0

    def lift(self) -> jax.Array:
        """Bound on what is left of the root's error in (U − m)/R: off by δy = surplus/slope it lifts the min form by
        ε F' δy²/2; four times that.
        """
        return 2 * self.eps * jnp.where(self.slope > 0, self.surplus * (self.surplus / self.slope), 0)


def _solve_index(gap: jax.Array, p: jax.Array, mean_gap: jax.Array, variance: jax.Array, c: jax.Array) -> _Root:
    """F(y) = c by a bracketed third-order iteration on F^b, with the power b that makes F^b locally linear in y.

    F ~ ε^-2 for large ε (b = 0) and F ~ −y for small ε (b = 1): both ends are then solved in one step.
    """
    floor = _lowest_log(gap.dtype)
    bound = variance / jnp.expm1(c)  # F ≤ log1p(A) ≤ log1p(variance/(D ε)), hence D ε ≤ bound at the root

    def log_root(b: jax.Array) -> jax.Array:  # log of the ε with D ε = b; constant data have no gaps and any ε will do
        y = jnp.log(2 * b / (mean_gap + jnp.sqrt(mean_gap**2 + 4 * b)))
        return jnp.where(mean_gap > 0, jnp.maximum(y, floor), floor)

    high, start = log_root(bound), log_root(bound / 2)

    def body(state: tuple[jax.Array, jax.Array, _Root]) -> tuple[jax.Array, jax.Array, _Root]:
        i, done, root = state
        eps = jnp.exp(root.y)
        moments = _moments(gap, p, mean_gap, eps)
        mean_log = _mean_log(gap, p, mean_gap, eps)
        a1, xi2 = moments.mean_tau, moments.xi2
        value = jnp.log1p(moments.excess * ((mean_gap + eps) / eps)) - mean_log
        slope = a1 * xi2
        curvature = a1**2 * (3 * xi2 + 2 * moments.xi3 - xi2**2) - slope
        power = jnp.clip(1 - (value / slope) * (curvature / slope), 1e-3, 1.0)
        step = -value / slope * jnp.expm1(power * jnp.log(c / value)) / power
        y, low, high = _advance(root.y, step, root.low, root.high, value > c)
        new = _Root(y, low, high, eps, moments, mean_log, value - c, slope)
        # A root found stays as it is, so that a sample's index does not depend on the others of its batch.
        root = jax.tree.map(functools.partial(jnp.where, done), root, new)
        rise = -(mean_gap + root.eps) * jnp.expm1(-c - root.mean_log)
        close = jnp.abs(root.surplus) <= 0.1 * root.slope  # a long step says little of the distance to the root
        return i + 1, close & (root.lift() <= jnp.finfo(gap.dtype).eps * rise), root

    def unfinished(state: tuple[jax.Array, jax.Array, _Root]) -> jax.Array:
        return (state[0] < INDEX_STEPS[gap.dtype]) & ~state[1].all()

    blank = jnp.zeros_like(c)
    root = _Root(start, jnp.full_like(c, floor), high, blank, _Moments(*[blank] * 5), blank, blank, blank)
    return jax.lax.while_loop(unfinished, body, (0, blank > 0, root))[2]


class _Index(NamedTuple):
    upper: jax.Array  # [...]
    error: jax.Array  # [...] relative to (upper − mean)
    by_x: jax.Array  # [..., n] dU/dx, the optimal weights q
    by_weight: jax.Array  # [..., n] dU/dw
    by_radius: jax.Array  # [...] dU/dC


def _index_parts(x: jax.Array, weights: jax.Array, radius: jax.Array) -> _Index:
    s = _sample(x, weights)
    gap = (s.top - s.x) / s.span
    mean_gap, variance = _mean_gap(gap, s.p)
    mean = jnp.clip(_mean_about(s.x, s.p, s.top - s.span * mean_gap), s.bottom, s.top)
    # Below c = eps³ the rise is ∝ √c to rounding, radius 0 included; above twice the lowest y nothing changes.
    rounding = jnp.finfo(x.dtype).eps
    asked = radius[..., None] / s.total
    c = jnp.clip(asked, rounding**3, -2 * _lowest_log(x.dtype))
    root = _solve_index(gap, s.p, mean_gap, variance, c)
    a1, denominator, decay = root.moments.mean_tau, mean_gap + root.eps, c + root.mean_log
    rise = -denominator * jnp.expm1(-decay) * jnp.sqrt(jnp.minimum(asked / c, 1))  # (U − m)/R
    room = root.eps / a1 * (root.moments.rest + jnp.expm1(root.surplus))  # (M − U)/R
    upper = jnp.where(rise < room, mean + s.span * rise, s.top - s.span * jnp.maximum(room, 0))
    upper = jnp.where(s.constant, s.top, jnp.clip(upper, mean, s.top)) / s.scale
    largest = jnp.maximum(jnp.abs(s.top), jnp.abs(s.bottom)) / s.span
    relative = 1 / jnp.maximum(rise, jnp.finfo(x.dtype).tiny)
    count = jnp.sum(weights > 0, -1, keepdims=True).astype(x.dtype)
    error = root.lift() * relative + rounding * (16 + jnp.sqrt(count) + 4 * largest * relative)
    error = jnp.where(s.constant | (asked == 0), 0, error)
    # Derivatives are of first order in the root: they take the pole one step on.
    eps = jnp.exp(root.y)
    tau, denominator = eps / (gap + eps), mean_gap + eps
    a1, decay = jnp.sum(s.p * tau, -1, keepdims=True), c + _mean_log(gap, s.p, mean_gap, eps)
    a1 = jnp.where(a1 > 0, a1, 1)  # an empty sample
    by_x = s.p * tau / a1
    by_weight = (
        -s.span * denominator * jnp.exp(-decay) / s.total * (decay + jnp.log((gap + eps) / denominator)) / s.scale
    )
    by_weight = jnp.where((weights > 0) & ~s.constant, by_weight, 0)
    by_radius = jnp.where(s.constant, 0, s.span * eps / a1 / s.total / s.scale)
    empty = jnp.all(weights == 0, -1)
    upper, error = jnp.where(empty, jnp.inf, upper[..., 0]), jnp.where(empty, 0, error[..., 0])
    return _Index(upper, error, by_x, by_weight, by_radius[..., 0])


@jax.jit
@jax.custom_jvp
def _index(x: jax.Array, weights: jax.Array, radius: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(U, error) of x [..., n], weights [..., n], radius [...]; on CPUs so many samples at a time as stay in cache."""
    if jax.default_backend() != "cpu":
        return _index_parts(x, weights, radius)[:2]
    rows = max(BLOCK_BYTES // (x.shape[-1] * x.dtype.itemsize), 1)
    return numerics.in_blocks(lambda *block: _index_parts(*block)[:2], radius.shape, rows, (x, weights, radius))


def _index_jvp(primals: tuple, tangents: tuple) -> tuple:
    parts = _index_parts(*primals)
    by_x, by_weight, by_radius = tangents
    tangent = jnp.sum(parts.by_x * by_x + parts.by_weight * by_weight, -1) + parts.by_radius * by_radius
    return parts[:2], (tangent, jnp.zeros_like(tangent))


_index.__wrapped__.defjvp(_index_jvp)


class _Dual(NamedTuple):
    value: jax.Array  # [...] logEL
    multiplier: jax.Array  # [..., 1] λ R
    weights: jax.Array  # [..., n] q
    deviation: jax.Array  # [..., n] (x − μ)/R
    sample: _Sample


def _exact_distance(mean: jax.Array, x: jax.Array, weights: jax.Array) -> jax.Array:
    """Σ (μ − x) over the unmasked, in twice the working precision: μ may lie next to the sample mean."""
    high, low = numerics.add(numerics.RunningSum(mean + jnp.zeros_like(x), jnp.zeros_like(x)), -x)
    n = x.shape[-1]
    padding = [(0, 0)] * (x.ndim - 1) + [(0, (1 << (n - 1).bit_length()) - n)]
    high, low = (jnp.pad(jnp.where(weights > 0, part, 0), padding) for part in (high, low))
    while high.shape[-1] > 1:
        high, error = numerics.add(numerics.RunningSum(high[..., ::2], low[..., ::2]), high[..., 1::2])
        low = error + low[..., 1::2]
    return high + low


def _solve_dual(gap: jax.Array, p: jax.Array, mean_gap: jax.Array, variance: jax.Array, g: jax.Array, shift: jax.Array):
    """H(y) = g by Newton on log((γ̄ − H)/H), whose slope in y is −1 for small and large ε and for binary data always."""
    floor = _lowest_log(gap.dtype)
    target = jnp.log(shift / g)
    start = jnp.maximum(jnp.log(variance / mean_gap) - target, floor)

    def body(_, state: tuple) -> tuple:
        y, low, high = state
        eps = jnp.exp(y)
        moments = _moments(gap, p, mean_gap, eps)
        rise = (mean_gap + eps) * moments.excess / moments.mean_tau  # γ̄ − H
        room = eps * moments.rest / moments.mean_tau  # H
        surplus = jnp.log(rise / room) - target
        slope = eps * moments.xi2 * (1 / rise + 1 / room)
        return _advance(y, surplus / slope, low, high, surplus > 0)

    state = (start, jnp.full_like(start, floor), jnp.maximum(start, floor))
    return jax.lax.fori_loop(0, DUAL_STEPS, body, state)[0]


def _dual_parts(x: jax.Array, weights: jax.Array, mean: jax.Array) -> _Dual:
    s = _sample(x, weights)
    mu = mean[..., None] * s.scale
    inside = (s.bottom < mu) & (mu < s.top)
    mu = jnp.where(inside, mu, s.top)
    # The distance of μ from the sample mean, exact to rounding however small; reflect so that μ lies above it.
    shift = _exact_distance(mu, s.x, weights) / s.span / s.total
    above = shift >= 0
    gap = jnp.where(above, s.top - s.x, s.x - s.bottom) / s.span
    g = jnp.where(above, s.top - mu, mu - s.bottom) / s.span
    mean_gap, variance = _mean_gap(gap, s.p)
    # Below eps² logEL is ∝ shift² to rounding, and λ ∝ shift, the sample mean itself included.
    usable = inside & (g > 0)
    g, mean_gap = jnp.where(usable, g, 0.25), jnp.where(usable, mean_gap, 0.5)
    floored = jnp.where(usable, jnp.maximum(jnp.abs(shift), jnp.finfo(x.dtype).eps ** 2), 0.25)
    ratio = jnp.minimum(jnp.abs(shift) / floored, 1)
    eps = jnp.exp(_solve_dual(gap, s.p, mean_gap, variance, g, floored))
    value = jnp.log1p(floored / (g + eps)) - _mean_log(gap, s.p, mean_gap, eps)
    value = jnp.maximum(value, 0) * jnp.square(ratio)
    multiplier = jnp.where(usable, -jnp.sign(shift) * ratio / (g + eps), 0)
    q = s.p * (eps / (gap + eps))
    q = q / jnp.sum(q, -1, keepdims=True)
    empty = jnp.all(weights == 0, -1, keepdims=True)
    exact = empty | (s.constant & (mean[..., None] * s.scale == s.top))
    value = jnp.where(exact, 0, jnp.where(usable, value, jnp.inf))
    value = jnp.where(jnp.isnan(mean[..., None]), mean[..., None], value)
    q = jnp.where(usable, q, jnp.where(exact, s.p, 0))
    return _Dual(value[..., 0], multiplier, q, (s.x - mu) / s.span, s)


@jax.jit
@jax.custom_jvp
def _log_el(x: jax.Array, weights: jax.Array, mean: jax.Array) -> jax.Array:
    return _dual_parts(x, weights, mean).value


def _log_el_jvp(primals: tuple, tangents: tuple) -> tuple:
    """dlogEL = λ Σ q (dx − dμ). The weights are masks: they have no tangent."""
    parts = _dual_parts(*primals)
    relative = _relative_tangent(parts.sample, tangents)
    return parts.value, jnp.sum(parts.multiplier * parts.weights * relative, -1)


@jax.jit
@jax.custom_jvp
def _el_weights(x: jax.Array, weights: jax.Array, mean: jax.Array) -> jax.Array:
    return _dual_parts(x, weights, mean).weights


def _el_weights_jvp(primals: tuple, tangents: tuple) -> tuple:
    """With z = x − μ, q = p/(1 + λ z) and Σ q z = 0: dλ = Σ (q²/p) dz / Σ (q²/p) z², dq = −(q²/p) (dλ z + λ dz)."""
    parts = _dual_parts(*primals)
    dz, z, multiplier = _relative_tangent(parts.sample, tangents), parts.deviation, parts.multiplier
    square = jnp.square(parts.weights) * parts.sample.total
    curvature = jnp.sum(square * jnp.square(z), -1, keepdims=True)
    dual = jnp.sum(square * dz, -1, keepdims=True) / jnp.where(curvature > 0, curvature, 1)
    return parts.weights, jnp.where(curvature > 0, -square * (dual * z + multiplier * dz), 0)


def _relative_tangent(s: _Sample, tangents: tuple) -> jax.Array:
    """(dx − dμ)/R; 0 for constant data, where nothing that depends on R is differentiable."""
    dx, _, dmean = tangents
    return jnp.where(s.constant, 0, (dx - dmean[..., None]) * s.scale / s.span)


_log_el.__wrapped__.defjvp(_log_el_jvp)
_el_weights.__wrapped__.defjvp(_el_weights_jvp)


def _arguments(x: Any, where: Any, weights: Any, name: str, value: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Checked x [..., n], weights [..., n] with the mask folded in, and value [...] (radius or mean), of one dtype."""
    x = checks.array("x", x, "float32, float64 or integer numbers of shape [..., n] with n >= 1")
    if x.ndim == 0 or x.shape[-1] == 0:
        checks.fail("x", f"shape {x.shape}", "of shape [..., n] with n >= 1")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.result_type(float))
    value = checks.array(name, value, "a number, or an array of numbers")
    where = jnp.asarray(True) if where is None else checks.array("where", where, "a boolean mask")
    weights = jnp.ones((), x.dtype) if weights is None else checks.array("weights", weights, "non-negative numbers")
    if where.dtype != bool:
        checks.fail("where", f"dtype {where.dtype}", "a boolean mask")
    shape = x.shape
    for argument, array in (("where", where), ("weights", weights), (name, value[..., None])):
        shape = checks.broadcast(argument, array, shape, x.shape)

    if checks.concrete(where, weights):
        present = np.asarray(where) & (np.asarray(weights) > 0)
        if checks.concrete(x) and not np.isfinite(np.broadcast_to(x, shape)[np.broadcast_to(present, shape)]).all():
            checks.fail("x", x, "finite")
    if checks.concrete(weights) and not ((np.asarray(weights) >= 0) & np.isfinite(np.asarray(weights))).all():
        checks.fail("weights", weights, "finite and non-negative")
    if checks.concrete(value):
        valid = np.asarray(value) >= 0 if name == "radius" else ~np.isnan(value)
        if not valid.all():
            checks.fail(name, value, ">= 0" if name == "radius" else "not NaN")
    # A barrier: XLA would take seconds to fold sums over constant weights.
    weights = jax.lax.optimization_barrier(weights)
    weights = jnp.where(jnp.broadcast_to(where, shape), jnp.broadcast_to(weights.astype(x.dtype), shape), 0)
    return jnp.broadcast_to(x, shape), weights, jnp.broadcast_to(value.astype(x.dtype), shape[:-1])
