"""R-UCB: an index whose width grows faster than any logarithm, for rewards of unknown tails.

Paper: Ashutosh, Nair, Kagrecha and Jagannathan, "Bandit algorithms: letting go of logarithmic regret for statistical
robustness" (2021). Each arm once, then

    pull argmax_i mean_i + √(φ(t) / N_i)

Assumes light tails of unknown parameter and φ = ω(log t). The width has no scale: it is added to rewards in their own
unit, so the same arms in another unit get other pulls.
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from eljax import numerics
from eljax.policies import _means
from eljax.schedules import Schedule, as_schedule, check_schedule, clamped
from eljax.types import Decision, Policy


def r_ucb(schedule: Schedule) -> Policy:
    """R-UCB with width √(φ/N), φ = `schedule`(t, num_arms), lifted to a positive floor near t = 1 as schedules are.

    Args:
      schedule: φ(t), a function of (t, num_arms) in the squared unit of the rewards, e.g. `eljax.log_squared()`.

    Raises:
      ValueError: schedule not a function, or (before a run) not finite, positive and non-decreasing.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.r_ucb(eljax.log_squared()), horizon=100, runs=8)
      >>> result.pulls.sum(1).tolist() == [100] * 8
      True
    """
    schedule = as_schedule("schedule", schedule)
    validate = Partial(_validate, schedule=schedule)
    return Policy(Partial(_means.init), Partial(_select, schedule=schedule), Partial(_means.update), validate)


def _validate(num_arms: int, horizon: int, *, schedule: Schedule) -> None:
    check_schedule("schedule", schedule, num_arms, horizon)


def _select(
    key: jax.Array, t: jax.Array, state: _means.MeanState, *, schedule: Schedule
) -> tuple[Decision, _means.MeanState]:
    phi = clamped(schedule, t.astype(state.centre.dtype), state.count.shape[0])
    return _means.largest(_index(state, phi), state.magnitude), state


@numerics.lanes_last
def _index(state: _means.MeanState, phi: jax.Array) -> jax.Array:
    width = jnp.sqrt(phi / jnp.maximum(state.count, 1))
    return jnp.where(state.count > 0, _means.mean(state) + width, jnp.inf)
