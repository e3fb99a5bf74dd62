"""Laws whose quantile is a formula: gaussian, clipped_gaussian, laplace, uniform, exponential, pareto.

p in [2^-64, 1/2] is the mass of the nearer tail. Both tails keep the relative precision of the dtype down to 2^-64
(float64: a few 1e-16 of the distance to the median or to the nearer end of the support; float32: a few 1e-7).
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from eljax import checks
from eljax.arms.base import Arm, make, positive
from eljax.arms.law import register, register_closed_form
from eljax.numerics import read


def _gaussian(p: jax.Array, upper: jax.Array, mean: jax.Array, sigma: jax.Array) -> jax.Array:
    z = ndtri(p)  # <= 0
    return mean + sigma * jnp.where(upper, -z, z)


def _clipped_gaussian(
    p: jax.Array, upper: jax.Array, mean: jax.Array, sigma: jax.Array, low: jax.Array, high: jax.Array
) -> jax.Array:
    return jnp.clip(_gaussian(p, upper, mean, sigma), low, high)


def _laplace(p: jax.Array, upper: jax.Array, mean: jax.Array, scale: jax.Array) -> jax.Array:
    z = jnp.log(2 * p)  # <= 0
    return mean + scale * jnp.where(upper, -z, z)


def _uniform(p: jax.Array, upper: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    step = (high - low) * p
    return jnp.where(upper, high - step, low + step)


def _exponential(p: jax.Array, upper: jax.Array, mean: jax.Array) -> jax.Array:
    return mean * _log_survival(p, upper)


def _pareto(leaves: tuple[jax.Array, ...], slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    scale, exponent = (read(leaf, slot) for leaf in leaves)
    return scale * jnp.exp(_log_survival(p, upper) * exponent)


def _stack_pareto(arms: list[Arm]) -> tuple[np.ndarray, ...]:
    """1 / shape is made here: XLA divides by a number shared by all lanes in another way than by one of each lane."""
    return np.array([arm.parameters["scale"] for arm in arms]), 1 / np.array([arm.parameters["shape"] for arm in arms])


def _log_survival(p: jax.Array, upper: jax.Array) -> jax.Array:
    """-log P[X > x] >= 0, exact in both tails."""
    return jnp.where(upper, -jnp.log(p), -jnp.log1p(-p))


register_closed_form("gaussian", _gaussian, ("mean", "sigma"), open_support=False)
register_closed_form("clipped_gaussian", _clipped_gaussian, ("mean", "sigma", "low", "high"), open_support=False)
register_closed_form("laplace", _laplace, ("mean", "scale"), open_support=False)
register_closed_form("uniform", _uniform, ("low", "high"), open_support=True)
register_closed_form("exponential", _exponential, ("mean",), open_support=True)
register("pareto", stack=_stack_pareto, quantile=_pareto)


def gaussian(mean: float, sigma: float) -> Arm:
    """N(mean, sigma²), sigma > 0 the standard deviation.

    >>> gaussian(0.5, 2.0).variance
    4.0
    """
    mean, sigma = checks.number("mean", mean), positive("sigma", sigma)
    return make("gaussian", {"mean": mean, "sigma": sigma}, mean=mean, variance=sigma * sigma)


def clipped_gaussian(mean: float, sigma: float, low: float = 0.0, high: float = 1.0) -> Arm:
    """max(low, min(high, X)) with X ~ N(mean, sigma²): the mass beyond an end lies on it. sigma > 0, low < high.

    The mean of the arm is that of what is seen, not `mean`.

    >>> clipped_gaussian(0.9, 0.1).mean < 0.9
    True
    """
    mean, sigma = checks.number("mean", mean), positive("sigma", sigma)
    low, high = checks.number("low", low), checks.number("high", high)
    if not low < high:
        checks.fail("high", high, f"a finite number > low = {low}")
    expected, variance = _clipped_moments((low - mean) / sigma, (high - mean) / sigma)
    return make(
        "clipped_gaussian",
        {"mean": mean, "sigma": sigma, "low": low, "high": high},
        mean=min(max(mean + sigma * expected, low), high),
        variance=sigma * sigma * variance,
        support=(low, high),
    )


def _clipped_moments(a: float, b: float) -> tuple[float, float]:
    """Mean m and variance of Z ~ N(0, 1) clipped to [a, b].

    m = aΦ(a) + bΦ(−b) + φ(a) − φ(b), and the variance is the sum of (a − m)²Φ(a), (b − m)²Φ(−b) and the part between,
    (1 + m²)(Φ(b) − Φ(a)) + aφ(a) − bφ(b) − 2m(φ(a) − φ(b)).
    """
    a, b = min(max(a, -50.0), 50.0), min(max(b, -50.0), 50.0)  # beyond, all mass is on one end or none is cut off
    density = lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    below = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    mean = a * below(a) + b * below(-b) + density(a) - density(b)
    between = below(-a) - below(-b) if a > 0 else below(b) - below(a)
    inside = (1 + mean * mean) * between + a * density(a) - b * density(b) - 2 * mean * (density(a) - density(b))
    return mean, max((a - mean) ** 2 * below(a) + (b - mean) ** 2 * below(-b) + inside, 0.0)


def laplace(mean: float, scale: float) -> Arm:
    """Density exp(-|x - mean| / scale) / (2 scale), scale > 0.

    >>> laplace(1.0, 2.0).variance
    8.0
    """
    mean, scale = checks.number("mean", mean), positive("scale", scale)
    return make("laplace", {"mean": mean, "scale": scale}, mean=mean, variance=2 * scale * scale)


def uniform(low: float, high: float) -> Arm:
    """Uniform on the open interval (low, high).

    >>> uniform(-1, 3).mean
    1.0
    """
    low, high = checks.number("low", low), checks.number("high", high)
    if not low < high:
        checks.fail("high", high, f"a finite number > low = {low}")
    width = high - low
    if not np.isfinite(width):
        checks.fail("high", high, f"such that high - low is finite, with low = {low}")
    return make(
        "uniform",
        {"low": low, "high": high},
        mean=low / 2 + high / 2,
        variance=width * width / 12,
        support=(low, high),
    )


def exponential(mean: float) -> Arm:
    """Density exp(-x / mean) / mean on x > 0.

    >>> exponential(3.0).variance
    9.0
    """
    mean = positive("mean", mean)
    return make("exponential", {"mean": mean}, mean=mean, variance=mean * mean, support=(0, np.inf))


def pareto(shape: float, scale: float) -> Arm:
    """P[X > x] = (scale / x)^shape for x >= scale; shape > 1 so that the mean exists, variance +inf for shape <= 2.

    >>> pareto(3.0, 2.0)
    pareto(shape=3.0, scale=2.0)
    >>> pareto(3.0, 2.0).mean
    3.0
    """
    shape, scale = checks.number("shape", shape, low=1, open_low=True), positive("scale", scale)
    mean = scale * shape / (shape - 1)
    variance = np.inf if shape <= 2 else mean * (scale / (shape - 1) / (shape - 2))
    return make("pareto", {"shape": shape, "scale": scale}, mean=mean, variance=variance, support=(scale, np.inf))
