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

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from eljax import checks
from eljax.empirical_likelihood import dual, index


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
    return dual.log_el(*_arguments(x, where, None, "mean", mean))


def el_weights(x: Any, mean: Any, where: Any = None) -> jax.Array:
    """Weights q [..., n] of the law Q on the sample nearest to the empirical law among those with the given mean.

    Arguments and errors as for `log_el`. The weights are ≥ 0, sum to 1, are 0 on masked entries, and Σ q x = mean. All
    are 0 where there is no such law: mean on or beyond the hull, or an empty sample.

    >>> print(el_weights([0.0, 1.0], 0.75))
    [0.25 0.75]
    """
    return jnp.moveaxis(dual.weights(*_arguments(x, where, None, "mean", mean)), 0, -1)


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
    return index.index(*_arguments(x, where, None, "radius", radius))


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
    lower, upper = index.interval(*_arguments(x, where, weights, "radius", radius))
    return lower, upper


def _arguments(
    x: Any, where: Any, weights: Any, name: str, value: Any
) -> tuple[jax.Array, jax.Array | None, jax.Array]:
    """Checked x [n, ...], weights [n, ...] and value [...] (radius or mean): samples on the first axis.

    Weights are None where all entries count alike, a bool mask where there is no more to it, and else numbers of the
    dtype of x with the mask folded in.
    """
    x = checks.array("x", x, "float32, float64 or integer numbers of shape [..., n] with n >= 1")
    if x.ndim == 0 or x.shape[-1] == 0:
        checks.fail("x", f"shape {x.shape}", "of shape [..., n] with n >= 1")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.result_type(float))
    value = checks.array(name, value, "a number, or an array of numbers")
    shape = checks.broadcast(name, value[..., None], x.shape, x.shape)
    if where is not None:
        where = checks.array("where", where, "a boolean mask")
        if where.dtype != bool:
            checks.fail("where", f"dtype {where.dtype}", "a boolean mask")
        shape = checks.broadcast("where", where, shape, x.shape)
    if weights is not None:
        weights = checks.array("weights", weights, "non-negative numbers")
        shape = checks.broadcast("weights", weights, shape, x.shape)

    given = [argument for argument in (where, weights) if argument is not None]
    if checks.concrete(x, *given):
        present = np.broadcast_to(np.asarray(True if where is None else where), shape)
        if weights is not None:
            present = present & (np.asarray(weights) > 0)
        if not np.isfinite(np.broadcast_to(x, shape)[present]).all():
            checks.fail("x", x, "finite")
    if weights is not None and checks.concrete(weights):
        if not ((np.asarray(weights) >= 0) & np.isfinite(np.asarray(weights))).all():
            checks.fail("weights", weights, "finite and non-negative")
    if checks.concrete(value):
        valid = np.asarray(value) >= 0 if name == "radius" else ~np.isnan(value)
        if not valid.all():
            checks.fail(name, value, ">= 0" if name == "radius" else "not NaN")
    # Barriers: XLA would take seconds to fold sums over constant masks and weights.
    if where is not None:
        where = jnp.broadcast_to(jax.lax.optimization_barrier(where), shape)
    if weights is not None:
        weights = jnp.broadcast_to(jax.lax.optimization_barrier(weights).astype(x.dtype), shape)
        where = weights if where is None else jnp.where(where, weights, 0)
    x, value = jnp.broadcast_to(x, shape), jnp.broadcast_to(value.astype(x.dtype), shape[:-1])
    return jnp.moveaxis(x, -1, 0), None if where is None else jnp.moveaxis(where, -1, 0), value
