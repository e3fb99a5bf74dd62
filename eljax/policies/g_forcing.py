"""g-Forcing: forced exploration, else the arm of largest mean.

Paper: Cowan and Katehakis, "Exploration-exploitation policies with almost sure, arbitrarily slow growing asymptotic
regret" (2020). It is EL-F at radius 0, without a solve:

    if some N_i < g(t):  pull a least-sampled arm
    else:                pull argmax_i mean_i

Assumes a mean; knows neither scale nor support of the rewards.
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax.policies import _forcing, _means
from eljax.schedules import Schedule, as_schedule, check_schedule
from eljax.types import Decision, Policy


def g_forcing(schedule: Schedule) -> Policy:
    """g-Forcing with exploration `schedule` g(t), a function of (t, num_arms).

    Raises:
      ValueError: schedule not a function, or (before a run) not finite, positive and non-decreasing.

    Example:
      >>> import eljax
      >>> policy = eljax.policies.g_forcing(eljax.log_squared())
      >>> bandit = eljax.Bandit([eljax.dirac(1.0), eljax.dirac(0.0)])
      >>> eljax.simulate(bandit, policy, horizon=10_000, runs=1).pulls[0].tolist()  # ⌈g(10,000)⌉ = 43
      [9957, 43]
    """
    schedule = as_schedule("schedule", schedule)
    validate = Partial(_validate, schedule=schedule)
    return Policy(Partial(_means.init), Partial(_select, schedule=schedule), Partial(_means.update), validate)


def _validate(num_arms: int, horizon: int, *, schedule: Schedule) -> None:
    check_schedule("schedule", schedule, num_arms, horizon)


def _select(
    key: jax.Array, t: jax.Array, state: _means.MeanState, *, schedule: Schedule
) -> tuple[Decision, _means.MeanState]:
    mean = _means.mean(state)
    index = jnp.where(state.count > 0, mean, jnp.inf)
    return _forcing.decide(schedule, t, state.count, state.magnitude, mean, index, jnp.zeros_like(mean)), state
