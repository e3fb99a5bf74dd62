"""Runs up to the round that decides whether R(T) > x, with what the likelihood ratios of other laws need of them.

Regret never decreases, so with Δ_max the largest gap the event is decided in the first round t with

    R(t) > x  (it happens)      or      R(t) + (T − t) Δ_max ≤ x  (it cannot any more)

and only the rewards up to there have to be drawn and weighted. Of each arm that may be tilted, the pulls and the sums
of the statistics of its rewards (`tails.tilts`) are kept: log dQ/dP = η · sums − pulls · A(η) for any tilt of it. A
tile of runs stops when all of them are decided.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from eljax import engine, random
from eljax.arms import Bandit
from eljax.tails import tilts
from eljax.types import Policy, describe

ROUNDS = 32  # between two looks at whether all runs are decided
OPEN, HIT, MISS = 0, 1, 2


class Watched(NamedTuple):
    """The W arms whose rewards are summed up, and how they are standardised."""

    arms: tuple[int, ...] = ()  # increasing
    powers: bool = False  # whether log x and log(1 − unit·x) are needed
    centres: np.ndarray = np.zeros(0)  # [W]
    scales: np.ndarray = np.zeros(0)  # [W]
    units: np.ndarray = np.zeros(0)  # [W]


class Paths(NamedTuple):
    """R runs, decided. W arms are watched, S = 4 statistics (the last two are 0 if they are not needed)."""

    hit: np.ndarray  # [R] bool: R(T) > x
    pulls: np.ndarray  # [R, W] int32: of each watched arm up to the deciding round
    sums: np.ndarray  # [R, W, S]: of u, u², log x, log(1 − unit·x), u = (x − centre)/scale
    uncertified: np.ndarray  # [R] int32: decisions that index errors could have changed


def watch(bandit: Bandit, watched: Sequence[int]) -> Watched:
    """Those arms of the bandit, by the standards of its laws."""
    centres, scales, units = np.array([tilts.standard(bandit.arms[i]) for i in watched]).reshape(-1, 3).T
    powers = any(max(tilts.family(bandit.arms[i]).used) > 1 for i in watched)
    return Watched(tuple(int(i) for i in watched), powers, centres, scales, units)


def decide(
    bandit: Bandit,
    policy: Policy,
    *,
    horizon: int,
    threshold: float,
    gaps: np.ndarray,
    seed: int,
    run_numbers: np.ndarray,
    watched: Watched = Watched(),  # noqa: B008
    progress: bool = False,
) -> Paths:
    """Runs of `policy` with rewards from `bandit`; arguments are checked.

    `gaps` [K] are those of the law whose tail is asked for, P. Runs that meet an open decision are done again with
    exact decisions.
    """
    law, width = bandit.law(np.float64), len(run_numbers)
    job = partial(_all, law, horizon, seed, watched, (np.asarray(gaps, np.float64), np.float64(threshold)))
    with tqdm(total=width, unit="run", disable=not progress, desc=describe(policy)) as bar:
        paths = job(policy, run_numbers, bar)
        again = np.flatnonzero(paths.uncertified)
        if policy.fallback is not None and again.size:
            for whole, part in zip(paths, job(policy.fallback, run_numbers[again], bar), strict=True):
                whole[again] = part
    return paths


def _all(
    law: Any,
    horizon: int,
    seed: int,
    watched: Watched,
    event: tuple[np.ndarray, np.float64],
    policy: Policy,
    run_numbers: np.ndarray,
    bar: tqdm,
) -> Paths:
    with jax.enable_x64(True):
        seed_data = np.asarray(jax.random.key_data(random.seed_key(seed)))
        lanes = engine.tile_lanes(policy, law.num_arms, horizon, np.dtype(np.float64))
    policy, count, width = engine.prepared(policy, np.dtype(np.float64)), len(run_numbers), len(watched.arms)
    out = Paths(
        np.empty(count, bool),
        np.empty((count, width), np.int32),
        np.zeros((count, width, tilts.STATISTICS)),
        np.empty(count, np.int32),
    )
    program, devices = _program(jax.default_backend()), jax.local_devices()

    def compute(start: int) -> tuple[int, tuple]:
        some = run_numbers[np.minimum(np.arange(start, start + lanes), count - 1)].astype(np.uint32)
        some = jax.device_put(some, devices[start // lanes % len(devices)])  # the whole tile runs where this is
        with jax.enable_x64(True):
            tile = program(law, policy, seed_data, some, *event, *watched[2:], horizon, watched.arms, watched.powers)
            return start, jax.tree.map(np.asarray, tile)

    starts, workers = range(0, count, lanes), max(engine.parallel_tiles(), len(devices))
    for start, (status, pulls, sums, uncertified) in engine.in_parallel(compute, starts, workers):
        here, some = slice(start, start + lanes), min(lanes, count - start)
        out.hit[here], out.uncertified[here] = status[:some] == HIT, uncertified[:some]
        for w in range(width):
            out.pulls[here, w] = pulls[w][:some]
            for s, sum_ in enumerate(sums[w]):
                out.sums[here, w, s] = sum_[:some]
        bar.update(some)
    return out


@lru_cache
def _program(backend: str) -> Any:
    options = engine.compiler_options(backend)
    return jax.jit(_tile, static_argnames=("horizon", "arms", "powers"), compiler_options=options)


class Verdict(NamedTuple):
    """What is known of one run; fixed once its event is decided."""

    status: jax.Array  # []
    pulls: tuple[jax.Array, ...]  # W × []
    sums: tuple[tuple[jax.Array, ...], ...]  # W × S × []
    uncertified: jax.Array  # []


def _tile(
    law: Any,
    policy: Policy,
    seed_data: jax.Array,
    run_numbers: jax.Array,
    gaps: jax.Array,
    threshold: jax.Array,
    centres: jax.Array,
    scales: jax.Array,
    units: jax.Array,
    horizon: int,
    arms: tuple[int, ...],
    powers: bool,
) -> Verdict:
    """The verdicts [L]."""
    many = engine.batch(law, policy, seed_data, run_numbers, horizon)
    zero, none = jnp.zeros(run_numbers.shape), jnp.zeros(run_numbers.shape, jnp.int32)
    start = Verdict(none, (none,) * len(arms), ((zero,) * (4 if powers else 2),) * len(arms), none)

    def seen(w: int, x: jax.Array) -> tuple[jax.Array, ...]:
        return tilts.statistics(x, centres[w], scales[w], units[w], powers)

    def judge(t: jax.Array, verdict: Verdict, pull: engine.Pull) -> Verdict:
        """The verdict of one run after round t."""
        regret = sum(gaps[k] * pull.pulls[k] for k in range(gaps.shape[0]))
        possible = regret + (horizon - t) * gaps.max()
        now = jnp.where(regret > threshold, HIT, jnp.where(possible <= threshold, MISS, OPEN)).astype(jnp.int32)
        is_open = verdict.status == OPEN
        sums = tuple(
            tuple(
                old + jnp.where(is_open & (pull.arm == arm), new, 0)
                for old, new in zip(verdict.sums[w], seen(w, pull.reward), strict=True)
            )
            for w, arm in enumerate(arms)
        )
        keep = lambda new, old: jnp.where(is_open, new, old)  # noqa: E731
        pulls = tuple(keep(pull.pulls[arm], old) for arm, old in zip(arms, verdict.pulls, strict=True))
        return Verdict(keep(now, verdict.status), pulls, sums, keep(pull.uncertified_decisions, verdict.uncertified))

    judged = jax.vmap(judge, in_axes=(None, 0, 0))

    def one_round(state: tuple, t: jax.Array) -> tuple[tuple, None]:
        carry, verdict = state
        carry, pull = many.play(many.keys, t, carry)
        return (carry, judged(t, verdict, pull)), None

    def some_rounds(state: tuple) -> tuple:
        t, *rest = state
        rest, _ = jax.lax.scan(one_round, tuple(rest), t + jnp.arange(ROUNDS, dtype=jnp.int32))
        return t + ROUNDS, *rest

    unfinished = lambda state: (state[0] <= horizon) & (state[2].status == OPEN).any()  # noqa: E731
    _, _, verdict = jax.lax.while_loop(unfinished, some_rounds, (jnp.int32(1), many.carry, start))
    return verdict
