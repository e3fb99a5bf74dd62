"""Laws on finitely many values: bernoulli, two_point, discrete, dirac, empirical.

The reward at u is the smallest value whose distribution function is >= u. With p the mass of the nearer tail and j the
position of a value, the function is exceeded, F_j < u, where F_j < p in the lower tail, and where 1 - F_j > p in the
upper one; both sums are formed from their own end, so small probabilities count in both tails. Values are exact; a
probability is met to the rounding of p (float32: 2^-25 at worst).
"""

import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from eljax import checks
from eljax.arms.base import Arm, make
from eljax.arms.law import register, register_closed_form
from eljax.numerics import read


def _bernoulli(leaves: tuple[jax.Array, ...], slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    success, failure = (read(leaf, slot) for leaf in leaves)
    return jnp.where(upper, p < success, p > failure).astype(p.dtype)


def _stack_bernoulli(arms: list[Arm]) -> tuple[np.ndarray, ...]:
    success = np.array([arm.parameters["p"] for arm in arms])
    return success, 1 - success


def _dirac(p: jax.Array, upper: jax.Array, value: jax.Array) -> jax.Array:
    return jnp.broadcast_to(value, p.shape)


def _discrete(leaves: tuple[jax.Array, ...], slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    values, below, above = leaves  # [K_f, W + 1], [K_f, W], [K_f, W]: F_j and 1 - F_j for all values but the last
    num_arms, width = below.shape  # W = 2^k - 1, so k halvings find the position
    sums = jnp.concatenate([jnp.ravel(below), jnp.ravel(above)])
    first = jnp.where(upper, slot + num_arms, slot) * np.int32(width)
    position = jnp.zeros_like(slot)
    for k in reversed(range(width.bit_length())):
        step = np.int32(2**k)
        threshold = _take(sums, first + position + (step - 1))
        position = position + jnp.where(jnp.where(upper, p < threshold, p > threshold), step, np.int32(0))
    return _take(jnp.ravel(values), slot * np.int32(width + 1) + position)


def _take(flat: jax.Array, position: jax.Array) -> jax.Array:
    return jnp.asarray(flat).at[position].get(mode="promise_in_bounds")


def _stack_discrete(arms: list[Arm]) -> tuple[np.ndarray, ...]:
    most = max(2, *(arm.atoms[0].size for arm in arms))
    width = 2 ** (most - 1).bit_length() - 1
    values, below, above = np.empty((len(arms), width + 1)), np.ones((len(arms), width)), np.zeros((len(arms), width))
    for k, arm in enumerate(arms):
        atoms, probs = arm.atoms
        values[k] = np.pad(atoms, (0, width + 1 - atoms.size), mode="edge")
        below[k, : atoms.size - 1] = np.cumsum(probs)[:-1]
        above[k, : atoms.size - 1] = np.cumsum(probs[::-1])[::-1][1:]
    return values, below, above


def _empirical(leaves: tuple[jax.Array, ...], slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    samples, start, last, size = leaves  # [N] of all arms, each arm's sorted; [K_f] int32, int32, float
    last_position = read(last, slot)
    from_end = jnp.minimum((p * read(size, slot)).astype(jnp.int32), last_position // 2)
    position = jnp.where(upper, last_position - from_end, from_end)
    return _take(samples, read(start, slot) + position)


def _stack_empirical(arms: list[Arm]) -> tuple[np.ndarray, ...]:
    samples = [arm.parameters["samples"] for arm in arms]
    size = np.array([x.size for x in samples])
    start = np.cumsum(size) - size
    return np.concatenate(samples), start.astype(np.int32), (size - 1).astype(np.int32), size.astype(np.float64)


register("bernoulli", stack=_stack_bernoulli, quantile=_bernoulli)
register("two_point", stack=_stack_discrete, quantile=_discrete)
register("discrete", stack=_stack_discrete, quantile=_discrete)
register("empirical", stack=_stack_empirical, quantile=_empirical)
register_closed_form("dirac", _dirac, ("value",), open_support=False)


def bernoulli(p: float) -> Arm:
    """1 with probability p in [0, 1], else 0.

    >>> bernoulli(0.25).variance
    0.1875
    """
    p = checks.number("p", p, low=0, high=1)
    return _on_atoms("bernoulli", {"p": p}, np.array([0.0, 1.0]), np.array([1 - p, p]))


def dirac(value: float) -> Arm:
    """Always `value`.

    >>> dirac(3).mean, dirac(3).variance
    (3.0, 0.0)
    """
    value = checks.number("value", value)
    return _on_atoms("dirac", {"value": value}, np.array([value]), np.ones(1))


def two_point(values: ArrayLike, probs: ArrayLike) -> Arm:
    """values[0] with probability probs[0], values[1] with probability probs[1].

    >>> two_point([0, 10], [0.9, 0.1]).mean
    1.0
    """
    values = checks.numbers("values", values)
    if values.size != 2:
        checks.fail("values", values.tolist(), "two finite numbers")
    return _finite("two_point", values, probs)


def discrete(values: ArrayLike, probs: ArrayLike) -> Arm:
    """values[j] with probability probs[j]: at least 0, summing to 1 to within 1e-9, and then divided by their sum.

    Values may come in any order and more than once; those of probability 0 are left out.

    >>> discrete([3, 1, 2], [0.5, 0.25, 0.25])
    discrete(values=[1.0, 2.0, 3.0], probs=[0.25, 0.25, 0.5])
    """
    return _finite("discrete", checks.numbers("values", values), probs)


def empirical(samples: ArrayLike) -> Arm:
    """Each of the samples [n] with probability 1/n; the mean is their mean, the variance in 1/n form.

    Drawn by position among the sorted samples, so a draw costs the same for any n.

    >>> empirical([2, 1, 3, 2])
    empirical(samples=[1.0, 2.0, 2.0, 3.0])
    """
    samples = np.sort(checks.numbers("samples", samples))
    values, counts = np.unique(samples, return_counts=True)
    total = math.fsum(samples)
    rest = math.fsum([*samples, -total])  # so that the mean of equal samples is that sample
    mean = float((Fraction(total) + Fraction(rest)) / samples.size) if math.isfinite(total) else total
    return make(
        "empirical",
        {"samples": samples},
        mean=mean,
        variance=_variance(values, counts / samples.size, mean),
        support=(samples[0], samples[-1]),
        atoms=(values, counts / samples.size),
    )


def _finite(family: str, values: np.ndarray, probs: ArrayLike) -> Arm:
    probs = checks.numbers("probs", probs)
    if probs.shape != values.shape:
        checks.fail("probs", probs.tolist(), f"as long as values, {values.size} numbers")
    total = math.fsum(probs)
    if (probs < 0).any() or abs(total - 1) > 1e-9:
        checks.fail("probs", probs.tolist(), "at least 0 and sum to 1 (to within 1e-9)")
    distinct, position = np.unique(values[probs > 0], return_inverse=True)
    mass = np.array([math.fsum(probs[probs > 0][position == j]) for j in range(distinct.size)])
    mass = mass / math.fsum(mass)
    return _on_atoms(family, {"values": distinct, "probs": mass}, distinct, mass)


def _on_atoms(family: str, parameters: dict[str, Any], values: np.ndarray, probs: np.ndarray) -> Arm:
    values, probs = values[probs > 0], probs[probs > 0]
    weights = [Fraction(p) for p in probs]  # exactly: equal laws written differently have equal means
    mean = float(sum(w * Fraction(x) for w, x in zip(weights, values, strict=True)) / sum(weights))
    return make(
        family,
        parameters,
        mean=mean,
        variance=_variance(values, probs, mean),
        support=(values[0], values[-1]),
        atoms=(values, probs),
    )


def _variance(values: np.ndarray, probs: np.ndarray, mean: float) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sum(probs * (values - mean) ** 2))
