"""Tilted reward laws: the same family with another mean or spread, and log dQ/dP of a reward.

All ratios used here are linear in a few statistics of x (1, x, x², log x, log(1 − unit·x)), so that a path's ratio is
five numbers per arm times sums of statistics:

    gaussian      N(m', s'):  quadratic in x                exponential, gamma    another scale: linear in x
    beta          Beta(a', b'): log x and log(1 − x)         pareto                another shape: log x
    finite        p(v) e^(θ v − Λ(θ)): linear in x           (bernoulli, two_point, discrete, empirical)
    uniform, laplace   density times e^(θ x − Λ(θ)), laws of their own (`arms.tilted`)
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from eljax import arms, checks
from eljax.arms import Arm


class Tilt(NamedTuple):
    """A law Q to draw from instead of P."""

    arm: Arm  # Q
    ratio: np.ndarray  # [5]: coefficients of log dQ/dP in 1, x, x², log x, log(1 − unit·x)


def unit(arm: Arm) -> float:
    """What log(1 − unit·x) means for this arm."""
    return 1 / float(arm.parameters["scale"]) if arm.family == "beta" else 0.0


def none(arm: Arm) -> Tilt:
    """The law itself."""
    return Tilt(arm, np.zeros(5))


def to_mean(arm: Arm, mean: float) -> Tilt:
    """The tilt of `arm` with the given mean: exponential where the family has it, else the nearest in the family.

    ValueError where the family has none: a mean outside the support, constant or Student t arms.
    """
    family = "finite" if arm.atoms is not None else arm.family
    if family not in _TO_MEAN:
        checks.fail("arm", arm, f"of a family that can be tilted ({', '.join(_TO_MEAN)}); use splitting for others")
    if not arm.support[0] < mean < arm.support[1]:
        checks.fail("mean", mean, f"inside the support {arm.support} of {arm!r}")
    return _TO_MEAN[family](arm, float(mean))


def to_index(arm: Arm, value: float, width: float) -> Tilt:
    """The tilt whose mean + `width` standard deviations is `value`: so bad that a bonus does not bring it back.

    For a Gaussian arm the one of least relative entropy over mean and spread together (`width` = b = √(2C/n)):
    D = (m − value)/σ, s = (−D b + √(D² b² + 4 (1 + b²))) / (2 (1 + b²)), Q = N(value − s b σ, (s σ)²).
    """
    if arm.family == "gaussian":
        m, sigma = (float(arm.parameters[key]) for key in ("mean", "sigma"))
        distance = (m - value) / sigma
        s = (-distance * width + np.sqrt((distance * width) ** 2 + 4 * (1 + width**2))) / (2 * (1 + width**2))
        return _gaussian(arm, value - s * width * sigma, s * sigma)
    low, high = arm.support[0], min(value, arm.support[1])
    low = low if np.isfinite(low) else value - (1 + width) * 10 * np.sqrt(arm.variance)

    def excess(share: float) -> float:
        tilted = to_mean(arm, low + share * (high - low)).arm
        return tilted.mean + width * np.sqrt(tilted.variance) - value

    least, most = 1e-3, 1 - 1e-9
    if excess(least) > 0:  # even almost constant rewards keep too high an index: the nearest there is
        return to_mean(arm, low + least * (high - low))
    share = optimize.brentq(excess, least, most, xtol=1e-6) if excess(most) > 0 else most
    return to_mean(arm, low + share * (high - low))


def _gaussian(arm: Arm, mean: float, sigma: float) -> Tilt:
    m, s = (float(arm.parameters[key]) for key in ("mean", "sigma"))
    constant = np.log(s / sigma) + m**2 / (2 * s**2) - mean**2 / (2 * sigma**2)
    linear, square = mean / sigma**2 - m / s**2, 1 / (2 * s**2) - 1 / (2 * sigma**2)
    return Tilt(arms.gaussian(mean, sigma), np.array([constant, linear, square, 0, 0]))


def _exponential(arm: Arm, mean: float) -> Tilt:
    return Tilt(arms.exponential(mean), np.array([np.log(arm.mean / mean), 1 / arm.mean - 1 / mean, 0, 0, 0]))


def _gamma(arm: Arm, mean: float) -> Tilt:
    shape, scale = (float(arm.parameters[key]) for key in ("shape", "scale"))
    other = mean / shape
    ratio = np.array([shape * np.log(scale / other), 1 / scale - 1 / other, 0, 0, 0])
    return Tilt(arms.gamma(shape, other), ratio)


def _pareto(arm: Arm, mean: float) -> Tilt:
    shape, scale = (float(arm.parameters[key]) for key in ("shape", "scale"))
    other = mean / (mean - scale)
    ratio = np.array([np.log(other / shape) + (other - shape) * np.log(scale), 0, 0, shape - other, 0])
    return Tilt(arms.pareto(other, scale), ratio)


def _beta(arm: Arm, mean: float) -> Tilt:
    """Of all Beta(a', b') with this mean the one of least KL(Q, P)."""
    a, b, scale = (float(arm.parameters[key]) for key in ("a", "b", "scale"))
    share = mean / scale

    def divergence(log_total: float) -> float:
        total = np.exp(log_total)
        x, y = share * total, (1 - share) * total
        psi = special.digamma
        return (
            special.betaln(a, b) - special.betaln(x, y)
            + (x - a) * psi(x) + (y - b) * psi(y) + (a - x + b - y) * psi(total)
        )  # fmt: skip

    centre = np.log(a + b)
    total = np.exp(optimize.minimize_scalar(divergence, bounds=(centre - 2, centre + 2), method="bounded").x)
    x, y = share * total, (1 - share) * total
    powers = np.array([x - a, y - b])
    constant = special.betaln(a, b) - special.betaln(x, y) - powers[0] * np.log(scale)
    return Tilt(arms.beta(x, y, scale), np.array([constant, 0, 0, *powers]))


def _finite(arm: Arm, mean: float) -> Tilt:
    values, probs = arm.atoms
    span = values[-1] - values[0]
    centred = (values - arm.mean) / span  # θ in units of 1/span: scale-free

    def log_probs(theta: float) -> np.ndarray:
        logs = np.log(probs) + theta * centred
        return logs - special.logsumexp(logs)

    excess = lambda theta: np.exp(log_probs(theta)) @ values - mean  # noqa: E731
    low, high = -1.0, 1.0
    while excess(low) > 0:
        low *= 2
    while excess(high) < 0:
        high *= 2
    theta = optimize.brentq(excess, low, high, xtol=1e-12, rtol=1e-12)
    tilted = np.exp(log_probs(theta))
    keep = tilted > 0
    log_mgf = special.logsumexp(np.log(probs) + theta * centred)
    ratio = np.array([-log_mgf - theta * arm.mean / span, theta / span, 0, 0, 0])
    return Tilt(arms.discrete(values[keep], tilted[keep] / tilted[keep].sum()), ratio)


def _laplace(arm: Arm, mean: float) -> Tilt:
    m, scale = (float(arm.parameters[key]) for key in ("mean", "scale"))
    shift = (mean - m) / scale  # = 2τ/(1 − τ²) with τ = θ·scale
    tau = shift / (1 + np.sqrt(1 + shift**2))
    ratio = np.array([np.log1p(-(tau**2)) - tau * m / scale, tau / scale, 0, 0, 0])
    return Tilt(arms.tilted.tilted_laplace(m, scale, tau), ratio)


def _uniform(arm: Arm, mean: float) -> Tilt:
    low, high = (float(arm.parameters[key]) for key in ("low", "high"))
    share = (mean - low) / (high - low)
    if share == 0.5:
        return none(arm)
    most = arms.tilted.LARGEST_TILT
    least, most_share = arms.tilted.uniform_mean(-most), arms.tilted.uniform_mean(most)
    share = min(max(share, least), most_share)  # next to an end of the support: the furthest there is
    tau = optimize.brentq(lambda tau: arms.tilted.uniform_mean(tau) - share, -most, most, xtol=1e-12, rtol=1e-12)
    log_mgf = arms.tilted.uniform_log_mgf(tau)  # of (x − low)/(high − low)
    width = high - low
    return Tilt(
        arms.tilted.tilted_uniform(low, high, tau), np.array([-log_mgf - tau * low / width, tau / width, 0, 0, 0])
    )


_TO_MEAN = {
    "gaussian": lambda arm, mean: _gaussian(arm, mean, float(arm.parameters["sigma"])),
    "exponential": _exponential,
    "gamma": _gamma,
    "pareto": _pareto,
    "beta": _beta,
    "finite": _finite,
    "laplace": _laplace,
    "uniform": _uniform,
}
