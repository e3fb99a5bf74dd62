"""Tail-safe UCB: a width that falls like 1/N first and like 1/√N later, so that large regret is exponentially rare.

Paper: Simchi-Levi, Zheng and Zhu, "Regret distribution in stochastic bandits: optimal trade-off between expectation and
tail risk" (2023), the version that does not know the horizon. Each arm once, then

    pull argmax_i mean_i + min( c₁(t) / N_i, c₂(t) / √N_i )
    c₁(t) = η₁ (t/K)^α √(max(log K, 1))      c₂(t) = η₂ √f(t)

With c₁ = ∞ it is R-UCB with φ = c₂². Assumes sub-Gaussian rewards with means in [0, 1].
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from eljax import checks, numerics
from eljax.policies import _means
from eljax.schedules import Schedule, as_schedule, check_schedule, clamped
from eljax.types import Decision, Policy


def tail_safe_ucb(eta1: float = 1.0, eta2: float = 1.0, alpha: float = 0.5, schedule: Schedule | None = None) -> Policy:
    """Tail-safe UCB of any horizon.

    Args:
      eta1: η₁ > 0, factor of the width in 1/N.
      eta2: η₂ > 0, factor of the width in 1/√N.
      alpha: α in [0, 1]: about what power of the horizon the worst-case regret grows with.
      schedule: f(t), a function of (t, num_arms), lifted to a positive floor near t = 1 as schedules are; by default
        (log t)². (`eljax.log_squared()` is that divided by K.)

    Raises:
      ValueError: eta1 or eta2 not positive; alpha outside [0, 1]; schedule not a function, or (before a run) not
        finite, positive and non-decreasing.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.5)])
      >>> result = eljax.simulate(bandit, eljax.policies.tail_safe_ucb(), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    hyper = {
        "eta1": checks.hyperparameter("eta1", eta1, low=0.0, open_low=True),
        "eta2": checks.hyperparameter("eta2", eta2, low=0.0, open_low=True),
        "alpha": checks.hyperparameter("alpha", alpha, low=0.0),
        "schedule": as_schedule("schedule", _squared_log if schedule is None else schedule),
    }
    if not isinstance(alpha, jax.core.Tracer) and np.max(hyper["alpha"]) > 1:
        checks.fail("alpha", alpha, "a finite number in [0.0, 1.0]")
    return Policy(Partial(_means.init), Partial(_select, **hyper), Partial(_means.update), Partial(_validate, **hyper))


def _squared_log(t: jax.Array, num_arms: int) -> jax.Array:
    return jnp.log(t) ** 2


def _validate(num_arms: int, horizon: int, *, eta1: float, eta2: float, alpha: float, schedule: Schedule) -> None:
    check_schedule("schedule", schedule, num_arms, horizon)


def _select(
    key: jax.Array,
    t: jax.Array,
    state: _means.MeanState,
    *,
    eta1: jax.Array,
    eta2: jax.Array,
    alpha: jax.Array,
    schedule: Schedule,
) -> tuple[Decision, _means.MeanState]:
    t, num_arms = t.astype(state.centre.dtype), state.count.shape[0]
    c1 = eta1 * (t / num_arms) ** alpha * math.sqrt(max(math.log(num_arms), 1.0))
    c2 = eta2 * jnp.sqrt(clamped(schedule, t, num_arms))
    return _means.largest(_index(state, c1, c2), state.magnitude), state


@numerics.lanes_last
def _index(state: _means.MeanState, c1: jax.Array, c2: jax.Array) -> jax.Array:
    count = jnp.maximum(state.count, 1).astype(c1.dtype)
    width = jnp.minimum(c1 / count, c2 / jnp.sqrt(count))
    return jnp.where(state.count > 0, _means.mean(state) + width, jnp.inf)
