"""Runs up to the round that decides whether R(T) > x, with the likelihood ratios of other laws of the rewards.

Regret never decreases, so with Δ_max the largest gap the event is decided in the first round t with

    R(t) > x  (it happens)      or      R(t) + (T − t) Δ_max ≤ x  (it cannot any more)

and only the rewards up to there have to be drawn and weighted. A tile of runs stops when all of them are decided.
"""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from eljax import engine, numerics, random
from eljax.arms import Bandit
from eljax.types import Policy, describe

ROUNDS = 32  # between two looks at whether all runs are decided
OPEN, HIT, MISS = 0, 1, 2


class Paths(NamedTuple):
    """R runs, decided."""

    hit: np.ndarray  # [R] bool: R(T) > x
    log_ratios: np.ndarray  # [R, J]: log dQ_j/dP of the rewards up to the deciding round
    uncertified: np.ndarray  # [R] int32: decisions that index errors could have changed


def decide(
    bandit: Bandit,
    policy: Policy,
    *,
    horizon: int,
    threshold: float,
    gaps: np.ndarray,
    seed: int,
    run_numbers: np.ndarray,
    ratios: np.ndarray,
    units: np.ndarray,
    progress: bool = False,
) -> Paths:
    """Runs of `policy` with rewards from `bandit`; arguments are checked.

    `gaps` [K] are those of the law whose tail is asked for, P; `ratios` [J, K, S] the coefficients of log dQ_j/dP of
    each arm in its `statistics`, with `units` [K]. Runs that meet an open decision are done again with exact decisions.
    """
    law, width = bandit.law(np.float64), len(run_numbers)
    numbers = tuple(np.asarray(x, np.float64) for x in (ratios, units, gaps, threshold))
    job = partial(_all, law, horizon, seed, numbers)
    with tqdm(total=width, unit="run", disable=not progress, desc=describe(policy)) as bar:
        paths = job(policy, run_numbers, bar)
        again = np.flatnonzero(paths.uncertified)
        if policy.fallback is not None and again.size:
            for whole, part in zip(paths, job(policy.fallback, run_numbers[again], bar), strict=True):
                whole[again] = part
    return paths


def statistics(x: jax.Array, unit: jax.Array, logs: bool) -> list[jax.Array]:
    """[S] of a reward: 1, x, x², and for densities with powers of x or 1 − unit·x also log x and log(1 − unit·x)."""
    plain = [jnp.ones_like(x), x, x * x]
    return [*plain, jnp.log(jnp.where(x > 0, x, 1)), jnp.log1p(-unit * x)] if logs else plain


def _all(
    law: Any, horizon: int, seed: int, numbers: tuple, policy: Policy, run_numbers: np.ndarray, bar: tqdm
) -> Paths:
    ratios, *others = numbers
    with jax.enable_x64(True):
        seed_data = np.asarray(jax.random.key_data(random.seed_key(seed)))
        lanes = engine.tile_lanes(policy, law.num_arms, horizon, np.dtype(np.float64))
    policy, shape = engine.prepared(policy, np.dtype(np.float64)), (len(run_numbers), len(ratios))
    out = Paths(np.empty(shape[0], bool), np.empty(shape), np.empty(shape[0], np.int32))
    program = _program(jax.default_backend())

    def compute(start: int) -> tuple[int, tuple]:
        some = run_numbers[np.minimum(np.arange(start, start + lanes), shape[0] - 1)].astype(np.uint32)
        with jax.enable_x64(True):
            tile = program(law, policy, seed_data, some, ratios, *others, horizon)
            return start, jax.tree.map(np.asarray, tile)

    starts = range(0, shape[0], lanes)
    for start, (status, logs, uncertified) in engine.in_parallel(compute, starts, engine.parallel_tiles()):
        count = min(lanes, shape[0] - start)
        here = slice(start, start + count)
        out.hit[here], out.uncertified[here] = status[:count] == HIT, uncertified[:count]
        out.log_ratios[here] = np.stack(logs, -1)[:count] if logs else 0
        bar.update(count)
    return out


@lru_cache
def _program(backend: str) -> Any:
    return jax.jit(_tile, static_argnums=8, compiler_options=engine.compiler_options(backend))


def _tile(
    law: Any,
    policy: Policy,
    seed_data: jax.Array,
    run_numbers: jax.Array,
    ratios: jax.Array,
    units: jax.Array,
    gaps: jax.Array,
    threshold: jax.Array,
    horizon: int,
) -> tuple[jax.Array, tuple, jax.Array]:
    """(status [L], log ratios J × [L], uncertified decisions [L])."""
    many = engine.batch(law, policy, seed_data, run_numbers, horizon)
    zero = jnp.zeros(run_numbers.shape)
    start = jnp.zeros(run_numbers.shape, jnp.int32), (zero,) * ratios.shape[0], jnp.zeros(run_numbers.shape, jnp.int32)
    weigh = jax.vmap(partial(_weigh, ratios, units, gaps, threshold, horizon), in_axes=(None, 0, 0))

    def one_round(state: tuple, t: jax.Array) -> tuple[tuple, None]:
        carry, verdict = state
        carry, pull = many.play(many.keys, t, carry)
        return (carry, weigh(t, verdict, pull)), None

    def some_rounds(state: tuple) -> tuple:
        t, *rest = state
        rest, _ = jax.lax.scan(one_round, tuple(rest), t + jnp.arange(ROUNDS, dtype=jnp.int32))
        return t + ROUNDS, *rest

    unfinished = lambda state: (state[0] <= horizon) & (state[2][0] == OPEN).any()  # noqa: E731
    _, _, verdict = jax.lax.while_loop(unfinished, some_rounds, (jnp.int32(1), many.carry, start))
    return verdict


def _weigh(
    ratios: jax.Array,
    units: jax.Array,
    gaps: jax.Array,
    threshold: jax.Array,
    horizon: int,
    t: jax.Array,
    verdict: tuple,
    pull: engine.Pull,
) -> tuple:
    """The verdict of one run after round t, unchanged once it is decided."""
    status, logs, uncertified = verdict
    num_arms = gaps.shape[0]
    values = statistics(pull.reward, numerics.read(units, pull.arm), ratios.shape[2] > 3)
    each = [sum(numerics.read(ratio[:, s], pull.arm) * value for s, value in enumerate(values)) for ratio in ratios]
    regret = sum(gaps[k] * pull.pulls[k] for k in range(num_arms))
    possible = regret + (horizon - t) * gaps.max()
    now = jnp.where(regret > threshold, HIT, jnp.where(possible <= threshold, MISS, OPEN)).astype(jnp.int32)
    is_open = status == OPEN
    keep = lambda new, old: jnp.where(is_open, new, old)  # noqa: E731
    logs = tuple(keep(old + more, old) for old, more in zip(logs, each, strict=True))
    return keep(now, status), logs, keep(pull.uncertified_decisions, uncertified)
