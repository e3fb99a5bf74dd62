"""Unbiased derivatives of the hard simulation in the arms' parameters, by the likelihood ratio (score function).

Glynn, "Likelihood ratio gradient estimation for stochastic systems" (1990). Decisions depend on θ through the rewards
alone, so with the score s = ∂/∂θ log p_θ(rewards of the run), a sum over the pulls of the arm that θ belongs to,

    ∂/∂θ P[R(T) > x] = E[1{R(T) > x} s]
    ∂/∂θ E[R(T)]     = E[R(T) s] + E[Σ_i N_i ∂Δ_i/∂θ]

E[s] = 0, so either first term is a covariance, and the sample covariance over the runs is an unbiased estimate of it
with far less spread than the plain mean. Scores are affine in the sums of a few statistics (`tails.tilts`): with the
natural parameter η, ∂/∂η log p = Σ S − N ∇A. Parameters whose scores are not (of uniform, Laplace and Student laws, and
probabilities of more than two values) are left out. The spread of s grows like √T: these are gradients for short
horizons, or for arms that are seldom pulled; for smooth laws and long horizons see `eljax.relaxed`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from scipy import special

from eljax import checks
from eljax.arms import Arm, Bandit, parametric
from eljax.tails import paths, tilts
from eljax.types import Policy

# (pulls, sums of u, u², log x and log(1 − x/scale), sd, parameters) -> score by parameter, arrays [R]
Scores = Callable[..., dict[str, np.ndarray]]


def _gaussian(n, u, u2, log_x, log_rest, sd, q):
    return {"mean": u / sd, "sigma": (u2 - n) / sd}


def _exponential(n, u, u2, log_x, log_rest, sd, q):
    return {"mean": u / q["mean"]}


def _gamma(n, u, u2, log_x, log_rest, sd, q):
    shape, scale = q["shape"], q["scale"]
    return {"shape": log_x - n * (special.psi(shape) + np.log(scale)), "scale": u * np.sqrt(shape) / scale}


def _pareto(n, u, u2, log_x, log_rest, sd, q):
    return {"shape": n * (1 / q["shape"] + np.log(q["scale"])) - log_x}


def _beta(n, u, u2, log_x, log_rest, sd, q):
    a, b = q["a"], q["b"]
    total = special.psi(a + b)
    return {
        "a": log_x - n * (np.log(q["scale"]) + special.psi(a) - total),
        "b": log_rest - n * (special.psi(b) - total),
    }


def _bernoulli(n, u, u2, log_x, log_rest, sd, q):
    return {"p": u / sd}


SCORES: dict[str, Scores] = {
    "gaussian": _gaussian,
    "exponential": _exponential,
    "gamma": _gamma,
    "pareto": _pareto,
    "beta": _beta,
    "bernoulli": _bernoulli,
}
POWERS = ("gamma", "pareto", "beta")  # their scores need the logarithms


class Sensitivity(NamedTuple):
    """An expectation over runs and its derivatives; for each arm a dict over the names of its parameters."""

    value: float
    standard_error: float
    gradient: tuple[dict[str, float], ...]  # {} for an arm without scores, or that cannot be told from a constant
    gradient_errors: tuple[dict[str, float], ...]  # standard errors
    runs: int


def expected_regret(bandit: Bandit, policy: Policy, *, horizon: int, runs: int, seed: int = 0) -> Sensitivity:
    """E[R(T)] and its derivatives in the arms' parameters, those of the gaps included.

    Args:
      bandit: arms with one best among them: at a tie the derivative does not exist.
      policy: any, randomised ones too.
      horizon: T ≥ 1.
      runs: R ≥ 10. Standard errors fall like R^(-1/2) and grow about like √T.
      seed: whole number in [0, 2^64); the runs are those of `simulate` in float64.

    Raises ValueError: for an argument out of range; two best arms.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.5)])
      >>> policy = eljax.policies.g_forcing(eljax.log_squared())
      >>> found = eljax.sensitivity.expected_regret(bandit, policy, horizon=40, runs=2_000)
      >>> truth, error = -5.7665, found.gradient_errors[1]["p"]
      >>> error < 0.5, abs(found.gradient[1]["p"] - truth) < 4 * error
      (True, True)
    """
    played = _played(bandit, policy, horizon, runs, seed)
    regret, pulls = played.pulls @ bandit.gaps, played.pulls
    best = int(bandit.gaps.argmin())

    def direct(arm: int, name: str) -> np.ndarray:
        """[R]: Σ_i N_i ∂Δ_i/∂θ."""
        slope = _mean_slope(bandit.arms[arm], name)
        return slope * (int(horizon) * (arm == best) - pulls[:, arm])

    return _sensitivity(bandit, played, regret, direct)


def tail(bandit: Bandit, policy: Policy, *, horizon: int, threshold: float, runs: int, seed: int = 0) -> Sensitivity:
    """P[R(T) > threshold] and its derivatives in the arms' parameters.

    Arguments and errors as for `expected_regret`; the threshold x is in the unit of the rewards. The event is one of
    pulls, and x must not lie on the lattice of regrets: there P jumps as the gaps move. Rare events need more runs than
    are worth it: no run that hits gives 0 ± 0.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.bernoulli(0.7), eljax.bernoulli(0.5)])
      >>> policy = eljax.policies.g_forcing(eljax.log_squared())
      >>> found = eljax.sensitivity.tail(bandit, policy, horizon=20, threshold=2.1, runs=2_000)
      >>> found.gradient[0]["p"] < 0 < found.gradient[1]["p"]
      True
    """
    threshold = checks.number("threshold", threshold)
    played = _played(bandit, policy, horizon, runs, seed)
    hit = (played.pulls @ bandit.gaps > threshold).astype(np.float64)
    return _sensitivity(bandit, played, hit, lambda arm, name: np.zeros(len(hit)))


def _played(bandit: Bandit, policy: Policy, horizon: int, runs: int, seed: int) -> paths.Paths:
    """Runs to the end, every arm watched."""
    if not isinstance(bandit, Bandit):
        checks.fail("bandit", bandit, "an eljax.Bandit")
    if not isinstance(policy, Policy):
        checks.fail("policy", policy, "a policy, such as eljax.policies.el_f(eljax.log_squared())")
    horizon = checks.integer("horizon", horizon, low=1, high=2**31 - 64)
    runs = checks.integer("runs", runs, low=10, high=2**32 - 1)
    seed = checks.integer("seed", seed, low=0, high=2**64 - 1)
    if (bandit.gaps == 0).sum() > 1:
        checks.fail("bandit", bandit, "one with a single best arm: at a tie the regret has no derivative")
    if policy.validate is not None:
        policy.validate(bandit.num_arms, horizon)
    centres, scales, units = np.array([tilts.standard(arm) for arm in bandit.arms]).T
    powers = any(arm.family in POWERS for arm in bandit.arms)
    watched = paths.Watched(tuple(range(bandit.num_arms)), powers, centres, scales, units)
    # With gaps of 1 the "regret" is t, known to exceed T − 1/2 in round T and not before: nothing stops early.
    return paths.decide(
        bandit,
        policy,
        horizon=horizon,
        threshold=horizon - 0.5,
        gaps=np.ones(bandit.num_arms),
        seed=seed,
        run_numbers=np.arange(runs),
        watched=watched,
    )


def _sensitivity(
    bandit: Bandit, played: paths.Paths, value: np.ndarray, direct: Callable[[int, str], np.ndarray]
) -> Sensitivity:
    """From values [R] and, for (arm, name), their own derivatives [R]."""
    runs = len(value)
    gradient, errors = [], []
    for i, arm in enumerate(bandit.arms):
        found = {}
        if arm.family in SCORES and arm.variance > 0:
            sd = float(tilts.standard(arm)[1])
            q = {name: float(x) for name, x in arm.parameters.items()}
            scores = SCORES[arm.family](played.pulls[:, i], *played.sums[:, i].T, sd, q)
            for name, score in scores.items():
                terms = (value - value.mean()) * (score - score.mean()) * runs / (runs - 1) + direct(i, name)
                found[name] = _mean(terms)
        gradient.append({name: mean for name, (mean, _) in found.items()})
        errors.append({name: error for name, (_, error) in found.items()})
    return Sensitivity(*_mean(value), tuple(gradient), tuple(errors), runs)


def _mean(terms: np.ndarray) -> tuple[float, float]:
    """Mean and standard error."""
    return float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(len(terms)))


def _mean_slope(arm: Arm, name: str) -> float:
    q = {key: float(x) for key, x in arm.parameters.items()}
    with jax.enable_x64(True):
        return float(jax.grad(lambda x: parametric.MEANS[arm.family](**{**q, name: x}))(q[name]))
