"""Exponentially tilted uniform and Laplace laws, which importance sampling draws from: density times e^(θ x − Λ(θ)).

In standard units, with τ = θ · (width or scale):

    uniform on (0, 1):  τ e^(τ y) / (e^τ − 1)          P[Y ≤ y] = expm1(τ y)/expm1(τ)
    Laplace:            (1 − τ²)/2 · e^(τ y − |y|)     P[Y < 0] = (1 − τ)/2, |τ| < 1

The tilts of the other families are laws of the same family; `tails.tilts` has them all.
"""

import jax
import jax.numpy as jnp
import numpy as np

from eljax import checks
from eljax.arms.base import Arm, make
from eljax.arms.law import register_closed_form

LARGEST_TILT = 600.0  # e^τ is finite in float64


def _tilted_uniform(p: jax.Array, upper: jax.Array, low: jax.Array, high: jax.Array, tau: jax.Array) -> jax.Array:
    signed = jnp.where(upper, -tau, tau)  # seen from the nearer end
    step = (high - low) * jnp.log1p(p * jnp.expm1(signed)) / signed
    return jnp.where(upper, high - step, low + step)


def _tilted_laplace(p: jax.Array, upper: jax.Array, mean: jax.Array, scale: jax.Array, tau: jax.Array) -> jax.Array:
    signed = jnp.where(upper, -tau, tau)  # as if p were the mass below
    outer = jnp.log(2 * p / (1 - signed)) / (1 + signed)
    inner = -jnp.log(2 * (1 - p) / (1 + signed)) / (1 - signed)
    y = jnp.where(2 * p < 1 - signed, outer, inner)
    return mean + scale * jnp.where(upper, -y, y)


register_closed_form("tilted_uniform", _tilted_uniform, ("low", "high", "tau"), open_support=True)
register_closed_form("tilted_laplace", _tilted_laplace, ("mean", "scale", "tau"), open_support=False)


def tilted_uniform(low: float, high: float, tau: float) -> Arm:
    """Density ∝ e^(τ (x − low)/(high − low)) on (low, high), τ ≠ 0.

    >>> round(tilted_uniform(0.0, 1.0, -2.0).mean, 4)
    0.3435
    """
    tau = checks.number("tau", tau, low=-LARGEST_TILT, high=LARGEST_TILT)
    if tau == 0:
        checks.fail("tau", tau, "not 0, which is the uniform law")
    width, share = high - low, uniform_mean(tau)
    if abs(tau) < 0.05:  # the two terms below cancel; the next one here is τ⁴/6048
        square = 1 / 12 - tau**2 / 240
    else:
        square = 1 / tau**2 - 1 / (4 * np.sinh(tau / 2) ** 2)
    return make(
        "tilted_uniform",
        {"low": low, "high": high, "tau": tau},
        mean=low + width * share,
        variance=width**2 * square,
        support=(low, high),
    )


def uniform_mean(tau: float) -> float:
    """Mean of the tilted uniform law on (0, 1)."""
    if abs(tau) < 1e-3:  # the next term is τ³/720
        return 0.5 + tau / 12
    return float(-1 / np.expm1(-tau) - 1 / tau)


def tilted_laplace(mean: float, scale: float, tau: float) -> Arm:
    """Density ∝ e^(τ y − |y|), y = (x − mean)/scale, |τ| < 1.

    >>> round(tilted_laplace(0.0, 1.0, -0.5).mean, 4)
    -1.3333
    """
    tau = checks.number("tau", tau, low=-1.0, high=1.0)
    if abs(tau) == 1:
        checks.fail("tau", tau, "in (-1, 1)")
    return make(
        "tilted_laplace",
        {"mean": mean, "scale": scale, "tau": tau},
        mean=mean + scale * 2 * tau / (1 - tau**2),
        variance=scale**2 * (1 / (1 - tau) ** 2 + 1 / (1 + tau) ** 2),
    )
