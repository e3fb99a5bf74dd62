"""Runs that stop at levels of a score, are kept there, copied, and played on with fresh rewards: what splitting needs.

All particles live on the host; the device gets them in tiles of one fixed size, several at a time. A particle's rewards
are those of its run number, so a copy that shall meet fresh ones gets a new number. Scores (`tails.splitting`), with
r_i = n_i* − n_i pulls to go:

    cost to go    R(t)/x − Σ_i r_i κ_i ((Y_i + r_i d_i)₊ / (r_i d_i))², the largest over target arms
    regret        R(t) − b(t)
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eljax import engine
from eljax.tails import tilts
from eljax.types import Policy

OPEN, REACHED, LOST = 0, 1, 2


class Target(NamedTuple):
    """What the score of a run towards one target arm j needs; K arms, 1 + S coefficients."""

    better: np.ndarray  # [K] 1 where arm i is better than j and has to look worse
    terms: np.ndarray  # [K, 1 + S]: of Y_i in its pulls and the sums of its statistics
    drift: np.ndarray  # [K] d_i = E Y_i of one reward; 1 where not needed
    cost: np.ndarray  # [K] κ_i in nats per pull
    pulls: np.ndarray  # [K] n_i*: pulls of arm i when the event is decided


class Setting(NamedTuple):
    """What all stages share."""

    law: Any
    policy: Policy  # as a compiled program takes it
    seed_data: np.ndarray
    gaps: np.ndarray
    threshold: np.float64
    standards: np.ndarray  # [K, 3]: centre, scale and unit of each arm's statistics (`tails.tilts`)
    targets: list[Target]
    curve: np.ndarray  # [T + 1] b(t), where there are no targets


class Particles(NamedTuple):
    """L runs, each at its own round."""

    run_numbers: np.ndarray  # [L] uint32
    carry: Any  # leaves with L on the axes of `lane_axes`
    t: np.ndarray  # [L] int32: rounds played
    sums: np.ndarray  # [S, K, L]: sums of the statistics of each arm's rewards
    score: np.ndarray  # [L]: running maximum; +inf once the event has happened
    status: np.ndarray  # [L] int32


class Stages:
    """Starting, advancing and copying particles; counts the run numbers used, so that no reward is met twice."""

    def __init__(self, setting: Setting, horizon: int):
        self.setting, self.horizon, self.next_run = setting, horizon, 0
        self.uncertified = 0  # the most decisions of one particle that index errors could have changed
        arms = setting.gaps.size
        self.lanes = engine.tile_lanes(setting.policy, arms, horizon, np.dtype(np.float64))
        self.axes = Particles(0, _lane_axes(setting, horizon), 0, 2, 0, 0)
        self.start, self.advance = _programs(jax.default_backend())

    def bytes_of(self, count: int) -> int:
        """Memory that so many particles take."""
        batch = jax.eval_shape(
            lambda n: _batch(self.setting, n, self.horizon).carry, jax.ShapeDtypeStruct((2,), np.uint32)
        )
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(batch)) // 2 * count

    def begin(self, count: int) -> Particles:
        numbers = self._numbers(count)
        return self._in_tiles(lambda part: self.start(self.setting, part.run_numbers, self.horizon), numbers, count)

    def to_level(self, particles: Particles, level: float) -> Particles:
        """Play each on until its score reaches the level, or the event is out of reach."""
        play = lambda part: self.advance(self.setting, part, np.float64(level), self.horizon)  # noqa: E731
        particles = self._in_tiles(play, particles, len(particles.t))
        self.uncertified = max(self.uncertified, int(np.max(particles.carry[1].uncertified_decisions)))
        return particles

    def copied(self, particles: Particles, sources: np.ndarray) -> Particles:
        """Copies of `sources` that will meet fresh rewards."""
        copies = jax.tree.map(lambda x, axis: np.take(x, sources, axis), particles, self.axes)
        return copies._replace(run_numbers=self._numbers(len(sources)).run_numbers)

    def _numbers(self, count: int) -> Particles:
        self.next_run += count
        if self.next_run > 2**32:
            raise RuntimeError("splitting has used up all 2^32 run numbers of a seed: take fewer runs")
        numbers = np.arange(self.next_run - count, self.next_run).astype(np.uint32)
        return Particles(numbers, *(None,) * 5)

    def _in_tiles(self, program: Any, particles: Particles, count: int) -> Particles:
        axes = self.axes if particles.t is not None else Particles(0, *(None,) * 5)

        def compute(start: int) -> tuple[int, Particles]:
            lanes = np.minimum(np.arange(start, start + self.lanes), count - 1)  # padded with copies of the last
            part = jax.tree.map(lambda x, axis: np.take(x, lanes, axis), particles, axes)
            with jax.enable_x64(True):
                return start, jax.tree.map(np.asarray, program(part))

        starts = range(0, count, self.lanes)
        tiles = dict(engine.in_parallel(compute, starts, engine.parallel_tiles()))
        join = lambda axis, *parts: np.take(np.concatenate(parts, axis), np.arange(count), axis)  # noqa: E731
        return jax.tree.map(join, self.axes, *(tiles[start] for start in starts))


@lru_cache
def _programs(backend: str) -> tuple:
    options = engine.compiler_options(backend)
    return tuple(jax.jit(f, static_argnames="horizon", compiler_options=options) for f in (_start, _advance))


def _batch(setting: Setting, run_numbers: jax.Array, horizon: int) -> engine.Batch:
    return engine.batch(setting.law, setting.policy, setting.seed_data, run_numbers, horizon, own_rounds=True)


def _lane_axes(setting: Setting, horizon: int) -> Any:
    """Where each leaf of the carry has its lanes."""
    seen = []
    look = lambda numbers: seen.append(_batch(setting, numbers, horizon).axes)  # noqa: E731
    jax.eval_shape(look, jax.ShapeDtypeStruct((2,), np.uint32))
    return seen[0]


def _start(setting: Setting, run_numbers: jax.Array, horizon: int) -> Particles:
    many, zero = _batch(setting, run_numbers, horizon), jnp.zeros(run_numbers.shape)
    whole = jnp.zeros(run_numbers.shape, jnp.int32)
    sums = jnp.zeros((tilts.STATISTICS, setting.gaps.shape[0], *zero.shape))
    return Particles(run_numbers, many.carry, whole, sums, zero - jnp.inf, whole)


def _advance(setting: Setting, particles: Particles, level: jax.Array, horizon: int) -> Particles:
    many = _batch(setting, particles.run_numbers, horizon)

    def judged(score: jax.Array, regret: jax.Array, t: jax.Array) -> jax.Array:
        lost = regret + (horizon - t) * setting.gaps.max() <= setting.threshold
        return jnp.where(score >= level, REACHED, jnp.where(lost, LOST, OPEN)).astype(jnp.int32)

    def regret_of(pulls: jax.Array) -> jax.Array:  # [K, L] -> [L]
        return (setting.gaps[:, None] * pulls).sum(0)

    def one_round(now: Particles) -> Particles:
        going = now.status == OPEN
        t = now.t + 1
        carry, pull = many.play(many.keys, t, now.carry)
        arms = jnp.arange(setting.gaps.shape[0], dtype=jnp.int32)[:, None]
        centre, scale, unit = (jnp.asarray(x)[:, None] for x in setting.standards.T)
        seen = jnp.stack(jnp.broadcast_arrays(*tilts.statistics(pull.reward[None], centre, scale, unit, True)))
        sums = now.sums + jnp.where(arms == pull.arm[None], seen, 0)
        pulls = pull.pulls.T
        regret = regret_of(pulls)
        happened = regret > setting.threshold
        score = jnp.maximum(now.score, jnp.where(happened, jnp.inf, _score(setting, t, pulls, sums, regret)))
        status = judged(score, regret, t)
        keep = lambda new, old, axis=-1: jnp.where(jnp.expand_dims(  # noqa: E731
            going, [k for k in range(new.ndim) if k != axis % new.ndim]), new, old)  # fmt: skip
        kept = jax.tree.map(keep, carry, now.carry, many.axes)
        moved = (keep(new, old) for new, old in zip((t, sums, score, status), now[2:], strict=True))
        return Particles(now.run_numbers, kept, *moved)

    unfinished = lambda now: (now.status == OPEN).any()  # noqa: E731
    # Entering a level may have cost the last round in which the event was still possible.
    status = judged(particles.score, regret_of(engine.pulls(particles.carry).T), particles.t)
    return jax.lax.while_loop(unfinished, one_round, particles._replace(status=status))


def _score(setting: Setting, t: jax.Array, pulls: jax.Array, sums: jax.Array, regret: jax.Array) -> jax.Array:
    """[L] from t [L], pulls [K, L], sums [S, K, L] and regret [L]."""
    if not setting.targets:
        return regret - setting.curve[jnp.minimum(t, setting.curve.shape[0] - 1)]
    best = jnp.full_like(regret, -jnp.inf)
    for target in setting.targets:
        better, drift, cost, wanted = (jnp.asarray(x)[:, None] for x in (target.better, *target[2:]))
        first, *rest = jnp.asarray(target.terms).T[..., None]
        ahead = first * pulls + sum(term * total for term, total in zip(rest, sums, strict=True))
        left = jnp.maximum(wanted, pulls + 1) - pulls
        short = jnp.maximum(ahead / (left * drift) + 1, 0)
        best = jnp.maximum(best, -(better * left * cost * short**2).sum(0))
    # Where nothing is left to pay the event may still be far: what has been lost so far tells such runs apart.
    return best + jnp.where(regret > 0, regret / jnp.maximum(setting.threshold, regret), 0)
