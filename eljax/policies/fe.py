"""FE: forced exploration by age, else the largest mean.

Paper: Han, Zhu and Guo, "Forced exploration in bandit problems" (AAAI 2024). Arm i's age p_i is the number of rounds
since its last pull. In every round, with a threshold θ that starts at 0:

    if some p_i >= θ:  pull the arm of largest age (lowest number on ties)
    else:              pull an arm of largest mean (at random among the tied)

When every arm has been pulled since the threshold was set, θ becomes the next term of the sequence f(0), f(1), ...

    sqrt: f(c) = √T        linear: f(c) = c        exponential: f(c) = e^(c / log T)

While θ <= K − 1 that is round robin. Assumes a mean; knows neither scale nor support of the rewards. sqrt and
exponential know the horizon T; linear is anytime, at a regret of order √T.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import checks, numerics
from eljax.policies import _means
from eljax.types import Decision, Option, Policy

SEQUENCES = ("sqrt", "linear", "exponential")


class FEState(NamedTuple):
    """What the means need, and where the exploration stands."""

    means: _means.MeanState  # of [K]
    age: jax.Array  # [K] int32: rounds since the last pull
    pulled: jax.Array  # [K] bool: pulled since the threshold was set
    cycle: jax.Array  # [] int32: thresholds set so far; the current one is f(cycle − 1)
    horizon: jax.Array  # []: T of the sequence


def fe(sequence: str, horizon: int | None = None) -> Policy:
    """Forced exploration with the sequence f(c) "sqrt", "linear" or "exponential".

    Args:
      sequence: the thresholds f(c) of the ages, see the module.
      horizon: T >= 2 of the sequence, a whole number; None takes the horizon of the simulation. Linear needs none and
        drops it.

    Raises:
      ValueError: unknown sequence; horizon not a whole number >= 2.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.dirac(1.0), eljax.dirac(0.0)])
      >>> policy = eljax.policies.fe("linear")
      >>> eljax.simulate(bandit, policy, horizon=10_000, runs=1).pulls[0].tolist()
      [9859, 141]
    """
    if not isinstance(sequence, str) or sequence not in SEQUENCES:
        checks.fail("sequence", sequence, " or ".join(f'"{name}"' for name in SEQUENCES))
    if sequence == "linear":
        horizon = None
    if horizon is not None and not isinstance(horizon, jax.core.Tracer):
        horizon = checks.integer("horizon", horizon, low=2)
    sequence = Option(sequence)
    return Policy(
        Partial(_init, horizon=horizon),
        Partial(_select, sequence=sequence),
        Partial(_update),
        Partial(_validate, sequence=sequence, horizon=horizon),
    )


def _validate(num_arms: int, simulated: int, *, sequence: Option, horizon: int | None) -> None:
    pass  # nothing depends on the sizes; the slot names the hyperparameters


def _init(num_arms: int, simulated: int, dtype: jnp.dtype, *, horizon: jax.Array | None) -> FEState:
    known = max(simulated, 2) if horizon is None else horizon  # one round needs no threshold, and log 1 = 0
    return FEState(
        _means.init(num_arms, simulated, dtype),
        jnp.zeros(num_arms, jnp.int32),
        jnp.zeros(num_arms, bool),
        jnp.zeros((), jnp.int32),
        jnp.asarray(known, dtype),
    )


def _select(key: jax.Array, t: jax.Array, state: FEState, *, sequence: Option) -> tuple[Decision, FEState]:
    mean = _means.mean(state.means)
    threshold = _threshold(state.cycle, state.horizon, sequence)
    draw = jax.random.uniform(key, (), mean.dtype)
    arm, forced = _choose(threshold, state.age, mean, state.means.magnitude, draw)
    return Decision(arm, forced, mean, jnp.zeros_like(mean)), state


def _threshold(cycle: jax.Array, horizon: jax.Array, sequence: Option) -> jax.Array:
    """θ: 0, then f(0), f(1), ..."""
    c = cycle.astype(horizon.dtype) - 1
    f = {"sqrt": jnp.sqrt(horizon), "linear": c, "exponential": jnp.exp(c / jnp.log(horizon))}[sequence]
    return jnp.where(cycle == 0, 0, f)


@numerics.lanes_last
def _choose(
    threshold: jax.Array, age: jax.Array, mean: jax.Array, magnitude: jax.Array, draw: jax.Array
) -> tuple[jax.Array, jax.Array]:
    oldest = numerics.argmax(age)
    forced = numerics.read(age, oldest).astype(threshold.dtype) >= threshold
    best = numerics.argmax(mean)
    behind = numerics.read(mean, best) - mean
    tolerance = numerics.tie_tolerance(jnp.maximum(magnitude, numerics.read(magnitude, best)))
    tied = (behind < tolerance) | (behind == 0)
    rank = jnp.cumsum(tied.astype(jnp.int32), 0)  # 1, 2, ... at the tied arms
    drawn = 1 + jnp.minimum((draw * rank[-1]).astype(jnp.int32), rank[-1] - 1)
    return jnp.where(forced, oldest, numerics.argmax(tied & (rank == drawn))), forced


def _update(state: FEState, arm: jax.Array, reward: jax.Array) -> FEState:
    age, pulled, cycle = _pass_round(state.age, state.pulled, state.cycle, arm)
    return FEState(_means.update(state.means, arm, reward), age, pulled, cycle, state.horizon)


@numerics.lanes_last
def _pass_round(
    age: jax.Array, pulled: jax.Array, cycle: jax.Array, arm: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    chosen = numerics.place(jnp.ones_like(arm), arm, age.shape[0]) > 0
    age = jnp.where(chosen, 0, age + 1)
    pulled = pulled | chosen
    complete = numerics.all_of(pulled)
    return age, pulled & ~complete, cycle + complete.astype(jnp.int32)
