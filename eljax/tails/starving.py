"""How low the rewards of a better arm must be for a policy with a bonus to leave it alone: asked of the policy itself.

Such a policy pulls arm i until its index is below that of arm j. When arm j has cost x it has been pulled t = x/Δ_j
times; were its rewards all m_j and the n rewards of arm i all u, both indices are what the policy says they are, so

    u_n = the largest u ≤ m_i with index_i ≤ index_j           cost_n = n · KL(arm i tilted to mean u_n, arm i)

are found by bisection, for any bonus and any law. The least cost is about −log P, and its n tells how the event comes
about: by one terrible first reward for UCB and Gaussian arms, by dozens of bad ones where rewards cannot be so bad.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eljax import engine
from eljax.arms import Arm, Bandit
from eljax.tails import tilts
from eljax.types import Policy

FARTHEST = 64.0  # how many standard deviations below the mean are looked at
HALVINGS = 50
WIDTHS = (0.0, 0.5, 1.0)  # where there is no index


def tilted(policy: Policy, bandit: Bandit, j: int, pulls: int) -> list[tuple[tilts.Tilt, ...]]:
    """Three tilts of all arms [K] under which arm j gets `pulls` pulls, the better arms at n of about least cost.

    Empty for a policy with a radius, or whose index of equal rewards is their value (FE). One without indices (RDS)
    cannot be asked: the better arms then look as if m_j were their mean and 0, ½ or 1 standard deviations more.
    """
    if "radius" in getattr(policy.validate, "keywords", {}):
        return []
    start, largest = _programs(jax.default_backend())
    with jax.enable_x64(True):
        policy = engine.prepared(policy, np.dtype(np.float64))
        room = 1 << (2 * pulls - 1).bit_length()  # few sizes, few compilations
        state = start(policy, bandit.num_arms, room, np.int32(pulls), np.int32(j), bandit.means[j])
        columns = []
        for i, arm in enumerate(bandit.arms):
            ask = partial(largest, policy, state, np.int32(pulls), np.int32(i), np.int32(j))
            better = bandit.gaps[i] < bandit.gaps[j]
            columns.append(_of_arm(arm, ask, bandit.means[j], pulls) if better else [tilts.none(arm)] * 3)
    return list(zip(*columns, strict=True)) if all(columns) else []


def _of_arm(arm: Arm, ask: Callable, other: float, pulls: int) -> list[tilts.Tilt]:
    """The tilts of a better arm at n/2, n and 2n, n the number of its pulls with the least cost; at n, 2n, 4n if n = 1.

    `ask`(n, low, high) gives (the bonus of n rewards `high`, u_n in [low, high] or NaN if there is none).
    """
    deviation = tilts.spread(arm)
    low = np.maximum(arm.mean - FARTHEST * deviation, arm.support[0] + 1e-9 * deviation)
    found: dict[int, tuple[float, tilts.Tilt]] = {}
    for n in np.unique(np.round(np.sqrt(2) ** np.arange(2 * np.log2(pulls) + 1)).astype(np.int32)):
        bonus, mean = (float(x) for x in ask(n, low, arm.mean))
        if np.isnan(bonus):
            return [tilts.to_index(arm, level=other, radius=width**2 / 2, pulls=1.0) for width in WIDTHS]
        if not bonus > 1e-9 * deviation:
            return []
        if mean >= arm.mean - 1e-9 * deviation:
            found[n] = 0.0, tilts.none(arm)
            break
        if np.isfinite(mean):
            tilt = tilts.to_mean(arm, mean)
            found[n] = n * tilts.divergences(arm, tilt)[0], tilt
    if not found:
        return []
    least = min(found, key=lambda n: found[n][0])
    wanted = np.array([1, 2, 4] if least == 1 else [least / 2, least, 2 * least])
    sizes = np.array(list(found))
    return [found[sizes[np.argmin(np.abs(np.log(sizes / n)))]][1] for n in wanted]


@lru_cache
def _programs(backend: str) -> tuple:
    options = engine.compiler_options(backend)
    return (
        jax.jit(_start, static_argnums=(1, 2), compiler_options=options),
        jax.jit(_largest, compiler_options=options),
    )


def _start(policy: Policy, num_arms: int, horizon: int, pulls: jax.Array, j: jax.Array, reward: jax.Array) -> Any:
    """The state after `pulls` rewards of arm j."""
    state = policy.init(num_arms, horizon, jnp.dtype(np.float64))
    return jax.lax.fori_loop(0, pulls, lambda _, state: policy.update(state, j, reward), state)


def _largest(
    policy: Policy, state: Any, t: jax.Array, i: jax.Array, j: jax.Array, n: jax.Array, low: jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(index_i − high after n rewards `high`, u_n)."""

    def indices(u: jax.Array) -> tuple[jax.Array, jax.Array]:
        after = jax.lax.fori_loop(0, n, lambda _, state: policy.update(state, i, u), state)
        index = policy.select(jax.random.key(0), t + n, after)[0].index
        return index[i], index[j]

    def halve(_: int, ends: tuple) -> tuple:
        below, above = ends
        middle = below + (above - below) / 2
        of_i, of_j = indices(middle)
        return jnp.where(of_i <= of_j, middle, below), jnp.where(of_i <= of_j, above, middle)

    (low_i, low_j), (high_i, high_j) = indices(low), indices(high)
    u, _ = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
    u = jnp.where(high_i <= high_j, high, jnp.where(low_i <= low_j, u, jnp.nan))
    return high_i - high, u
