"""g-Forcing: forced exploration, else the arm of largest mean.

Paper: Cowan and Katehakis, "Exploration-exploitation policies with almost sure, arbitrarily slow growing asymptotic
regret" (2020). It is EL-F at radius 0, without a solve:

    if some N_i < g(t):  pull a least-sampled arm
    else:                pull argmax_i mean_i

Assumes a mean; knows neither scale nor support of the rewards.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import numerics
from eljax.policies import _forcing
from eljax.schedules import Schedule, as_schedule, check_schedule
from eljax.types import Decision, Policy


class MeanState(NamedTuple):
    """Counts and compensated sums about each arm's first reward (a running mean would depend on the order)."""

    count: jax.Array  # [K] int32: pulls
    magnitude: jax.Array  # [K]: largest |reward|
    centre: jax.Array  # [K]: first reward
    total: numerics.RunningSum  # of [K]: Σ (reward − centre)


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
    return Policy(Partial(_init), Partial(_select, schedule=schedule), Partial(_update), validate)


def _validate(num_arms: int, horizon: int, *, schedule: Schedule) -> None:
    check_schedule("schedule", schedule, num_arms, horizon)


def _init(num_arms: int, horizon: int, dtype: jnp.dtype) -> MeanState:
    zero = jnp.zeros(num_arms, dtype)
    return MeanState(jnp.zeros(num_arms, jnp.int32), zero, zero, numerics.RunningSum(zero, zero))


def _select(key: jax.Array, t: jax.Array, state: MeanState, *, schedule: Schedule) -> tuple[Decision, MeanState]:
    index, mean = _index(state)
    return _forcing.decide(schedule, t, state.count, state.magnitude, mean, index, jnp.zeros_like(index)), state


@numerics.lanes_last
def _index(state: MeanState) -> tuple[jax.Array, jax.Array]:
    mean = state.centre + (state.total.high + state.total.low) / jnp.maximum(state.count, 1)
    return jnp.where(state.count > 0, mean, jnp.inf), mean


def _update(state: MeanState, arm: jax.Array, reward: jax.Array) -> MeanState:
    count, magnitude, centre, total = jax.tree.map(lambda x: numerics.read(x, arm), state)
    centre = jnp.where(count == 0, reward, centre)
    new = MeanState(count + 1, jnp.maximum(magnitude, jnp.abs(reward)), centre, numerics.add(total, reward - centre))
    return jax.tree.map(lambda x, y: numerics.write(x, arm, y), state, new)
