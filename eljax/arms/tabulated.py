"""Laws without a closed quantile: beta, gamma, student_t, from tables made once per parameter in float64 by scipy.

                        tabulated g(p), both tails                       reward
    beta(a, b, scale)   logit Q(p) - centre                              scale / (1 + e^-(g + centre))
    gamma(shape, scale) log Q(p) - centre                                scale e^(g + centre)
    student_t(df)       Q(p), lower tail                                 mean ± scale g

logit and log are nearly linear in log p far out, so the relative error of the distance to an end of the support stays
small; the centre is that of the median (within ±40), which keeps float32 precise where g is small. Near 0, where x
itself would underflow, F is proportional to a power: log Q is linear in log p.

Table error in float64, against the exact quantile, for a, b, shape in [0.05, 1e4] and df >= 1.1: at most 1e-9 of the
distance to the nearer end of the support (beta, gamma), or of max(|x - mean|, scale) (student_t); measured 3e-10,
8e-12 and 2e-12. For a and b both below 0.05 a beta's error grows near the median (3e-6 at a = b = 0.01).
In float32 add the rounding: about 1e-7 (1 + |g|) of the same distances.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from eljax import checks
from eljax.arms import tables
from eljax.arms.base import Arm, make, positive
from eljax.arms.law import register
from eljax.numerics import read

SHAPES = (1e-3, 1e6)  # of beta and gamma
LARGEST_CENTRE = 40.0
NEWTON_STEPS = 3


def _beta(leaves: tuple[jax.Array, ...], slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    scale, odds, table = leaves  # odds = (1 - median) / median
    g = _both_tails(table, slot, p, upper)
    return read(scale, slot) / (1 + read(odds, slot) * jnp.exp(-g))


def _gamma(leaves: tuple[jax.Array, ...], slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    median, table = leaves
    return read(median, slot) * jnp.exp(_both_tails(table, slot, p, upper))


def _student_t(leaves: tuple[jax.Array, ...], slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    mean, scale, table = leaves
    t = tables.evaluate(table, slot * tables.CELLS, p)  # <= 0
    return read(mean, slot) + read(scale, slot) * jnp.where(upper, -t, t)


def _both_tails(table: jax.Array, slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    return tables.evaluate(table, (2 * slot + upper.astype(jnp.int32)) * tables.CELLS, p)


def _stack_beta(arms: list[Arm]) -> tuple[np.ndarray, ...]:
    made = [_beta_table(float(arm.parameters["a"]), float(arm.parameters["b"])) for arm in arms]
    scale = np.array([arm.parameters["scale"] for arm in arms])
    return scale, np.exp([-centre for centre, _ in made]), np.concatenate([table for _, table in made])


def _stack_gamma(arms: list[Arm]) -> tuple[np.ndarray, ...]:
    made = [_gamma_table(float(arm.parameters["shape"])) for arm in arms]
    scale = np.array([arm.parameters["scale"] for arm in arms])
    return scale * np.exp([centre for centre, _ in made]), np.concatenate([table for _, table in made])


def _stack_student_t(arms: list[Arm]) -> tuple[np.ndarray, ...]:
    mean, scale = (np.array([arm.parameters[key] for arm in arms]) for key in ("mean", "scale"))
    return mean, scale, np.concatenate([_student_t_table(float(arm.parameters["df"])) for arm in arms])


register("beta", stack=_stack_beta, quantile=_beta, open_support=True)
register("gamma", stack=_stack_gamma, quantile=_gamma, open_support=True)
register("student_t", stack=_stack_student_t, quantile=_student_t)


@functools.lru_cache(maxsize=256)
def _beta_table(a: float, b: float) -> tuple[float, np.ndarray]:
    return _centred(lambda p, upper: logit_beta(p, upper, a, b))


@functools.lru_cache(maxsize=256)
def _gamma_table(shape: float) -> tuple[float, np.ndarray]:
    return _centred(lambda p, upper: log_gamma(p, upper, shape))


@functools.lru_cache(maxsize=256)
def _student_t_table(df: float) -> np.ndarray:
    return tables.build(lambda p: _student_t_lower(p, df))


def _centred(function) -> tuple[float, np.ndarray]:
    centre = float(np.clip(function(np.array([0.5]), False)[0], -LARGEST_CENTRE, LARGEST_CENTRE))
    halves = [tables.build(lambda p, upper=upper: function(p, upper) - centre) for upper in (False, True)]
    return centre, np.concatenate(halves)  # [2 CELLS, DEGREE + 1]


def logit_beta(p: np.ndarray, upper: bool, a: float, b: float) -> np.ndarray:
    """log(x / (1 - x)) of the quantile x of Beta(a, b), of increasing masses p, to a few 1e-14.

    scipy's inverse (relative error of p up to 5e-6 at a = 1e6, b = 0.05) at 400 points, then Newton steps with its
    distribution function; each of x and 1 - x enters the one that is precise in it.
    """
    if upper:
        return -logit_beta(p, False, b, a)

    def start(q: np.ndarray) -> np.ndarray:
        x = special.betaincinv(a, b, q)
        right, logit = x >= 0.5, special.logit(x)
        logit[right] = -special.logit(special.betainccinv(b, a, q[right]))
        return logit

    def cdf(logit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        left = logit < 0
        mass = np.empty_like(logit)
        mass[left] = special.betainc(a, b, special.expit(logit[left]))
        mass[~left] = special.betaincc(b, a, special.expit(-logit[~left]))
        slope = np.exp(a * special.log_expit(logit) + b * special.log_expit(-logit) - special.betaln(a, b))
        return mass, slope

    tip = 1e-18 / (1 + b)  # below it F(x) is proportional to x^a to rounding
    return _invert(p, start, cdf, np.log(tip), special.betainc(a, b, tip), a)


def log_gamma(p: np.ndarray, upper: bool, shape: float) -> np.ndarray:
    """log of the quantile of the gamma law of scale 1, of increasing masses p, likewise."""
    inverse, distribution = (
        (special.gammainccinv, special.gammaincc) if upper else (special.gammaincinv, special.gammainc)
    )

    def cdf(log_x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.exp(log_x)
        slope = np.exp(shape * log_x - x - special.gammaln(shape))
        return distribution(shape, x), -slope if upper else slope

    tip = 1e-18
    below = 0.0 if upper else special.gammainc(shape, tip)
    return _invert(p, lambda q: np.log(inverse(shape, q)), cdf, np.log(tip), below, shape)


def _invert(p: np.ndarray, start, cdf, log_tip: float, p_tip: float, power: float) -> np.ndarray:
    """Solve F = p for the transformed x: exactly a power law up to p_tip = F(tip), by Newton on log F beyond."""
    log_p, result = np.log(p), np.empty_like(p)
    tip = p <= p_tip
    if tip.any():
        result[tip] = log_tip + (log_p[tip] - np.log(p_tip)) / power
    target = log_p[~tip]
    if target.size:
        knots = np.linspace(target.min(), target.max(), 400)
        z = np.interp(target, knots, start(np.minimum(np.exp(knots), 0.5)))
        for _ in range(NEWTON_STEPS):
            mass, slope = cdf(z)
            z = z + (target - np.log(mass)) * mass / slope
        result[~tip] = z
    return result


def _student_t_lower(p: np.ndarray, df: float) -> np.ndarray:
    """-sqrt(df (1 - z) / z), z the quantile of Beta(df/2, 1/2) at 2p: precise far out and near 0."""
    root = np.zeros_like(p)  # at p = 1/2
    far, near = p < 0.25, (p >= 0.25) & (p < 0.5)
    root[far] = np.exp(-logit_beta(2 * p[far], False, df / 2, 0.5) / 2)
    root[near] = np.exp(-logit_beta(1 - 2 * p[near], True, df / 2, 0.5) / 2)
    return -np.sqrt(df) * root


def beta(a: float, b: float, scale: float = 1.0) -> Arm:
    """scale · Beta(a, b) on (0, scale); a, b in [1e-3, 1e6]. Table error: see the module.

    >>> beta(3, 2, scale=50).mean
    30.0
    """
    a, b = (positive(name, x, low=SHAPES[0], high=SHAPES[1]) for name, x in (("a", a), ("b", b)))
    scale = positive("scale", scale)
    total = a + b
    variance = (scale / total) * (scale / total) * (a * b / (total + 1))  # +inf where ** would raise
    return make(
        "beta",
        {"a": a, "b": b, "scale": scale},
        mean=scale * a / total,
        variance=variance,
        support=(0, scale),
    )


def gamma(shape: float, scale: float) -> Arm:
    """Density ∝ x^(shape - 1) e^(-x / scale) on x > 0; shape in [1e-3, 1e6]. Table error: see the module.

    >>> gamma(4, 0.5).mean, gamma(4, 0.5).variance
    (2.0, 1.0)
    """
    shape, scale = positive("shape", shape, low=SHAPES[0], high=SHAPES[1]), positive("scale", scale)
    mean = shape * scale
    return make("gamma", {"shape": shape, "scale": scale}, mean=mean, variance=mean * scale, support=(0, np.inf))


def student_t(df: float, mean: float = 0.0, scale: float = 1.0) -> Arm:
    """mean + scale · t with df > 1 degrees of freedom (at most 1e6); variance +inf for df <= 2. Error: see the module.

    >>> student_t(4, scale=3).variance
    18.0
    """
    df = checks.number("df", df, low=1, high=SHAPES[1], open_low=True)
    mean, scale = checks.number("mean", mean), positive("scale", scale)
    variance = np.inf if df <= 2 else scale * scale * df / (df - 2)
    return make("student_t", {"df": df, "mean": mean, "scale": scale}, mean=mean, variance=variance)
