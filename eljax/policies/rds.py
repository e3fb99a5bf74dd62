"""RDS: robust Dirichlet sampling.

Paper: Baudry, Saux and Maillard, "From optimality to robustness: Dirichlet sampling strategies in stochastic bandits"
(2021). Each arm once, then in rounds that pull one or more arms each, with all statistics as they are when the round
starts:

    leader ℓ: the most pulled arm (ties: the larger sum, then the previous leader, then at random)
    challenger k, with n rewards X, wins if mean_k ≥ mean_ℓ, or if Σ w_i X_i + w_{n+1} B ≥ mean_ℓ with
        w ~ Dirichlet(1, ..., 1) on n + 1 points       B = mean_ℓ + ρ_n (1/n) Σ (mean_ℓ − X_i)⁺
    pull all winners once, in random order; if there are none, the leader

Assumes light tails; knows neither scale nor support of the rewards, nor the horizon (which may cut the last round).
With w = e/Σ e of exponential e, the second condition reads Σ e_i (X_i − mean_ℓ) + e_{n+1} (B − mean_ℓ) ≥ 0: a duel takes
one pass over the challenger's rewards. It is never over the leader's, so that T/2 rewards per arm are kept.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import checks, numerics, random
from eljax.policies import _history, _means
from eljax.types import Decision, Option, Policy


class DirichletState(NamedTuple):
    """The rewards, and what is left of the round."""

    means: _means.MeanState  # of [K]
    history: jax.Array  # [K, H]
    leader: jax.Array  # [] int32: of the current round, −1 before the first
    winners: jax.Array  # [K] bool: still to be pulled in this round


def rds(rho: str) -> Policy:
    """RDS with exploration bonus ρ_n.

    Args:
      rho: "sqrt_log" for ρ_n = √log(1 + n), the paper's choice; "log" for log(1 + n), which explores more.

    Raises:
      ValueError: unknown rho.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.rds("sqrt_log"), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    if not isinstance(rho, str) or rho not in RHO:
        checks.fail("rho", rho, " or ".join(f'"{name}"' for name in RHO))
    return build(Partial(_robust_bonus, rho=Option(rho)), Partial(_validate, rho=Option(rho)))


def build(bonus: Partial, validate: Partial) -> Policy:
    """Dirichlet sampling with B − mean_ℓ = `bonus`(mean_ℓ, (1/n) Σ (mean_ℓ − X_i)⁺, n), all of [K]."""
    return Policy(Partial(_init), Partial(_select, bonus=bonus), Partial(_update), validate)


def _validate(num_arms: int, horizon: int, *, rho: str) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameter


RHO = {"sqrt_log": lambda n: jnp.sqrt(jnp.log1p(n)), "log": jnp.log1p}


def _robust_bonus(best: jax.Array, shortfall: jax.Array, count: jax.Array, *, rho: str) -> jax.Array:
    return RHO[rho](count.astype(best.dtype)) * shortfall


def _init(num_arms: int, horizon: int, dtype: jnp.dtype) -> DirichletState:
    history = _history.init(num_arms, horizon // 2, dtype)  # a challenger has at most as many pulls as the leader
    nobody = jnp.asarray(-1, jnp.int32)
    return DirichletState(_means.init(num_arms, horizon, dtype), history, nobody, jnp.zeros(num_arms, bool))


def _update(state: DirichletState, arm: jax.Array, reward: jax.Array) -> DirichletState:
    pull = numerics.read(state.means.count, arm)
    history = _history.push(state.history, arm, pull, reward)
    return state._replace(means=_means.update(state.means, arm, reward), history=history)


def _select(key: jax.Array, t: jax.Array, state: DirichletState, *, bonus: Partial) -> tuple[Decision, DirichletState]:
    num_arms, data = state.winners.shape[0], jax.random.key_data(key)
    numbers = jnp.arange(num_arms, dtype=jnp.uint32)
    lots = _history.arm_keys(data, numbers + num_arms)
    leader, best, ahead, duels = jax.lax.optimization_barrier(_open(state, lots.high))
    best = jnp.broadcast_to(best, (num_arms,))
    keys = _history.arm_keys(data, numbers)
    lead, shortfall = _history.sums(_terms, state.history, duels, (keys, best), skip=leader)
    winners = ahead | _wins(keys, lead, bonus(best, shortfall / jnp.maximum(duels, 1), duels), duels)
    arm, leader, winners = _choose(state, leader, winners, lots.low)
    unknown = jnp.full_like(best, jnp.nan)
    return Decision(arm, jnp.zeros((), bool), unknown, unknown), state._replace(leader=leader, winners=winners)


@numerics.lanes_last
def _open(state: DirichletState, lot: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """(leader, its mean, which arms win without a duel, pulls of those that fight one), if a round starts now."""
    count, magnitude, mean = state.means.count, state.means.magnitude, _means.mean(state.means)
    candidate = count == numerics.read(count, numerics.argmax(count))
    top = numerics.argmax(jnp.where(candidate, mean, -jnp.inf))
    tied = candidate & _reaches(mean, magnitude, top)  # equal counts: the larger sum is the larger mean
    previous = _numbers(count) == state.leader
    rank = jnp.where(tied, jnp.where(previous, 2**30, _number_of(lot)), -1)
    leader = numerics.argmax(rank)
    other = _numbers(count) != leader
    ahead = other & _reaches(mean, magnitude, leader)
    starts = numerics.all_of(~state.winners) & numerics.all_of(count > 0)
    return leader, numerics.read(mean, leader), ahead, jnp.where(starts & other & ~ahead, count, 0)


def _reaches(mean: jax.Array, magnitude: jax.Array, arm: jax.Array) -> jax.Array:
    """Whether each mean is at least that of `arm`; tied ones are, whatever their rounding."""
    behind = numerics.read(mean, arm) - mean
    tolerance = numerics.tie_tolerance(jnp.maximum(magnitude, numerics.read(magnitude, arm)))
    return (behind < tolerance) | (behind <= 0)


def _terms(pair: jax.Array, first: jax.Array, second: jax.Array, parameters: tuple) -> tuple:
    """e (X − mean_ℓ) and (mean_ℓ − X)⁺."""
    keys, best = parameters
    e = _history.weights(keys, pair, first.dtype)
    return tuple((e * (x - best), jnp.maximum(best - x, 0)) for e, x in zip(e, (first, second), strict=True))


@numerics.lanes_last
def _wins(keys: random.KeyData, lead: jax.Array, bonus: jax.Array, duels: jax.Array) -> jax.Array:
    return (duels > 0) & (lead + _history.spare_weights(keys, bonus) * bonus >= 0)


@numerics.lanes_last
def _choose(
    state: DirichletState, leader: jax.Array, winners: jax.Array, lot: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(arm, leader, winners left): the opening, else one of the round's winners drawn at random, else its leader."""
    starts = numerics.all_of(~state.winners)
    winners = jnp.where(starts, winners, state.winners)
    drawn = numerics.argmax(jnp.where(winners, _number_of(lot), -1))
    arm = jnp.where(numerics.all_of(~winners), leader, drawn)
    unpulled = state.means.count == 0
    opening = ~numerics.all_of(~unpulled)
    arm = jnp.where(opening, numerics.argmax(unpulled), arm)
    left = winners & (_numbers(winners) != arm) & ~opening
    return arm, jnp.where(starts & ~opening, leader, state.leader), left


def _number_of(lot: jax.Array) -> jax.Array:
    """A random uint32 as a number in [0, 2^30)."""
    return (lot >> 2).astype(jnp.int32)


def _numbers(arms: jax.Array) -> jax.Array:
    """[K, 1, ...]: the numbers of the arms, for [K, ...]."""
    return jnp.arange(arms.shape[0], dtype=jnp.int32).reshape(-1, *[1] * (arms.ndim - 1))
