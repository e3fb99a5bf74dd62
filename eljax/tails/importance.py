"""P[R(T) > x] by importance sampling: runs in which the better arms look bad, weighted by their likelihood ratio.

The regret exceeds x if some arm j with Δ_j T > x is pulled most of the time, which takes all better arms to look worse
than j. Each run is drawn from one law Q_k of a mixture, n_k = α_k n runs from each, and weighted by

    w = 1 / Σ_k α_k dQ_k/dP       (over the rewards up to the round that decides the event; Q_0 = P bounds w by 1/α_0)

so P[R(T) > x] = E[w · 1{R(T) > x}] whatever the Q_k are. For each target arm j, with n the pulls that the better arms
have got when the event is decided (the schedule there) and b = √(2C/n) the width that a radius C leaves them:

    shift    every better arm gets the mean u = m_j + σ_j √(2C Δ_j/x), where j ends with its own bonus
    bonus    every better arm gets mean and spread such that its index is u: N(u − s b σ, s² σ²) for Gaussian arms

Good tilts matter for the error, never for the expectation; how far to trust it the largest weight and the effective
sample size tell: they are reported, and `reason` says so when they are bad.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from eljax.arms import Bandit
from eljax.tails import paths, starving, tilts
from eljax.tails.estimates import TailEstimate
from eljax.types import Policy

PLAIN = 0.1  # share of runs drawn from the law itself
BONUS = 0.8  # share of "bonus" among a target's other runs
TRUSTED = 0.1  # relative error up to which a log-normal interval is given
FEW = 50.0  # effective sample size below which an estimate is not to be trusted
HEAVY = 0.1  # share of the largest weight above which it is not


class Component(NamedTuple):
    """One law of the mixture."""

    label: str
    share: float  # α_k
    bandit: Bandit  # Q_k
    ratio: np.ndarray  # [K, 5]: log dQ_k/dP of each arm


def mixture(bandit: Bandit, policy: Policy, horizon: int, threshold: float) -> list[Component]:
    """The default mixture; ValueError if some better arm's family has no tilt."""
    none = [tilts.none(arm) for arm in bandit.arms]
    given = getattr(policy.validate, "keywords", {})
    targets = np.flatnonzero(bandit.gaps * horizon > threshold)
    components = [_component("plain", PLAIN, none)]
    tilted: list[tuple[str, float, list[tilts.Tilt]]] = []
    for j in targets:
        count = int(np.ceil(threshold / bandit.gaps[j]))
        starved = [] if "radius" in given else starving.tilted(policy, bandit, int(j), count)
        if starved:
            tilted += [(f"arm {j}, starved {k}", 1 / len(starved), arms) for k, arms in enumerate(starved)]
            continue
        pulls, radius = pulls_and_radius(policy, bandit, int(j), horizon, threshold)
        own = bandit.means[j] + np.sqrt(2 * radius * bandit.gaps[j] / threshold * bandit.arms[j].variance)
        width = np.sqrt(2 * radius / pulls)
        better = np.flatnonzero(bandit.gaps < bandit.gaps[j])
        shift, bonus = list(none), list(none)
        for i in better:
            if own < bandit.means[i]:  # else it needs no help
                shift[i] = tilts.to_mean(bandit.arms[i], own)
                bonus[i] = tilts.to_index(bandit.arms[i], own, width) if radius > 0 else shift[i]
        if radius > 0:
            tilted += [(f"arm {j}, shift", 1 - BONUS, shift), (f"arm {j}, bonus", BONUS, bonus)]
        else:
            tilted.append((f"arm {j}, shift", 1.0, shift))
    total = sum(share for _, share, _ in tilted)
    return components + [_component(label, (1 - PLAIN) * share / total, arms) for label, share, arms in tilted]


def estimate(
    bandit: Bandit,
    policy: Policy,
    *,
    horizon: int,
    threshold: float,
    runs: int,
    seed: int,
    components: list[Component],
    progress: bool = False,
) -> TailEstimate:
    """From checked arguments and a mixture whose first component is the law itself."""
    shares = np.array([component.share for component in components])
    counts = np.maximum(np.round(shares * runs).astype(int), 2)
    shares = counts / counts.sum()  # as drawn
    ratios, units = np.stack([c.ratio for c in components[1:]]), [tilts.unit(arm) for arm in bandit.arms]
    if not ratios[..., 3:].any():
        ratios = ratios[..., :3]
    starts = np.concatenate([[0], np.cumsum(counts)])
    log_weights = []  # of each component's runs that hit
    for component, start, count in zip(components, starts, counts, strict=False):
        found = paths.decide(
            component.bandit,
            policy,
            horizon=horizon,
            threshold=threshold,
            gaps=bandit.gaps,
            seed=seed,
            run_numbers=np.arange(start, start + count),
            ratios=ratios,
            units=units,
            progress=progress,
        )
        logs = np.column_stack([np.zeros(count), found.log_ratios])
        log_weights.append(-special.logsumexp(logs[found.hit] + np.log(shares), axis=1))
    return combine(log_weights, counts)


def combine(log_weights: list[np.ndarray], counts: np.ndarray) -> TailEstimate:
    """The estimate from the log weights of the runs that hit, [hits_k] of the n_k runs of each component."""
    every = np.concatenate(log_weights)
    runs = int(counts.sum())
    if every.size == 0:
        bound = float(np.log(stats.beta.ppf(0.975, 1, runs)))
        return TailEstimate(-np.inf, np.nan, -np.inf, bound, "importance", runs, 0.0, reason="no run hit the event")
    top = every.max()
    total = variance = 0.0
    for logs, count in zip(log_weights, counts, strict=True):
        weights = np.exp(logs - top)
        mean = weights.sum() / count
        # α_k times the mean over n_k runs, α_k = n_k/n.
        total += mean * count / runs
        variance += (count / runs) ** 2 * ((weights**2).sum() / count - mean**2) / (count - 1)
    weights = np.exp(every - top)
    log_prob, relative = float(np.log(total) + top), float(np.sqrt(variance) / total)
    effective, largest = float(weights.sum() ** 2 / (weights**2).sum()), float(weights.max() / weights.sum())
    doubts = []
    if relative > TRUSTED:
        doubts.append(f"relative error {relative:.2g} > {TRUSTED}")
    if effective < FEW:
        doubts.append(f"effective sample size {effective:.3g} < {FEW:g}")
    if largest > HEAVY:
        doubts.append(f"one run has {largest:.0%} of all weight")
    reason = f"do not trust: {', '.join(doubts)}" if doubts else ""
    half = stats.norm.ppf(0.975) * np.sqrt(np.log1p(relative**2))
    return TailEstimate(
        log_prob, relative, log_prob - half, log_prob + half, "importance", runs, effective, largest, reason
    )


def _component(label: str, share: float, arms: list[tilts.Tilt]) -> Component:
    return Component(label, share, Bandit([tilt.arm for tilt in arms]), np.stack([tilt.ratio for tilt in arms]))


def pulls_and_radius(policy: Policy, bandit: Bandit, j: int, horizon: int, threshold: float) -> tuple[float, float]:
    """How often a better arm has been pulled when arm j has cost x, and the radius C there.

    Read from the policy's hyperparameters `schedule` and `radius`; one with neither is taken to pull log t times.
    """
    given = getattr(policy.validate, "keywords", {})
    t = jnp.asarray(min(max(threshold / bandit.gaps[j], 2.0), horizon), jnp.result_type(float))
    schedule, radius = given.get("schedule"), given.get("radius", 0.0)
    pulls = float(schedule(t, bandit.num_arms)) if schedule is not None else float(jnp.log(t))
    radius = float(radius(t, bandit.num_arms)) if callable(radius) else float(np.max(radius))
    return max(pulls, 1.0), radius
