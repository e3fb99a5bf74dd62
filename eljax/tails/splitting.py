"""P[R(T) > x] by fixed-effort multilevel splitting, for any policy and any law.

A run's score is a number that says how near the event is; its running maximum climbs through levels l_1 < ... < l_m
whose last one is the event itself. In stage k, N particles start where others first reached l_k and play on with fresh
rewards until they reach l_{k+1} or the event is out of reach:

    P[R(T) > x] = Π_k P[reach l_{k+1} | at the entrance of l_k],   each factor estimated by its share of the N particles

The product is unbiased whatever the score and the (fixed) levels are; they matter for its variance, which is read from
independent replications. Levels come from a pilot, at quantiles of the scores it reaches. Scores that tie with a level
count as reached, so a factor is the real share that gets on.

    cost to go    −Σ_i (S_i + (n_i* − n_i) d_i)₊² / (2 (n_i* − n_i) σ_i²), the largest over target arms j: what it
                  still takes all better arms i to look no better than j; S_i = Σ (X_i − m_j) so far, d_i = m_i − m_j,
                  n_i* the pulls that arm i will have got when j has cost x (the schedule there, at least n_i + 1)
    regret        R(t) − b(t), b the median curve of plain runs: for laws without a variance
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats
from tqdm.auto import tqdm

from eljax import engine, random
from eljax.arms import Bandit
from eljax.tails import importance
from eljax.tails.estimates import TailEstimate
from eljax.types import Policy, describe

REPLICATIONS = 16
KEPT = 0.25  # share of the pilot's particles above the next level
MOST_LEVELS = 200
NOISY = 0.3  # relative standard deviation of a replication above which the estimate is not to be trusted
OPEN, REACHED, LOST = 0, 1, 2


class Target(NamedTuple):
    """What the score of a run towards one target arm j needs, [K] each; 0 for arms not better than j."""

    better: np.ndarray  # 1 where arm i is better than j
    distance: np.ndarray  # d_i
    mean: np.ndarray  # m_j, repeated
    variance: np.ndarray  # σ_i², 1 where not needed
    pulls: np.ndarray  # schedule of pulls at the decision


class Particles(NamedTuple):
    """L runs, each at its own round."""

    keys: Any
    carry: Any
    t: jax.Array  # [L] int32: rounds played
    sums: jax.Array  # [K, L]: sums of rewards, of each arm
    score: jax.Array  # [L]: running maximum; +inf once the event has happened
    status: jax.Array  # [L] int32


class _Setting(NamedTuple):
    """What all stages share."""

    law: Any
    policy: Policy | None  # set for each pass
    seed_data: np.ndarray
    gaps: np.ndarray
    threshold: np.float64
    targets: list[Target]
    curve: np.ndarray  # [T + 1] b(t)


def estimate(
    bandit: Bandit, policy: Policy, *, horizon: int, threshold: float, runs: int, seed: int, progress: bool = False
) -> TailEstimate:
    """From checked arguments; `runs` particles in each stage, shared by 16 replications."""
    per = max(runs // REPLICATIONS, 10)
    with jax.enable_x64(True), tqdm(unit="stage", disable=not progress, desc=describe(policy)) as bar:
        setting = _setting(bandit, policy, horizon, threshold, seed)
        for player in (policy, policy.fallback):  # again with exact decisions if any was left open
            stages = _Stages(setting._replace(policy=engine.prepared(player, np.dtype(np.float64))), horizon, bar)
            found = _estimated(stages, per)
            if policy.fallback is None or not stages.uncertified:
                break
    return found


def _estimated(stages: "_Stages", per: int) -> TailEstimate:
    levels, used = _pilot(stages, min(4 * per, max(per, 1_000)))
    if levels is None:
        reason = "no particle of the pilot came nearer to the event: impossible, or out of this score's reach"
        return TailEstimate(-np.inf, np.nan, -np.inf, np.nan, "splitting", used, 0.0, reason=reason)
    logs, more = _replicate(stages, levels, per)
    return _combined(logs, len(levels), used + more, per)


def _setting(bandit: Bandit, policy: Policy, horizon: int, threshold: float, seed: int) -> _Setting:
    targets, curve = [], np.zeros(horizon + 1)
    variances = np.array([arm.variance for arm in bandit.arms])
    for j in np.flatnonzero(bandit.gaps * horizon > threshold):
        better = bandit.gaps < bandit.gaps[j]
        pulls, _ = importance.pulls_and_radius(policy, bandit, int(j), horizon, threshold)
        distance = np.where(better, bandit.means - bandit.means[j], 0.0)
        ones = np.ones(bandit.num_arms)
        usable = np.where(better & (variances > 0), variances, 1.0)
        targets.append(Target(better * 1.0, distance, bandit.means[j] * ones, usable, np.ceil(pulls) * ones))
    if not all(np.isfinite(target.variance).all() for target in targets):
        plain = engine.simulate(
            bandit, policy, horizon=horizon, runs=256, seed=seed, dtype=np.float64,
            checkpoints=np.unique(np.geomspace(1, horizon, 200).astype(int)),
        )  # fmt: skip
        curve = np.interp(np.arange(horizon + 1), plain.checkpoints, plain.median())
        targets = []
    seed_data = np.asarray(jax.random.key_data(random.seed_key(seed)))
    return _Setting(bandit.law(np.float64), None, seed_data, bandit.gaps, np.float64(threshold), targets, curve)


class _Stages:
    """Starting, advancing and cloning particles; counts the run numbers used, so that no reward is met twice."""

    def __init__(self, setting: _Setting, horizon: int, bar: tqdm):
        self.setting, self.horizon, self.bar, self.next_run = setting, horizon, bar, 0
        self.uncertified = 0
        self.start, self.advance, self.clone = _programs(jax.default_backend())

    def numbers(self, count: int) -> np.ndarray:
        self.next_run += count
        return np.arange(self.next_run - count, self.next_run).astype(np.uint32)

    def begin(self, count: int) -> Particles:
        return self.start(self.setting, self.numbers(count), self.horizon)

    def to_level(self, particles: Particles, level: float) -> Particles:
        self.bar.update()
        particles = self.advance(self.setting, particles, np.float64(level), self.horizon)
        self.uncertified += int(np.max(particles.carry[1].uncertified_decisions))
        return particles

    def cloned(self, particles: Particles, sources: np.ndarray) -> Particles:
        return self.clone(self.setting, particles, sources.astype(np.int32), self.numbers(len(sources)), self.horizon)


def _pilot(stages: _Stages, count: int) -> tuple[list[float] | None, int]:
    """(levels, particles used): each at a quantile of what is reached from the one before; the last is +inf."""
    rng, levels, used = np.random.default_rng(0), [], 0
    particles = stages.begin(count)
    while len(levels) < MOST_LEVELS:
        ended = stages.to_level(particles, np.inf)
        used += count
        scores = np.asarray(ended.score)
        if np.mean(scores == np.inf) >= KEPT:
            return [*levels, np.inf], used
        before = levels[-1] if levels else -np.inf
        level = float(np.quantile(scores, 1 - KEPT, method="lower"))
        if not level > before:
            above = scores[scores > before]
            level = float(above.min()) if above.size else before
        if not before < level < np.inf:
            return ([*levels, np.inf], used) if level == np.inf else (None, used)
        levels.append(level)
        entrance = stages.to_level(particles, level)  # the same keys: the same paths, stopped where they enter
        inside = np.flatnonzero(np.asarray(entrance.status) == REACHED)
        particles = stages.cloned(entrance, rng.choice(inside, count))
    return None, used


def _replicate(stages: _Stages, levels: list[float], per: int) -> tuple[np.ndarray, int]:
    """(log of the product of each replication, particles used)."""
    rng, logs = np.random.default_rng(1), np.zeros(REPLICATIONS)
    particles = stages.begin(REPLICATIONS * per)
    group = np.repeat(np.arange(REPLICATIONS), per)
    for k, level in enumerate(levels):
        particles = stages.to_level(particles, level)
        inside = np.asarray(particles.status) == REACHED
        hits = np.bincount(group[inside], minlength=REPLICATIONS)
        with np.errstate(divide="ignore"):
            logs += np.log(hits / per)
        if k + 1 == len(levels) or not inside.any():
            return logs, (k + 1) * len(group)
        # A replication without a hit stays at probability 0; its particles go on as copies of any, uncounted.
        sources = [
            rng.choice(np.flatnonzero(inside & (group == g)) if hits[g] else np.flatnonzero(inside), per)
            for g in range(REPLICATIONS)
        ]
        particles = stages.cloned(particles, np.concatenate(sources))
    return logs, len(levels) * len(group)


def _combined(logs: np.ndarray, levels: int, runs: int, per: int) -> TailEstimate:
    count = len(logs)
    log_prob = float(special.logsumexp(logs) - np.log(count))
    if log_prob == -np.inf:
        return TailEstimate(
            -np.inf, np.nan, -np.inf, np.nan, "splitting", runs, 0.0, reason="no replication reached the event"
        )
    shares = np.exp(logs - log_prob)
    spread = float(shares.std(ddof=1))
    relative = spread / np.sqrt(count)
    reason = f"{levels} levels, {count} replications of {per} particles"
    if spread > NOISY:
        reason += f"; do not trust: relative deviation of a replication {spread:.2g} > {NOISY}, take more runs"
    half = stats.t.ppf(0.975, count - 1) * np.sqrt(np.log1p(relative**2))
    effective = 1 / relative**2 if relative > 0 else np.inf
    largest = float(shares.max() / count)
    return TailEstimate(
        log_prob, relative, log_prob - half, log_prob + half, "splitting", runs, effective, largest, reason
    )


@lru_cache
def _programs(backend: str) -> tuple:
    options = engine.compiler_options(backend)
    return (
        jax.jit(_start, static_argnums=2, compiler_options=options),
        jax.jit(_advance, static_argnums=3, compiler_options=options),
        jax.jit(_clone, static_argnums=4, compiler_options=options),
    )


def _batch(setting: _Setting, run_numbers: jax.Array, horizon: int) -> engine.Batch:
    return engine.batch(setting.law, setting.policy, setting.seed_data, run_numbers, horizon, own_rounds=True)


def _start(setting: _Setting, run_numbers: jax.Array, horizon: int) -> Particles:
    many, zero = _batch(setting, run_numbers, horizon), jnp.zeros(run_numbers.shape)
    whole = jnp.zeros(run_numbers.shape, jnp.int32)
    sums = jnp.zeros((setting.gaps.shape[0], *zero.shape))
    return Particles(many.keys, many.carry, whole, sums, zero - jnp.inf, whole)


def _advance(setting: _Setting, particles: Particles, level: jax.Array, horizon: int) -> Particles:
    """Play every particle until its score reaches the level or the event is out of reach."""
    many = _batch(setting, particles.t.astype(jnp.uint32), horizon)
    status = jnp.where(particles.score >= level, REACHED, OPEN).astype(jnp.int32)

    def one_round(now: Particles) -> Particles:
        going = now.status == OPEN
        t = now.t + 1
        carry, pull = many.play(now.keys, t, now.carry)
        arms = jnp.arange(now.sums.shape[0], dtype=jnp.int32)[:, None]
        sums = now.sums + jnp.where(arms == pull.arm[None], pull.reward[None], 0)
        pulls = pull.pulls.T
        regret = (setting.gaps[:, None] * pulls).sum(0)
        happened = regret > setting.threshold
        score = jnp.maximum(now.score, jnp.where(happened, jnp.inf, _score(setting, t, pulls, sums, regret)))
        lost = regret + (horizon - t) * setting.gaps.max() <= setting.threshold
        status = jnp.where(score >= level, REACHED, jnp.where(lost, LOST, OPEN)).astype(jnp.int32)
        keep = lambda new, old, axis=-1: jnp.where(jnp.expand_dims(  # noqa: E731
            going, [k for k in range(new.ndim) if k != axis % new.ndim]), new, old)  # fmt: skip
        kept = jax.tree.map(keep, carry, now.carry, many.axes)
        return Particles(
            now.keys, kept, keep(t, now.t), keep(sums, now.sums), keep(score, now.score), keep(status, now.status)
        )

    unfinished = lambda now: (now.status == OPEN).any()  # noqa: E731
    return jax.lax.while_loop(unfinished, one_round, particles._replace(status=status))


def _score(setting: _Setting, t: jax.Array, pulls: jax.Array, sums: jax.Array, regret: jax.Array) -> jax.Array:
    """[L] from t [L], pulls [K, L], sums [K, L] and regret [L]."""
    if not setting.targets:
        return regret - setting.curve[jnp.minimum(t, setting.curve.shape[0] - 1)]
    best = jnp.full_like(regret, -jnp.inf)
    for target in setting.targets:
        better, distance, mean, variance, wanted = (jnp.asarray(x)[:, None] for x in target)
        ahead = sums - pulls * mean
        left = jnp.maximum(wanted, pulls + 1) - pulls
        short = jnp.maximum(ahead + left * distance, 0)
        best = jnp.maximum(best, -(better * short**2 / (2 * left * variance)).sum(0))
    return best


def _clone(
    setting: _Setting, particles: Particles, sources: jax.Array, run_numbers: jax.Array, horizon: int
) -> Particles:
    """Copies of `sources` [L] that will meet fresh rewards."""
    many = _batch(setting, run_numbers, horizon)
    take = lambda x, axis=-1: jnp.take(x, sources, axis)  # noqa: E731
    carry = jax.tree.map(take, particles.carry, many.axes)
    return Particles(many.keys, carry, *(take(x) for x in particles[2:]))
