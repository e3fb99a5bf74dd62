"""Empirical KL-UCB for rewards with a known upper bound.

Paper: Cappé, Garivier, Maillard, Munos and Stoltz, "Kullback-Leibler upper confidence bounds for optimal sequential
allocation" (2013). Each arm once, then

    pull argmax_i U_i,   U_i = sup { μ : N_i · K_inf(P_i, μ) ≤ log t },   K_inf(P, μ) = inf { KL(P, Q) : Q ≤ B, mean(Q) > μ }

Assumes rewards ≤ B, with B known (larger ones count as B): rewards on another scale need another B.

By duality K_inf(P, μ) = max over ν ≥ B of mean log(ν − X) − log(ν − μ), so that with c = log t / N

    U = min over ν ≥ B of [ ν − e^(−c) · exp(mean log(ν − X)) ]

The EL index is the same minimum over ν > max X, hence never larger. In gaps γ = (B − X)/(B − mean), whose mean is 1, and
with ν = B + ε (B − mean), r = (γ + ε)/(1 + ε), u = 1 − r, the sums are those of `empirical_likelihood`:

    A = mean u²/r     L = mean(−log(1 − u) − u)     F = log1p(A) − L     U = mean + (B − mean)(1 + ε)(1 − e^(−c−L))

at the root ε of F(ε) = c, or at ε = 0 if F(0) ≤ c: F is decreasing. Any ε gives an upper bound, so an error in the root
enters at second order. The root moves little from round to round, and the last one is where the next search starts;
each step of it costs one pass over the rewards, a run O(T²).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import checks, numerics
from eljax.policies import _history, _means
from eljax.types import Decision, Policy

STEPS = 60  # at most: as many halvings bring the logarithm of ε from its whole range to rounding
CLOSE = 0.1  # a step of Newton's method beyond this, in log ε, says little of the distance to the root


class EmpiricalKLState(NamedTuple):
    """The rewards and each arm's last pole."""

    means: _means.MeanState  # of [K]
    history: jax.Array  # [K, H]
    log_pole: jax.Array  # [K]: log ε


def empirical_kl_ucb(bound: float) -> Policy:
    """Empirical KL-UCB with `bound` B, the largest possible reward, in the unit of the rewards.

    Raises:
      ValueError: bound not a finite number.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.beta(2.0, 3.0), eljax.beta(3.0, 2.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.empirical_kl_ucb(1.0), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    bound = checks.hyperparameter("bound", bound)
    slots = (Partial(function, bound=bound) for function in (_select, _update, _validate))
    return Policy(Partial(_init), *slots)


def _validate(num_arms: int, horizon: int, *, bound: float) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameter


def _init(num_arms: int, horizon: int, dtype: jnp.dtype) -> EmpiricalKLState:
    history = _history.init(num_arms, horizon, dtype)
    return EmpiricalKLState(_means.init(num_arms, horizon, dtype), history, jnp.full(num_arms, _lowest(dtype), dtype))


def _update(state: EmpiricalKLState, arm: jax.Array, reward: jax.Array, *, bound: jax.Array) -> EmpiricalKLState:
    reward = jnp.minimum(reward, jnp.asarray(bound, reward.dtype))
    history = _history.push(state.history, arm, numerics.read(state.means.count, arm), reward)
    return state._replace(means=_means.update(state.means, arm, reward), history=history)


def _select(
    key: jax.Array, t: jax.Array, state: EmpiricalKLState, *, bound: jax.Array
) -> tuple[Decision, EmpiricalKLState]:
    index, log_pole = indices(state, jnp.asarray(bound, state.history.dtype), jnp.log(t.astype(state.history.dtype)))
    return _means.largest(index, state.means.magnitude), state._replace(log_pole=log_pole)


def indices(state: EmpiricalKLState, bound: jax.Array, radius: jax.Array) -> tuple[jax.Array, jax.Array]:
    """([K], [K]): sup { μ : N · K_inf(P, μ) ≤ radius } of each arm, +inf where there are no rewards; its log ε."""
    count = state.means.count
    mean, gap = _mean_and_gap(state.means, bound)
    c = radius / jnp.maximum(count, 1)
    bounds = jnp.broadcast_to(bound, gap.shape)

    def unfinished(carry: tuple) -> jax.Array:
        step, search = carry
        return (step < STEPS) & search.open_.any()

    def evaluate(carry: tuple) -> tuple:
        step, search = carry
        parameters = (bounds, gap, jnp.exp(search.y))
        sums = _history.sums(_terms, state.history, jnp.where(search.open_, count, 0), parameters)
        return step + 1, _advance(search, count, c, sums)

    none = jnp.full_like(gap, jnp.inf)
    search = _Search(state.log_pole, -none, none, jnp.zeros_like(gap), (count > 0) & (gap > 0))
    _, search = jax.lax.while_loop(unfinished, evaluate, (0, search))
    return _finish(count, mean, gap, search.rise, bounds), search.y


class _Search(NamedTuple):
    """The search for the roots y = log ε, all [K]."""

    y: jax.Array
    low: jax.Array  # F > c here; −inf while unknown
    high: jax.Array  # F ≤ c here; +inf while unknown
    rise: jax.Array  # (U − mean)/(B − mean) at the last y looked at
    open_: jax.Array  # bool


@numerics.lanes_last
def _mean_and_gap(means: _means.MeanState, bound: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean, and B − mean ≥ 0 without the rounding of the mean."""
    total = numerics.RunningSum(-means.total.high, -means.total.low)
    return _means.mean(means), jnp.maximum(numerics.mean_about(bound - means.centre, total, means.count), 0)


def _terms(pair: jax.Array, first: jax.Array, second: jax.Array, parameters: tuple) -> tuple:
    """u²/r, −log(1 − u) − u, u² and (u/r)²."""
    bound, gap, pole = parameters

    def of(x: jax.Array) -> tuple:
        r = ((bound - x) / gap + pole) / (1 + pole)
        u = (1 - (bound - x) / gap) / (1 + pole)
        return u * u / r, numerics.minus_log_minus(u, r), u * u, (u / r) ** 2

    return of(first), of(second)


def _lowest(dtype: jnp.dtype) -> float:
    """The log of an ε that stands for 0: U changes by at most ε (B − mean)."""
    return 2 * math.log(jnp.finfo(dtype).eps)


@numerics.lanes_last
def _advance(search: _Search, count: jax.Array, c: jax.Array, sums: tuple) -> _Search:
    """Judge the poles looked at, and where they will not do take a step of Newton's method on log F, or bisect."""
    a, mean_log, u2, q2 = (x / jnp.maximum(count, 1) for x in sums)
    y, lowest, eps = search.y, _lowest(c.dtype), jnp.exp(search.y)
    value = jnp.log1p(a) - mean_log  # F
    surplus = value - c
    slope = eps / (1 + eps) * jnp.maximum(q2 - a * a, 0) / (1 + a)  # −dF/dy
    rise = -(1 + eps) * jnp.expm1(-c - mean_log)
    lift = jnp.where(slope > 0, 2 * eps * surplus * (surplus / slope), 0)  # at least what the root would lower rise by
    found = (jnp.abs(surplus) <= CLOSE * slope) & (lift <= jnp.finfo(c.dtype).eps * rise)
    found |= (surplus <= 0) & (y <= lowest)

    low, high = jnp.where(surplus > 0, y, search.low), jnp.where(surplus > 0, search.high, y)
    step = y + value / slope * jnp.log(value / c)
    # F ≤ log1p(u2/(ε (1 + ε))): near ε = 0, where F may be flat, start from where half of that is c.
    half = u2 / (2 * jnp.expm1(c))
    step = jnp.where((y <= lowest) & (surplus > 0), jnp.log(2 * half / (1 + jnp.sqrt(1 + 4 * half))), step)
    step = jnp.clip(step, lowest, -lowest)
    outside = jnp.where(low > -jnp.inf, (low + jnp.minimum(high, -lowest)) / 2, lowest)
    step = jnp.where((step > low) & (step < high), step, outside)

    looked, open_ = search.open_, search.open_ & ~found
    return _Search(
        jnp.where(open_, step, y),
        jnp.where(looked, low, search.low),
        jnp.where(looked, high, search.high),
        jnp.where(looked, rise, search.rise),
        open_,
    )


@numerics.lanes_last
def _finish(count: jax.Array, mean: jax.Array, gap: jax.Array, rise: jax.Array, bound: jax.Array) -> jax.Array:
    index = jnp.minimum(mean + gap * rise, bound)
    return jnp.where(count > 0, index, jnp.inf)
