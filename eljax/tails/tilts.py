"""Tilted reward laws to draw from instead of P: exponential tilts, by a few statistics, and their likelihood ratios.

With u = (x − mean)/sd of P, and S(x) some of u, u², log x, log(1 − x/scale), the tilt of natural parameter η is

    log dQ/dP (x) = η · S(x) − A(η),     A(η) = log E_P e^{η · S}

so a path's ratio needs only the sums of the statistics, and for each family Q is again a law to draw from:

    gaussian               u, u²                   another mean and spread
    exponential, gamma     u                       another scale
    beta                   log x, log(1 − x/scale) other powers
    pareto                 log x                   another power
    finite laws            u                       p(v) e^{η u}: bernoulli, two_point, discrete, empirical
    uniform, laplace       u                       laws of their own (`arms.tilted`)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, logsumexp
from scipy import optimize, special

from eljax import arms, checks
from eljax.arms import Arm
from eljax.tails import rate

STATISTICS = 4  # u, u², log x, log(1 − x/scale)
ROOT_3 = 3**0.5
LEAST_SHARE = 1e-6  # of the way from the smallest reward to the mean that a tilted mean keeps


class Tilt(NamedTuple):
    """A law Q to draw from instead of P."""

    arm: Arm  # Q
    ratio: np.ndarray  # [1 + STATISTICS]: −A(η), η


class Family(NamedTuple):
    """The tilts of one family; η holds the statistics that it uses."""

    used: tuple[int, ...]  # which statistics
    log_mgf: Callable[[Arm, Any], Any]  # (P, η) -> A(η), traceable in η; NaN or inf outside its domain
    law: Callable[[Arm, np.ndarray], Arm]  # (P, η) -> Q
    to_mean: Callable[[Arm, float], np.ndarray]  # (P, mean inside the support) -> η of the tilt with this mean
    between: Callable[[Arm, Arm], np.ndarray] | None = None  # (P, Q) -> η


def standard(arm: Arm) -> tuple[float, float, float]:
    """(centre, scale) of u and what log(1 − unit·x) is taken with."""
    deviation = spread(arm)
    unit = 1 / float(arm.parameters["scale"]) if arm.family == "beta" else 0.0
    return (arm.mean, deviation, unit) if 0 < deviation < np.inf else (0.0, 1.0, unit)


def spread(arm: Arm) -> float:
    """The standard deviation, in the widest range: a variance of 1e±340 is none in float64."""
    if arm.atoms is not None:
        values, probs = arm.atoms
        width = float(np.ptp(values)) or 1.0
        return float(np.sqrt(probs @ ((values - arm.mean) / width) ** 2)) * width
    known = SPREADS.get(arm.family)
    return float(known(arm)) if known else float(np.sqrt(arm.variance))


def family(arm: Arm) -> Family:
    """ValueError where there is none: Student t arms, for instance."""
    name = name_of(arm)
    if name not in FAMILIES:
        checks.fail("arm", arm, f"of a family that can be tilted ({', '.join(FAMILIES)}); use splitting for others")
    return FAMILIES[name]


def can_move(arm: Arm) -> bool:
    """Whether there are other tilts of the arm than itself."""
    return name_of(arm) in FAMILIES and spread(arm) > 0


def name_of(arm: Arm) -> str:
    """The arm's key in FAMILIES, if it is there."""
    return "finite" if arm.atoms is not None else arm.family


def statistics(x: jax.Array, centre: jax.Array, scale: jax.Array, unit: jax.Array, powers: bool) -> tuple:
    """The statistics of a reward x, on the device: u and u², with `powers` also log x and log(1 − unit·x)."""
    u = (x - centre) / scale
    return (u, u * u, jnp.log(jnp.where(x > 0, x, 1)), jnp.log1p(-unit * x)) if powers else (u, u * u)


def none(arm: Arm) -> Tilt:
    """The law itself."""
    return Tilt(arm, np.zeros(1 + STATISTICS))


def natural(arm: Arm, eta: np.ndarray) -> Tilt:
    """The tilt of natural parameter η, which holds the statistics that the family uses."""
    kind = family(arm)
    ratio = np.zeros(1 + STATISTICS)
    with jax.enable_x64(True):
        ratio[0] = -float(kind.log_mgf(arm, np.asarray(eta, np.float64)))
    ratio[[1 + s for s in kind.used]] = eta
    return Tilt(kind.law(arm, np.asarray(eta, np.float64)), ratio)


def divergences(arm: Arm, tilt: Tilt) -> tuple[float, float]:
    """KL(Q, P) = η · ∇A(η) − A(η) and KL(P, Q) = A(η) − η · ∇A(0)."""
    kind = family(arm)
    with jax.enable_x64(True):
        eta = tilt.ratio[[1 + s for s in kind.used]]
        there, here = (np.asarray(jax.grad(lambda e: kind.log_mgf(arm, e))(e)) for e in (eta, np.zeros_like(eta)))
    return float(eta @ there + tilt.ratio[0]), float(-tilt.ratio[0] - eta @ here)


def to_mean(arm: Arm, mean: float) -> Tilt:
    """The tilt of `arm` with the given mean (for a Beta law, of those the nearest in relative entropy).

    ValueError where the family has none: a mean outside the support, constant or Student t arms.
    """
    kind = family(arm)
    if not arm.support[0] < mean < arm.support[1]:
        checks.fail("mean", mean, f"inside the support {arm.support} of {arm!r}")
    return natural(arm, kind.to_mean(arm, float(mean)))


def to_index(arm: Arm, *, level: float, radius: float, pulls: float) -> Tilt:
    """The tilt nearest to how n rewards look whose EL index of radius C stays below a level (`tails.rate`).

    Mean and spread for a Gaussian arm, Q = N(u − s b σ, s² σ²); the mean of Q* for others. Where Q* has all its mass
    at the smallest reward, nearly all of it: for values that can be told apart, one in n + 1 is better.
    """
    if radius == 0:
        return to_mean(arm, level)
    if arm.family == "gaussian":
        sigma, width = _number(arm, "sigma"), np.sqrt(2 * radius / pulls)
        _, s = rate.gaussian_rate((arm.mean - level) / sigma, width)
        return to_law(arm, arms.gaussian(level - s * width * sigma, s * sigma))
    family(arm)
    mean = rate.rate_function(arm, level=level, radius=radius, pulls=pulls).mean
    least = 1 / (1 + pulls) if arm.atoms is not None else LEAST_SHARE
    return to_mean(arm, max(mean, arm.support[0] + least * (arm.mean - arm.support[0])))


def to_law(arm: Arm, other: Arm) -> Tilt:
    """The tilt that makes `arm` the law `other`; ValueError where none does."""
    kind = family(arm)
    same = other.family == arm.family or (arm.atoms is not None and other.atoms is not None)
    eta = kind.between(arm, other) if same and kind.between is not None else None
    tilt = None if eta is None else natural(arm, eta)
    if tilt is None or not _alike(tilt.arm, other):
        checks.fail("tilt", other, f"a tilt of {arm!r}: of its family, with the same support; or give its mean")
    return tilt


def _alike(first: Arm, second: Arm) -> bool:
    if first.atoms is not None and second.atoms is not None:
        return all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=0)
            for a, b in zip(first.atoms, second.atoms, strict=True)
        )
    return first.family == second.family and all(
        np.allclose(x, second.parameters[name], rtol=1e-9, atol=0) for name, x in first.parameters.items()
    )


def _number(arm: Arm, name: str) -> float:
    return float(arm.parameters[name])


def _gaussian_log_mgf(arm: Arm, eta: Any) -> Any:
    rest = 1 - 2 * eta[1]
    return eta[0] ** 2 / (2 * rest) - jnp.log(rest) / 2


def _gaussian_law(arm: Arm, eta: np.ndarray) -> Arm:
    sigma, rest = _number(arm, "sigma"), 1 - 2 * eta[1]
    return arms.gaussian(_number(arm, "mean") + sigma * eta[0] / rest, sigma / np.sqrt(rest))


def _gaussian_between(arm: Arm, other: Arm) -> np.ndarray:
    sigma = _number(arm, "sigma")
    rest = (sigma / _number(other, "sigma")) ** 2
    return np.array([(other.mean - arm.mean) / sigma * rest, (1 - rest) / 2])


def _gamma_shape(arm: Arm) -> float:
    return _number(arm, "shape") if arm.family == "gamma" else 1.0


def _gamma_log_mgf(arm: Arm, eta: Any) -> Any:
    """x = m (1 + u/√k) of shape k: E e^{ηu} = e^{−η√k} (1 − η/√k)^{−k}."""
    shape = _gamma_shape(arm)
    root = shape**0.5
    return -eta[0] * root - shape * jnp.log1p(-eta[0] / root)


def _gamma_law(arm: Arm, eta: np.ndarray) -> Arm:
    mean = arm.mean / (1 - eta[0] / np.sqrt(_gamma_shape(arm)))
    return (
        arms.exponential(mean)
        if arm.family == "exponential"
        else arms.gamma(_gamma_shape(arm), mean / _gamma_shape(arm))
    )


def _gamma_to_mean(arm: Arm, mean: float) -> np.ndarray:
    return np.array([np.sqrt(_gamma_shape(arm)) * (1 - arm.mean / mean)])


def _pareto_log_mgf(arm: Arm, eta: Any) -> Any:
    shape = _number(arm, "shape")
    return eta[0] * np.log(_number(arm, "scale")) - jnp.log1p(-eta[0] / shape)


def _pareto_law(arm: Arm, eta: np.ndarray) -> Arm:
    return arms.pareto(_number(arm, "shape") - eta[0], _number(arm, "scale"))


def _pareto_to_mean(arm: Arm, mean: float) -> np.ndarray:
    return np.array([_number(arm, "shape") - mean / (mean - _number(arm, "scale"))])


def _beta_log_mgf(arm: Arm, eta: Any) -> Any:
    a, b, scale = (_number(arm, name) for name in ("a", "b", "scale"))
    x, y = a + eta[0], b + eta[1]
    inside = (x > 0) & (y > 0)
    log_beta = betaln(jnp.where(inside, x, 1), jnp.where(inside, y, 1))
    return jnp.where(inside, log_beta, jnp.inf) - special.betaln(a, b) + eta[0] * np.log(scale)


def _beta_law(arm: Arm, eta: np.ndarray) -> Arm:
    return arms.beta(_number(arm, "a") + eta[0], _number(arm, "b") + eta[1], _number(arm, "scale"))


def _beta_spread(a: float, b: float) -> float:
    return np.sqrt(a * b / (a + b + 1)) / (a + b)


def _beta_to_mean(arm: Arm, mean: float) -> np.ndarray:
    """Of all Beta(x, y) with this mean the one of least KL(Q, P)."""
    a, b, scale = (_number(arm, name) for name in ("a", "b", "scale"))
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
    return np.array([share * total - a, (1 - share) * total - b])


def _beta_between(arm: Arm, other: Arm) -> np.ndarray:
    return np.array([_number(other, name) - _number(arm, name) for name in ("a", "b")])


def _finite_log_mgf(arm: Arm, eta: Any) -> Any:
    values, probs = arm.atoms
    centre, scale, _ = standard(arm)
    return logsumexp(np.log(probs) + eta[0] * ((values - centre) / scale))


def _finite_law(arm: Arm, eta: np.ndarray) -> Arm:
    probs = _finite_probs(arm, eta)
    keep = probs > 0
    return arms.discrete(arm.atoms[0][keep], probs[keep] / probs[keep].sum())


def _finite_probs(arm: Arm, eta: np.ndarray) -> np.ndarray:
    values, probs = arm.atoms
    centre, scale, _ = standard(arm)
    return special.softmax(np.log(probs) + eta[0] * ((values - centre) / scale))


def _finite_to_mean(arm: Arm, mean: float) -> np.ndarray:
    excess = lambda eta: _finite_probs(arm, [eta]) @ arm.atoms[0] - mean  # noqa: E731
    low, high = -1.0, 1.0
    while excess(low) > 0:
        low *= 2
    while excess(high) < 0:
        high *= 2
    return np.array([optimize.brentq(excess, low, high, xtol=1e-12, rtol=1e-12)])


def _uniform_to_mean(arm: Arm, mean: float) -> np.ndarray:
    low, high = (_number(arm, name) for name in ("low", "high"))
    most = arms.tilted.LARGEST_TILT
    ends = [arms.tilted.uniform_mean(tau) for tau in (-most, most)]
    share = np.clip((mean - low) / (high - low), *ends)  # next to an end of the support: the furthest there is
    gap = lambda tau: arms.tilted.uniform_mean(tau) - share  # noqa: E731
    return np.array([optimize.brentq(gap, -most, most, xtol=1e-12, rtol=1e-12) / (2 * ROOT_3)])


def _uniform_law(arm: Arm, eta: np.ndarray) -> Arm:
    """u = √3 (2y − 1) on the unit interval: τ = 2√3 η."""
    low, high = (_number(arm, name) for name in ("low", "high"))
    return arm if eta[0] == 0 else arms.tilted.tilted_uniform(low, high, 2 * ROOT_3 * eta[0])


def _uniform_log_mgf(arm: Arm, eta: Any) -> Any:
    """log(sinh z/z), z = √3 η."""
    z = jnp.abs(ROOT_3 * eta[0])
    large = jnp.where(z > 1e-3, z, 1.0)  # the next term of the series is z⁶/2835
    return jnp.where(z > 1e-3, large + jnp.log(-jnp.expm1(-2 * large) / (2 * large)), z**2 / 6 - z**4 / 180)


def _laplace_to_mean(arm: Arm, mean: float) -> np.ndarray:
    shift = (mean - arm.mean) / _number(arm, "scale")  # = 2τ/(1 − τ²), τ = η/√2
    return np.array([2**0.5 * shift / (1 + np.sqrt(1 + shift**2))])


def _laplace_law(arm: Arm, eta: np.ndarray) -> Arm:
    return arms.tilted.tilted_laplace(arm.mean, _number(arm, "scale"), eta[0] / 2**0.5)


SPREADS: dict[str, Callable[[Arm], float]] = {
    "gaussian": lambda arm: _number(arm, "sigma"),
    "exponential": lambda arm: arm.mean,
    "gamma": lambda arm: np.sqrt(_gamma_shape(arm)) * _number(arm, "scale"),
    "laplace": lambda arm: np.sqrt(2) * _number(arm, "scale"),
    "uniform": lambda arm: (_number(arm, "high") - _number(arm, "low")) / np.sqrt(12),
    "beta": lambda arm: _number(arm, "scale") * _beta_spread(_number(arm, "a"), _number(arm, "b")),
}
_GAMMA = Family((0,), _gamma_log_mgf, _gamma_law, _gamma_to_mean, lambda p, q: _gamma_to_mean(p, q.mean))
FAMILIES = {
    "gaussian": Family(
        (0, 1),
        _gaussian_log_mgf,
        _gaussian_law,
        lambda arm, mean: np.array([(mean - arm.mean) / _number(arm, "sigma"), 0.0]),
        _gaussian_between,
    ),
    "exponential": _GAMMA,
    "gamma": _GAMMA,
    "pareto": Family((2,), _pareto_log_mgf, _pareto_law, _pareto_to_mean, lambda p, q: _pareto_to_mean(p, q.mean)),
    "beta": Family((2, 3), _beta_log_mgf, _beta_law, _beta_to_mean, _beta_between),
    "finite": Family((0,), _finite_log_mgf, _finite_law, _finite_to_mean, lambda p, q: _finite_to_mean(p, q.mean)),
    "uniform": Family((0,), _uniform_log_mgf, _uniform_law, _uniform_to_mean),
    "laplace": Family((0,), lambda _, eta: -jnp.log1p(-(eta[0] ** 2) / 2), _laplace_law, _laplace_to_mean),
}
