"""EL-F: forced exploration, else the arm of largest empirical-likelihood index.

Paper: "Reliable Scale-Free Bandits via Empirical Likelihood" (2026), Algorithm 1. In round t, with N_i pulls
of arm i so far:

    if some N_i < g(t):  pull a least-sampled arm
    else:                pull argmax_i U_i,   U_i = sup { μ : N_i · logEL(P_i, μ) ≤ C }

Assumes integrable rewards and a schedule g → ∞ growing slower than t; knows neither scale nor support of the rewards.

The indices come from the streaming summary (`streaming_el`), with error bounds. A run that meets a decision they leave
open is re-run by the `fallback`, the same policy with the whole history at hand, which solves such decisions exactly.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import checks, exact_el, numerics, streaming_el
from eljax.policies import _forcing
from eljax.schedules import Schedule, as_radius, as_schedule, check_radius, check_schedule
from eljax.types import Decision, Option, Policy


class ELFState(NamedTuple):
    """Summaries of the rewards and, with a constant radius, the last indices: only the pulled arm's can change."""

    streams: streaming_el.Stream  # of [K, ...]
    index: jax.Array | None  # [K]
    error: jax.Array | None  # [K], absolute
    history: jax.Array | None  # [K, T], where it is kept


def el_f(schedule: Schedule, radius: float | Schedule = 3.0, *, index: str = "streaming") -> Policy:
    """EL-F with exploration `schedule` g(t) and EL `radius` C.

    Args:
      schedule: function of (t, num_arms), e.g. `eljax.log_squared()`.
      radius: C >= 0, dimensionless (half a χ²₁ quantile makes U a confidence bound; 0 makes it the mean), or a moving
        radius: a function of (t, num_arms) such as `eljax.loglog_radius(3.0)`, for which every index moves every round.
      index: "streaming" costs O(1) per round, decisions certified; "exact" solves over all rewards, O(t) per round:
        the reference, with the same pulls.

    Raises:
      ValueError: radius negative or not finite; schedule not a function, or (before a run) not finite, positive and
        non-decreasing; unknown index.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> policy = eljax.policies.el_f(eljax.log_squared(), radius=3.0)
      >>> result = eljax.simulate(bandit, policy, horizon=200, runs=10)
      >>> result.pulls.sum(1).tolist() == [200] * 10
      True
    """
    schedule, radius = as_schedule("schedule", schedule), as_radius("radius", radius)
    return build(schedule, radius, index, Partial(_validate, schedule=schedule, radius=radius))


def build(schedule: Schedule, radius: Any, index: str, validate: Partial) -> Policy:
    """The policy and its fallback, from checked parts."""
    if not isinstance(index, str) or index not in ("streaming", "exact"):
        checks.fail("index", index, '"streaming" or "exact"')
    if index == "exact":  # shown in the policy's name
        validate = Partial(validate.func, **validate.keywords, index=Option(index))
    moving = callable(radius)
    select = Partial(_select_moving if moving else _select, schedule=schedule, radius=radius)
    if index == "exact":
        select = Partial(_select_moving_exact, schedule=schedule, radius=radius) if moving else select
        update = Partial(_update_moving) if moving else Partial(_update_exact, radius=radius)
        return Policy(Partial(_init_moving_keeping if moving else _init_keeping), select, update, validate)
    update = Partial(_update_moving) if moving else Partial(_update, radius=radius)
    keeping = Policy(Partial(_init_moving_keeping if moving else _init_keeping), select, update, validate)
    return keeping._replace(init=Partial(_init_moving if moving else _init), fallback=keeping)


def _validate(num_arms: int, horizon: int, *, schedule: Schedule, radius: Any, index: str = "streaming") -> None:
    check_schedule("schedule", schedule, num_arms, horizon)
    check_radius("radius", radius, num_arms, horizon)


def _init(num_arms: int, horizon: int, dtype: jnp.dtype) -> ELFState:
    unknown = jnp.full(num_arms, jnp.inf, dtype)
    return _init_moving(num_arms, horizon, dtype)._replace(index=unknown, error=jnp.zeros(num_arms, dtype))


def _init_keeping(num_arms: int, horizon: int, dtype: jnp.dtype) -> ELFState:
    return _init(num_arms, horizon, dtype)._replace(history=exact_el.init(num_arms, horizon, dtype))


def _init_moving(num_arms: int, horizon: int, dtype: jnp.dtype) -> ELFState:
    return ELFState(streaming_el.init(num_arms, dtype), None, None, None)


def _init_moving_keeping(num_arms: int, horizon: int, dtype: jnp.dtype) -> ELFState:
    return _init_moving(num_arms, horizon, dtype)._replace(history=exact_el.init(num_arms, horizon, dtype))


def _update(state: ELFState, arm: jax.Array, reward: jax.Array, *, radius: jax.Array) -> ELFState:
    state = _update_moving(state, arm, reward)
    index, error, streams = streaming_el.arm_index(state.streams, arm, radius)
    return _with_index(state._replace(streams=streams), arm, index, error)


def _update_exact(state: ELFState, arm: jax.Array, reward: jax.Array, *, radius: jax.Array) -> ELFState:
    state = _update_moving(state, arm, reward)
    count, mean = (numerics.read(x, arm) for x in (state.streams.count, streaming_el.mean(state.streams)))
    return _with_index(state, arm, *exact_el.arm_index(state.history[arm], count, mean, radius))


def _update_moving(state: ELFState, arm: jax.Array, reward: jax.Array) -> ELFState:
    """The reward joins its arm's summary, and the history where that is kept."""
    if state.history is not None:
        pull = numerics.read(state.streams.count, arm)
        state = state._replace(history=exact_el.push(state.history, arm, pull, reward))
    return state._replace(streams=streaming_el.push(state.streams, arm, reward))


def _select(
    key: jax.Array, t: jax.Array, state: ELFState, *, schedule: Schedule, radius: jax.Array
) -> tuple[Decision, ELFState]:
    decision, index, error = _decide(schedule, t, state, state.index, state.error, radius)
    return decision, state._replace(index=index, error=error)


def _select_moving(
    key: jax.Array, t: jax.Array, state: ELFState, *, schedule: Schedule, radius: Schedule
) -> tuple[Decision, ELFState]:
    now = _radius_now(radius, t, state)
    index, error, streams = streaming_el.all_indices(state.streams, now)
    decision, _, _ = _decide(schedule, t, state, index, error, now)
    return decision, state._replace(streams=streams)


def _select_moving_exact(
    key: jax.Array, t: jax.Array, state: ELFState, *, schedule: Schedule, radius: Schedule
) -> tuple[Decision, ELFState]:
    now = _radius_now(radius, t, state)
    index, error = exact_el.all_indices(state.history, state.streams.count, streaming_el.mean(state.streams), now)
    return _decide(schedule, t, state, index, error, now)[0], state


def _decide(schedule: Schedule, t: jax.Array, state: ELFState, index: jax.Array, error: jax.Array, radius: jax.Array):
    """The decision, and the indices it rests on: solved from the history if there is one and they leave it open."""
    count, magnitude, mean = state.streams.count, state.streams.magnitude, streaming_el.mean(state.streams)
    decision = _forcing.decide(schedule, t, count, magnitude, mean, index, error)
    if state.history is not None:
        open_ = ~decision.certified
        index, error = exact_el.settle(open_, state.history, count, mean, radius, index, error)
        decision = _forcing.decide(schedule, t, count, magnitude, mean, index, error, solved=open_)
    return decision, index, error


def _radius_now(radius: Schedule, t: jax.Array, state: ELFState) -> jax.Array:
    num_arms, dtype = state.streams.magnitude.shape[0], state.streams.magnitude.dtype
    return jnp.asarray(radius(t.astype(dtype), num_arms), dtype)


def _with_index(state: ELFState, arm: jax.Array, index: jax.Array, error: jax.Array) -> ELFState:
    return state._replace(index=numerics.write(state.index, arm, index), error=numerics.write(state.error, arm, error))
