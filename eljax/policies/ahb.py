"""AHB: AdaHedge on importance-weighted rewards, with extra exploration; it adapts to an unknown range.

Paper: Hadiji and Stoltz, "Adaptation to the range in K-armed bandits" (2023), with α = 1/2; AdaHedge by de Rooij, van
Erven, Grünwald and Koolen, "Follow the leader if you can, hedge if you must" (2014). Each arm once, C their mean
reward. Then, in round t,

    draw arm A from p = (1 − γ_t) q + γ_t / K,   γ_t = min(1/2, √(5 (1 − α) K log K) / t^α)
    z = (reward − C) / p_A at arm A, 0 elsewhere      (the paper estimates the reward of an arm by C + z)
    δ = (1/η) log Σ_i q_i e^(η z_i) − Σ_i q_i z_i     (mixability gap; for η = ∞ the first term is max_i z_i)
    S += z,   D += δ,   η = (log K) / D,   q_i ∝ e^(η S_i)

η = ∞ as long as D = 0, and q is uniform on the leaders: all arms, since D = 0 says that no reward has differed from C.
Assumes bounded rewards; knows neither their range nor the horizon.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import numerics
from eljax.numerics import RunningSum
from eljax.types import Decision, Policy

ALPHA = 0.5  # balances regret on one instance against the largest over all of them; 1/2 gives √T to both


class AHBState(NamedTuple):
    """The centre C, AdaHedge's sums, and the weights they give."""

    pulls: jax.Array  # [] int32: of all arms
    magnitude: jax.Array  # []: largest |reward|
    first: jax.Array  # []: first reward
    opening: RunningSum  # of []: Σ (reward − first) over the first K rewards
    score: RunningSum  # of [K]: S
    gap: RunningSum  # of []: D
    log_weight: jax.Array  # [K]: log q


def ahb() -> Policy:
    """AHB at α = 1/2; it has no hyperparameters.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.uniform(0.0, 50.0), eljax.uniform(0.0, 30.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.ahb(), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    return Policy(Partial(_init), Partial(_select), Partial(_update), Partial(_validate))


def _validate(num_arms: int, horizon: int) -> None:
    pass  # nothing depends on the sizes; the slot names the policy


def _init(num_arms: int, horizon: int, dtype: jnp.dtype) -> AHBState:
    zero, zeros = jnp.zeros((), dtype), jnp.zeros(num_arms, dtype)
    nothing = RunningSum(zero, zero)
    return AHBState(
        jnp.zeros((), jnp.int32), zero, zero, nothing, RunningSum(zeros, zeros), nothing, zeros - math.log(num_arms)
    )


def _select(key: jax.Array, t: jax.Array, state: AHBState) -> tuple[Decision, AHBState]:
    draw = jax.random.uniform(key, (), state.log_weight.dtype)
    none = jnp.full_like(state.log_weight, jnp.nan)
    return Decision(_draw(state.log_weight, t, draw), jnp.zeros((), bool), none, none), state


@numerics.lanes_last
def _draw(log_weight: jax.Array, t: jax.Array, draw: jax.Array) -> jax.Array:
    """The arm of round t: each once, then by inverse distribution function."""
    num_arms = log_weight.shape[0]
    below = jnp.cumsum(_probabilities(jnp.exp(log_weight), t), 0)
    passed = (below <= draw).astype(jnp.int32).sum(0, dtype=jnp.int32)
    return jnp.where(t <= num_arms, t - 1, jnp.minimum(passed, num_arms - 1))  # the sum may be rounded to below 1


def _probabilities(weight: jax.Array, t: jax.Array) -> jax.Array:
    num_arms = weight.shape[0]
    constant = math.sqrt(5 * (1 - ALPHA) * num_arms * math.log(num_arms))
    mixing = jnp.minimum(0.5, constant / t.astype(weight.dtype) ** ALPHA)
    return (1 - mixing) * weight + mixing / num_arms


@numerics.lanes_last
def _update(state: AHBState, arm: jax.Array, reward: jax.Array) -> AHBState:
    num_arms = state.log_weight.shape[0]
    t = state.pulls + 1
    magnitude = jnp.maximum(state.magnitude, jnp.abs(reward))
    first = jnp.where(t == 1, reward, state.first)
    opened = numerics.add(state.opening, reward - first)
    opening = jax.tree.map(lambda new, old: jnp.where(t <= num_arms, new, old), opened, state.opening)

    difference = reward - numerics.mean_about(first, opening, num_arms)
    tied = (t <= num_arms) | (jnp.abs(difference) < numerics.tie_tolerance(magnitude))  # else rounding would be learnt
    weight = jnp.exp(state.log_weight)
    z = jnp.where(tied, 0, difference) / numerics.read(_probabilities(weight, t), arm)
    score = numerics.add(state.score, numerics.place(z, arm, num_arms))
    delta = _mixability_gap(state, arm, weight, z)
    gap = numerics.add(state.gap, delta)

    total, s = gap.high + gap.low, score.high + score.low
    eta = math.log(max(num_arms, 2)) / jnp.where(total > 0, total, 1)  # any will do while all scores are 0
    exponent = eta * (s - s.max(0))
    log_weight = exponent - jnp.log(jnp.exp(exponent).sum(0))
    return AHBState(t, magnitude, first, opening, score, gap, log_weight)


def _mixability_gap(state: AHBState, arm: jax.Array, weight: jax.Array, z: jax.Array) -> jax.Array:
    """δ >= 0, with z at `arm` and 0 elsewhere."""
    num_arms = weight.shape[0]
    total = state.gap.high + state.gap.low
    log_q, q = numerics.read(state.log_weight, arm), numerics.read(weight, arm)
    rest = (weight - numerics.place(q, arm, num_arms)).sum(0)
    eta = math.log(max(num_arms, 2)) / jnp.where(total > 0, total, 1)
    unlimited = jnp.where(z > 0, rest, q) * jnp.abs(z)
    return jnp.where(total > 0, log_mean_exp_gap(log_q, rest, eta * z) / eta, unlimited)


def log_mean_exp_gap(log_q: jax.Array, rest: jax.Array, x: jax.Array) -> jax.Array:
    """log(rest + q e^x) − q x >= 0, where rest = 1 − q is given as exactly as q; accurate relative to itself.

    It is the same with weights and sign swapped, so the smaller weight r <= 1/2 may carry the exponential: a difference
    of two terms of second order, of which the second is at most half of the first.
    """
    q = jnp.exp(log_q)
    swapped = q > rest
    r, log_r = jnp.where(swapped, rest, q), jnp.where(swapped, jnp.log(rest), log_q)
    s = jnp.where(swapped, -x, x)
    growth = jnp.expm1(s)
    near = r * numerics.minus_log_minus(-growth, jnp.exp(s)) - numerics.minus_log_minus(-r * growth, 1 + r * growth)
    far = jnp.logaddexp(log_r + s, jnp.log1p(-r)) - r * s
    return jnp.maximum(jnp.where(jnp.abs(x) < 1, near, far), 0)
