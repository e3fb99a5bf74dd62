"""Naive EL-UCB: the EL index with a radius that grows with time and no forced exploration.

Paper: "Reliable Scale-Free Bandits via Empirical Likelihood" (2026), Section 3. Each arm once, then

    pull argmax_i U_i,   U_i = sup { μ : N_i · logEL(P_i, μ) ≤ g(t) }

The policy EL-F repairs: an arm whose rewards so far are all equal has that value as its index for every radius, so one
unlucky first draw can shut an arm out for ever (linear regret, whatever g).
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax.policies.el_f import build
from eljax.schedules import Schedule, as_schedule, check_schedule
from eljax.types import Policy


def el_ucb(schedule: Schedule, *, index: str = "streaming") -> Policy:
    """Naive EL-UCB with radius g(t) = `schedule`(t, num_arms), negative or undefined values near t = 1 read as 0.

    `index` as for `el_f`. The radius grows with t, so the streaming index is open more often than in EL-F.

    Raises:
      ValueError: schedule not a function, or (before a run) not finite, positive and non-decreasing.

    Example:
      >>> import eljax
      >>> epsilon = 0.2
      >>> trap = eljax.Bandit([eljax.two_point([0.0, 2 / epsilon], [1 - epsilon, epsilon]), eljax.dirac(1.0)])
      >>> policy = eljax.policies.el_ucb(eljax.log_squared())
      >>> result = eljax.simulate(trap, policy, horizon=50, runs=20)
      >>> bool((result.pulls[:, 1] == 49).sum() > 10)  # trapped on the worse arm
      True
    """
    schedule = as_schedule("schedule", schedule)
    radius = Partial(_radius, schedule=schedule)
    return build(Partial(_each_arm_once), radius, index, Partial(_validate, schedule=schedule))


def _validate(num_arms: int, horizon: int, *, schedule: Schedule, index: str = "streaming") -> None:
    check_schedule("schedule", schedule, num_arms, horizon)


def _each_arm_once(t: jax.Array, num_arms: int) -> jax.Array:
    return jnp.zeros_like(t)  # the clamp lifts it to its floor


def _radius(t: jax.Array, num_arms: int, *, schedule: Schedule) -> jax.Array:
    g = jnp.asarray(schedule(t, num_arms), t.dtype)
    return jnp.where(g > 0, g, jnp.zeros_like(g))
