"""What it costs the rewards of an arm that its EL index stays below a level u: the rate function of a regret tail.

After n pulls the index of radius C is at most u iff some λ > 0 has Σ log(1 − λ(X_i − u)) ≥ C, each factor positive (the
dual). By a Chernoff bound in θ for each λ, and the best λ, the probability is e^{−I} up to a power of n:

    I = min over λ > 0 of sup over θ ≥ 0 of [ θ C − n log E (1 − λ(X − u))₊^θ ]

The law under which that happens is dQ*/dP ∝ (1 − λ(x − u))₊^θ. For Gaussian arms, with D = (m − u)/σ and b = √(2C/n)

    I ≈ n [ (D + s b)²/2 + (s² − 1)/2 − log s ],   s = (−D b + √(D² b² + 4 (1 + b²))) / (2 (1 + b²))

is the least cost of a sample with mean + b standard deviations at u: its EL index to second order (`gaussian_rate`).
At C = 0 both are n times the large-deviation rate of the mean.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from eljax import checks
from eljax.arms import Arm

PANELS, NODES = 60, 8  # of the integral over log p, in each tail
NEVER = 1e100  # the cost of what cannot be: a number, so that minimisers can go by it
LEAST, MOST, STEPS = -14.0, 6.0, 61  # log λ, in units of one over the spread of the rewards, and first look at it


class Rate(NamedTuple):
    """The cheapest way for an index to stay below a level."""

    value: float  # I in nats
    mean: float  # of Q*
    multiplier: float  # λ
    power: float  # θ


def rate_function(arm: Arm, *, level: float, radius: float, pulls: float) -> Rate:
    """I for `arm` and the level u, after n = `pulls` rewards, with radius C; 0 if its mean is not above u.

    Expectations are integrals over the arm's quantile function between its quantiles 2^-64 and 1 − 2^-64.

    ValueError: an argument out of range, or a level not above the smallest reward.

    Example:
      >>> import eljax
      >>> found = rate_function(eljax.gaussian(1.0, 1.0), level=0.0, radius=0.0, pulls=20.0)
      >>> round(found.value, 3), abs(found.mean) < 1e-4  # n Δ²/2σ², at mean u
      (10.0, True)
    """
    if not isinstance(arm, Arm):
        checks.fail("arm", arm, "a reward law, such as eljax.gaussian(0.0, 1.0)")
    level, radius = checks.number("level", level), checks.number("radius", radius, low=0.0)
    n = checks.number("pulls", pulls, low=0.0, open_low=True)
    if level >= arm.mean:
        return Rate(0.0, arm.mean, 0.0, 0.0)
    if level <= arm.support[0]:
        checks.fail("level", level, f"above the smallest reward {arm.support[0]:g} of {arm!r}")
    x, log_mass = _masses(arm)
    y = x - level
    bulk = np.clip(y, *np.quantile(y, [0.05, 0.95]))
    bulk = bulk if bulk.any() else y
    spread = np.abs(bulk).max() * np.sqrt(np.exp(log_mass) @ (bulk / np.abs(bulk).max()) ** 2)

    def at(log_multiplier: float) -> tuple[float, float]:
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = np.log1p(-np.exp(log_multiplier) * y / spread)
        inside = np.isfinite(logs)
        return _chernoff(logs[inside], log_mass[inside], radius, n)

    grid = np.linspace(LEAST, MOST, STEPS)
    k = int(np.argmin([at(step)[0] for step in grid]))
    ends = grid[max(k - 1, 0)], grid[min(k + 1, STEPS - 1)]
    best = optimize.minimize_scalar(lambda z: at(z)[0], bounds=ends, method="bounded", options={"xatol": 1e-6}).x
    value, power = at(best)
    multiplier = float(np.exp(best) / spread)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where(multiplier * y < 1, power * np.log1p(-multiplier * y), -np.inf) + log_mass
    mean = float(np.exp(logs - special.logsumexp(logs)) @ x)
    return Rate(value, mean, multiplier, power)


def gaussian_rate(distance: float, width: float) -> tuple[float, float]:
    """(I/n, s) of a Gaussian arm: D = `distance` standard deviations above the level, b = `width` = √(2C/n)."""
    d, b = distance, width
    s = (-d * b + math.sqrt(d**2 * b**2 + 4 * (1 + b**2))) / (2 * (1 + b**2))
    return (d + s * b) ** 2 / 2 + (s**2 - 1) / 2 - math.log(s), s


def _chernoff(logs: np.ndarray, log_mass: np.ndarray, radius: float, n: float) -> tuple[float, float]:
    """(sup over θ ≥ 0 of θ C − n log E a^θ, that θ), from log a of the values with a > 0; concave in θ."""

    def slope(power: float) -> float:
        weights = power * logs + log_mass
        return radius - n * float(np.exp(weights - special.logsumexp(weights)) @ logs)

    power, high = 0.0, 1.0
    if slope(0.0) > 0:
        while slope(high) > 0:
            if high > 1e12:  # no root: λ lets the index stay below u at no sample, the cost is infinite
                return NEVER, high
            high *= 4
        power = optimize.brentq(slope, 0.0, high, xtol=1e-12, rtol=1e-10)
    return float(power * radius - n * special.logsumexp(power * logs + log_mass)), float(power)


def _masses(arm: Arm) -> tuple[np.ndarray, np.ndarray]:
    """(values, log probabilities): the atoms, or Gauss–Legendre nodes in log p of either tail."""
    if arm.atoms is not None:
        return arm.atoms[0], np.log(arm.atoms[1])
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    ends = np.linspace(-64 * math.log(2), -math.log(2), PANELS + 1)
    half = (ends[1] - ends[0]) / 2
    log_p = (ends[:-1, None] + half * (1 + nodes)).ravel()
    log_mass = np.log(half * np.tile(weights, PANELS)) + log_p  # ∫ f dp = ∫ f p d(log p)
    p = np.clip(np.exp(log_p), 2.0**-64, 0.5)
    x = np.concatenate([arm.quantile(p), arm.quantile(p, True)])
    log_mass = np.concatenate([log_mass, log_mass])
    return x, log_mass - special.logsumexp(log_mass)
