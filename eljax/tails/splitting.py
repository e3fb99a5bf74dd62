"""P[R(T) > x] by fixed-effort multilevel splitting, for any policy and any law.

A run's score is a number that says how near the event is; its running maximum climbs through levels l_1 < ... < l_m
whose last one is the event itself. In stage k, N particles start where others first reached l_k and play on with fresh
rewards until they reach l_{k+1} or the event is out of reach:

    P[R(T) > x] = Π_k P[reach l_{k+1} | at the entrance of l_k],   each factor estimated by its share of the N particles

The product is unbiased whatever the score and the (fixed) levels are; they matter for its variance, which is read from
independent replications. Levels come from a pilot, at quantiles of the scores it reaches. Scores that tie with a level
count as reached, so a factor is the real share that gets on.

    cost to go    R(t)/x − Σ_i r_i κ_i ((Y_i + r_i d_i)₊ / (r_i d_i))², the largest over target arms j: what it still
                  takes all better arms i to look no better than j. Q_i is how the rewards of arm i look then
                  (`tails.rate`), n_i* its pulls when j has cost x (the schedule there, at least n_i + 1), r_i =
                  n_i* − n_i those to go, and Y_i = Σ (κ_i − log dQ_i/dP_i) over its rewards so far, which has mean 0
                  under Q_i and d_i = κ_i + KL(P_i, Q_i) under P_i; κ_i = KL(Q_i, P_i). For a shift of a Gaussian
                  mean by D the cost is (Σ (X − v) + r D)₊² / 2r, v the mean of Q, in standard units. R(t)/x orders the
                  runs of policies that pull such an arm again all the same
    regret        R(t) − b(t), b the median curve of plain runs: for laws without a variance
"""

from typing import NamedTuple

import jax
import numpy as np
from scipy import special, stats
from tqdm.auto import tqdm

from eljax import engine, random
from eljax.arms import Bandit
from eljax.results import clopper_pearson
from eljax.tails import importance, tilts
from eljax.tails.estimates import TailEstimate
from eljax.tails.particles import REACHED, Setting, Stages, Target
from eljax.types import Policy, describe

REPLICATIONS = 16
KEPT = 0.25  # share of the pilot's particles above the next level
MOST_LEVELS = 200
STREAM = 1  # splitting never meets the rewards of plain or weighted runs of its seed
MOST_BYTES = 2**32  # of particles that are done again with exact decisions
NOISY = 0.3  # relative standard deviation of a replication above which the estimate is not to be trusted


def estimate(
    bandit: Bandit, policy: Policy, *, horizon: int, threshold: float, runs: int, seed: int, progress: bool = False
) -> TailEstimate:
    """From checked arguments; `runs` particles in each stage, shared by 16 replications."""
    found = replicate(
        bandit, policy, horizon=horizon, threshold=threshold, seed=seed, progress=progress,
        replications=REPLICATIONS, per=max(runs // REPLICATIONS, 10),
    )  # fmt: skip
    return combine(*found)


class Replications(NamedTuple):
    """Independent products of shares."""

    logs: np.ndarray  # [replications]: log of each product
    shares: tuple[float, ...]  # of all particles, level by level; none if no particle of the pilot came nearer
    runs: int  # particles used
    plain: int = 0  # particles of the pilot's first stage: plain runs to the end
    uncertified: int = 0  # the most decisions of one particle that index errors could have changed


def replicate(
    bandit: Bandit, policy: Policy, *, horizon: int, threshold: float, seed: int, replications: int, per: int,
    progress: bool = False,
) -> Replications:  # fmt: skip
    """From checked arguments; `per` particles in each stage of each replication."""
    with jax.enable_x64(True), tqdm(unit="stage", disable=not progress, desc=describe(policy)) as bar:
        setting, pilot = _setting(bandit, policy, horizon, threshold, seed), min(4 * per, max(per, 1_000))
        for player in (policy, policy.fallback):  # again with exact decisions if any was left open
            stages = Stages(setting._replace(policy=engine.prepared(player, np.dtype(np.float64))), horizon)
            if player is not policy and stages.bytes_of(replications * per) > MOST_BYTES:
                break
            levels, used = _pilot(stages, pilot, seed, bar)
            logs, shares = np.full(replications, -np.inf), ()
            if levels is not None:
                logs, shares = _replicated(stages, levels, replications, per, seed, bar)
            uncertified = stages.uncertified
            if policy.fallback is None or not uncertified:
                break
    return Replications(logs, shares, used + len(shares) * replications * per, pilot, uncertified)


def _setting(bandit: Bandit, policy: Policy, horizon: int, threshold: float, seed: int) -> Setting:
    goals, curve = importance.targets(bandit, policy, horizon, threshold), np.zeros(horizon + 1)
    targets = [_target(bandit, goal) for goal in goals]
    if not all(target.better.any() for target in targets):  # nothing to go by
        plain = engine.simulate(
            bandit, policy, horizon=horizon, runs=256, seed=seed, dtype=np.float64,
            checkpoints=np.unique(np.geomspace(1, horizon, 200).astype(int)),
        )  # fmt: skip
        curve = np.interp(np.arange(horizon + 1), plain.checkpoints, plain.median())
        targets = []
    seed_data = np.asarray(jax.random.key_data(jax.random.fold_in(random.seed_key(seed), STREAM)))
    standards = np.array([tilts.standard(arm) for arm in bandit.arms])
    gaps, threshold = bandit.gaps, np.float64(threshold)
    return Setting(bandit.law(np.float64), None, seed_data, gaps, threshold, standards, targets, curve)


def _target(bandit: Bandit, goal: importance.Target) -> Target:
    num_arms = bandit.num_arms
    terms, better = np.zeros((num_arms, 1 + tilts.STATISTICS)), np.zeros(num_arms)
    drift, cost = np.ones(num_arms), np.zeros(num_arms)
    for i in goal.better:
        arm = bandit.arms[i]
        if importance.can_tilt(arm, goal):
            tilt = tilts.to_index(arm, level=goal.level, radius=goal.radius, pulls=goal.pulls)
            cost[i], back = tilts.divergences(arm, tilt)
            terms[i] = -tilt.ratio
        elif 0 < tilts.spread(arm) < np.inf:  # as if it were Gaussian
            eta = (goal.level - arm.mean) / tilts.spread(arm)
            cost[i] = back = eta**2 / 2
            terms[i, :2] = eta**2 / 2, -eta
        else:
            continue
        better[i], drift[i] = 1.0, cost[i] + back
        terms[i, 0] += cost[i]
    return Target(better, terms, drift, cost, np.full(num_arms, np.ceil(goal.pulls)))


def _pilot(stages: Stages, count: int, seed: int, bar: tqdm) -> tuple[list[float] | None, int]:
    """(levels, particles used): each at a quantile of what is reached from the one before; the last is +inf."""
    rng, levels, used = np.random.default_rng([seed, 0]), [], 0
    particles = stages.begin(count)
    while len(levels) < MOST_LEVELS:
        scores = stages.to_level(particles, np.inf).score
        used += count
        bar.update()
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
        inside = np.flatnonzero(entrance.status == REACHED)
        particles = stages.copied(entrance, rng.choice(inside, count))
    return None, used


def _replicated(
    stages: Stages, levels: list[float], replications: int, per: int, seed: int, bar: tqdm
) -> tuple[np.ndarray, tuple[float, ...]]:
    """(log of the product of each replication, share of all particles that got to each level from the one before)."""
    rng, logs, shares = np.random.default_rng([seed, 1]), np.zeros(replications), []
    particles = stages.begin(replications * per)
    group = np.repeat(np.arange(replications), per)
    for k, level in enumerate(levels):
        particles = stages.to_level(particles, level)
        inside = particles.status == REACHED
        bar.update()
        hits = np.bincount(group[inside], minlength=replications)
        shares.append(float(inside.mean()))
        with np.errstate(divide="ignore"):
            logs += np.log(hits / per)
        if k + 1 == len(levels) or not inside.any():
            break
        # A replication without a hit stays at probability 0; its particles go on as copies of any, uncounted.
        sources = [
            rng.choice(np.flatnonzero(inside & (group == g)) if hits[g] else np.flatnonzero(inside), per)
            for g in range(replications)
        ]
        particles = stages.copied(particles, np.concatenate(sources))
    return logs, tuple(shares)


def combine(
    logs: np.ndarray, shares: tuple[float, ...], runs: int, plain: int = 0, uncertified: int = 0
) -> TailEstimate:
    """The estimate from what `replicate` found."""
    count = len(logs)
    log_prob = float(special.logsumexp(logs) - np.log(count))
    if log_prob == -np.inf:
        reason = "no replication reached the event"
        if not shares:
            reason = "no particle of the pilot came nearer to the event: impossible, or out of this score's reach"
        upper = float(np.log(clopper_pearson(0, plain)[1])) if plain and not shares else 0.0  # the pilot's plain runs
        return TailEstimate(-np.inf, np.nan, -np.inf, upper, "splitting", runs, 0.0, reason=reason, shares=shares)
    products = np.exp(logs - log_prob)
    spread = float(products.std(ddof=1))
    relative = spread / np.sqrt(count)
    doubts = []
    if spread > NOISY:
        doubts.append(f"relative deviation of a replication {spread:.2g} > {NOISY}: take more runs")
    if uncertified:
        doubts.append(f"{uncertified} decisions of a run are open, and too many particles to do it again exactly")
    # Replications that are all alike say of another one what as many successes say of the next.
    half = stats.t.ppf(0.975, count - 1) * np.sqrt(np.log1p(relative**2)) if relative > 0 else -np.log(0.025) / count
    effective = 1 / relative**2 if relative > 0 else np.inf
    largest = float(products.max() / count)
    return TailEstimate(
        log_prob,
        relative,
        log_prob - half,
        min(log_prob + half, 0.0),
        "splitting",
        runs,
        effective,
        largest,
        f"{len(shares)} levels, {count} replications",
        tuple(doubts),
        shares=shares,
    )
