"""BDS: Dirichlet sampling for rewards with a known upper bound.

Paper: Baudry, Saux and Maillard, "From optimality to robustness: Dirichlet sampling strategies in stochastic bandits"
(2021). As `rds`, but the point added to a challenger's rewards is the bound itself:

    challenger k, with n rewards X, wins if mean_k ≥ mean_ℓ, or if Σ w_i X_i + w_{n+1} B ≥ mean_ℓ,  w ~ Dirichlet(1, ..., 1)

Assumes rewards ≤ B, with B known: rewards on another scale need another B.
"""

import jax
from jax.tree_util import Partial

from eljax import checks
from eljax.policies.rds import build
from eljax.types import Policy


def bds(bound: float) -> Policy:
    """BDS with `bound` B, the largest possible reward, in the unit of the rewards.

    Raises:
      ValueError: bound not a finite number.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.beta(2.0, 3.0), eljax.beta(3.0, 2.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.bds(1.0), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    bound = checks.hyperparameter("bound", bound)
    return build(Partial(_known_bonus, bound=bound), Partial(_validate, bound=bound))


def _validate(num_arms: int, horizon: int, *, bound: float) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameter


def _known_bonus(best: jax.Array, shortfall: jax.Array, count: jax.Array, *, bound: jax.Array) -> jax.Array:
    return bound - best
