"""Every reward law, with the same law in scipy. A new law gets one line here."""

import numpy as np
import pytest
from scipy import integrate, stats

from eljax.arms import (
    Bandit,
    bernoulli,
    beta,
    clipped_gaussian,
    discrete,
    empirical,
    exponential,
    gamma,
    gaussian,
    laplace,
    pareto,
    student_t,
    two_point,
    uniform,
)

N = 20_000  # rewards drawn where a law is looked at as a distribution


class Clipped:
    """A law of scipy clipped to [low, high], with the part of its interface that is used here."""

    def __init__(self, law, low, high):
        self.law, self.low, self.high = law, low, high

    def cdf(self, x):
        return np.where(x < self.low, 0.0, np.where(x >= self.high, 1.0, self.law.cdf(x)))

    def ppf(self, p):
        return np.clip(self.law.ppf(p), self.low, self.high)

    def isf(self, p):
        return np.clip(self.law.isf(p), self.low, self.high)

    def support(self):
        return self.low, self.high

    def stats(self, moments):
        """From the survival function S: E X = low + ∫ S, and E (X − c)² about c = E X likewise."""
        area = lambda f: integrate.quad(f, self.low, self.high, epsabs=0, epsrel=1e-13, limit=200)[0]  # noqa: E731
        mean = self.low + area(self.law.sf)
        return mean, (self.low - mean) ** 2 + area(lambda x: 2 * (x - mean) * self.law.sf(x))


# (arm, the same law in scipy); a new law goes here
LAWS = {
    "gaussian": (gaussian(-3, 2), stats.norm(-3, 2)),
    "clipped_gaussian": (clipped_gaussian(0.6, 0.5), Clipped(stats.norm(0.6, 0.5), 0.0, 1.0)),
    "clipped_gaussian_off": (clipped_gaussian(-9, 4, -8, 50), Clipped(stats.norm(-9, 4), -8.0, 50.0)),
    "laplace": (laplace(1, 0.5), stats.laplace(1, 0.5)),
    "uniform": (uniform(-1, 3), stats.uniform(-1, 4)),
    "exponential": (exponential(7), stats.expon(scale=7)),
    "pareto": (pareto(4.5, 2), stats.pareto(4.5, scale=2)),
    "student_t": (student_t(5, mean=1, scale=2), stats.t(5, 1, 2)),
    "beta": (beta(3, 2, scale=50), stats.beta(3, 2, scale=50)),
    "beta_u_shaped": (beta(0.3, 0.6), stats.beta(0.3, 0.6)),
    "beta_arcsine": (beta(0.5, 0.5), stats.beta(0.5, 0.5)),
    "beta_narrow": (beta(1e4, 1), stats.beta(1e4, 1)),
    "gamma": (gamma(2.5, 4), stats.gamma(2.5, scale=4)),
    "gamma_spiked": (gamma(0.3, 1), stats.gamma(0.3)),
}
SAMPLES = np.random.default_rng(5).gamma(2, size=2_000)
ATOMIC = {
    "bernoulli": bernoulli(0.3),
    "bernoulli_rare": bernoulli(0.001),
    "two_point": two_point([5, -1], [0.2, 0.8]),
    "discrete": discrete([4, 0, 1, 9, 2], [0.1, 0.2, 0, 0.3, 0.4]),
    "discrete_many": discrete(np.arange(300), np.arange(300) / (299 * 150)),
    "empirical_ties": empirical([3, 1, 3, 2, 3]),
}
CONTINUOUS = [pytest.param(*pair, id=name) for name, pair in LAWS.items()]
DTYPES = [np.float32, np.float64]


def draw(arm, dtype, n=N, seed=11):
    return Bandit([arm]).rewards(seed=seed, run=0, arm=0, pulls=n, dtype=dtype)
