"""EL-F: forced exploration, else the arm of largest empirical-likelihood index.

Paper: "Reliable Scale-Free Bandits via Empirical Likelihood" (2026), Algorithm 1. In round t, with N_i pulls
of arm i so far:

    if some N_i < g(t):  pull a least-sampled arm
    else:                pull argmax_i U_i,   U_i = sup { μ : N_i · logEL(P_i, μ) ≤ C }

Assumes integrable rewards and a schedule g → ∞ growing slower than t; knows neither scale nor support of the rewards.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import exact_el, numerics
from eljax.policies import _forcing
from eljax.schedules import Schedule, as_radius, as_schedule, check_radius, check_schedule
from eljax.types import Decision, Policy


class ELFState(NamedTuple):
    """The rewards, and with a constant radius each arm's last index: only the pulled arm's can change."""

    history: exact_el.History
    index: jax.Array  # [K]
    index_error: jax.Array  # [K]


def el_f(schedule: Schedule, radius: float | Schedule = 3.0) -> Policy:
    """EL-F with exploration `schedule` g(t) and EL `radius` C.

    Args:
      schedule: function of (t, num_arms), e.g. `eljax.log_squared()`.
      radius: C >= 0, dimensionless (half a χ²₁ quantile makes U a confidence bound; 0 makes it the mean), or a moving
        radius: a function of (t, num_arms) such as `eljax.loglog_radius(3.0)`, for which every index moves every round.

    Raises:
      ValueError: radius negative or not finite; schedule not a function, or (before a run) not finite, positive and
        non-decreasing.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> policy = eljax.policies.el_f(eljax.log_squared(), radius=3.0)
      >>> result = eljax.simulate(bandit, policy, horizon=200, runs=10)
      >>> result.pulls.sum(1).tolist() == [200] * 10
      True
    """
    schedule, radius = as_schedule("schedule", schedule), as_radius("radius", radius)
    validate = Partial(_validate, schedule=schedule, radius=radius)
    if callable(radius):
        return moving(schedule, radius, validate)
    return Policy(Partial(_init), Partial(_select, schedule=schedule), Partial(_update, radius=radius), validate)


def moving(schedule: Schedule, radius: Schedule, validate: Partial) -> Policy:
    """EL-F whose radius is a function of (t, num_arms): nothing to keep but the rewards, all indices solved anew."""
    select = Partial(_select_moving, schedule=schedule, radius=radius)
    return Policy(Partial(exact_el.init), select, Partial(exact_el.push), validate)


def _validate(num_arms: int, horizon: int, *, schedule: Schedule, radius: Any) -> None:
    check_schedule("schedule", schedule, num_arms, horizon)
    check_radius("radius", radius, num_arms, horizon)


def _init(num_arms: int, horizon: int, dtype: jnp.dtype) -> ELFState:
    unknown = jnp.full(num_arms, jnp.inf, dtype)
    return ELFState(exact_el.init(num_arms, horizon, dtype), unknown, jnp.zeros(num_arms, dtype))


def _select(key: jax.Array, t: jax.Array, state: ELFState, *, schedule: Schedule) -> tuple[Decision, ELFState]:
    history, index, error = state
    return _forcing.decide(schedule, t, history.count, index, error, history.magnitude), state


def _update(state: ELFState, arm: jax.Array, reward: jax.Array, *, radius: jax.Array) -> ELFState:
    history = exact_el.push(state.history, arm, reward)
    index, error = exact_el.arm_index(history, arm, radius)
    return ELFState(history, numerics.write(state.index, arm, index), numerics.write(state.index_error, arm, error))


def _select_moving(
    key: jax.Array, t: jax.Array, history: exact_el.History, *, schedule: Schedule, radius: Schedule
) -> tuple[Decision, exact_el.History]:
    num_arms, dtype = history.count.shape[0], history.rewards.dtype
    radius_now = jnp.asarray(radius(t.astype(dtype), num_arms), dtype)
    arms = jnp.arange(num_arms, dtype=jnp.int32)
    index, error = jax.vmap(exact_el.arm_index, (None, 0, None))(history, arms, radius_now)
    return _forcing.decide(schedule, t, history.count, index, error, history.magnitude), history
