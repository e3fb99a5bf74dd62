"""P[R(T) > x] by importance sampling: runs in which the better arms look bad, weighted by their likelihood ratio.

The regret exceeds x if some arm j with Δ_j T > x is pulled most of the time, which takes all better arms to look worse
than j. Each run is drawn from one law Q_k of a mixture, n_k = α_k n runs from each, and weighted by

    w = 1 / Σ_k α_k dQ_k/dP       (over the rewards up to the round that decides the event; Q_0 = P bounds w by 1/α_0)

so P[R(T) > x] = E[w · 1{R(T) > x}] whatever the Q_k are. For each target arm j, with n the pulls that the better arms
have got when the event is decided (the schedule there):

    shift    every better arm gets the mean u = m_j + σ_j √(2C Δ_j/x), where j ends with its own bonus
    bonus    every better arm looks as it does if its index of radius C is u (the rate function of `tails.rate`)
    starved  for policies with another bonus: three guesses of how low it must be, see `tails.starving`
    lucky    where T is so small that arm j had better look good, too, see `tails.luck`

Good tilts matter for the error, never for the expectation; how far to trust it the effective sample size, the largest
weight and the shape k of a generalised Pareto law fitted to the largest weights tell (Vehtari et al. 2024; the variance
is infinite from k = 1/2 on, and beyond .7 no practicable number of runs helps). What is bad is said in `doubts`; what
is useless, or bad in this and another way, is not returned as a number.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from eljax import checks
from eljax.arms import Arm, Bandit
from eljax.results import clopper_pearson
from eljax.schedules import clamped
from eljax.tails import luck, paths, starving, tilts
from eljax.tails.estimates import TailEstimate
from eljax.types import Policy

PLAIN = 0.1  # share of runs drawn from the law itself
BONUS = 0.8  # share of "bonus" among a target's other runs
TRUSTED = 0.1  # relative error up to which a log-normal interval is given
FEW, USELESS_FEW = 50.0, 5.0  # effective sample sizes below which an estimate is not to be trusted, or useless
HEAVY, USELESS_HEAVY = 0.1, 0.5  # share of the largest weight above which it is not, or useless
HEAVY_SHAPE, LEAST_TOP = 0.7, 20  # of the Pareto law of the largest weights, from more than so many of them


class Component(NamedTuple):
    """One law of the mixture."""

    label: str
    share: float  # α_k
    tilts: tuple[tilts.Tilt, ...]  # [K]


class Sample(NamedTuple):
    """The runs of one component that hit: W watched arms, S statistics."""

    runs: int  # drawn
    pulls: np.ndarray  # [H, W]
    sums: np.ndarray  # [H, W, S]


class Target(NamedTuple):
    """An arm j that can cost the threshold by itself, and what that takes."""

    arm: int  # j
    level: float  # u: its index when it has cost x
    own: int  # its pulls then
    better: np.ndarray  # the arms of a larger mean than u
    pulls: float  # n: what each of them has been pulled by then
    radius: float  # C there


def targets(bandit: Bandit, policy: Policy, horizon: int, threshold: float) -> list[Target]:
    """All arms j with Δ_j T > x."""
    found = []
    for j in np.flatnonzero(bandit.gaps * horizon > threshold):
        pulls, radius = pulls_and_radius(policy, bandit, int(j), horizon, threshold)
        width = np.sqrt(2 * radius * (bandit.gaps[j] / threshold)) if radius > 0 and threshold > 0 else 0.0
        spread = tilts.spread(bandit.arms[j])
        level = float(bandit.means[j] + (width * spread if np.isfinite(spread) else 0))
        better = np.flatnonzero((bandit.gaps < bandit.gaps[j]) & (bandit.means > level))
        own = max(int(np.ceil(threshold / bandit.gaps[j])), 1)
        found.append(Target(int(j), level, own, better, pulls, radius))
    return found


def mixture(bandit: Bandit, policy: Policy, horizon: int, threshold: float) -> list[Component]:
    """The default mixture; ValueError if some better arm's family has no tilt."""
    none = tuple(tilts.none(arm) for arm in bandit.arms)
    found: list[Component] = []
    for target in targets(bandit, policy, horizon, threshold):
        starved = starving.tilted(policy, bandit, target.arm, target.own)
        if starved:
            label = f"arm {target.arm}, starved"
            found += [Component(f"{label} {k}", 1 / len(starved), row) for k, row in enumerate(starved)]
            continue
        shift, bonus = list(none), list(none)
        for i in target.better:
            shift[i] = tilts.to_mean(bandit.arms[i], target.level)
            bonus[i] = tilts.to_index(bandit.arms[i], level=target.level, radius=target.radius, pulls=target.pulls)
        if target.radius > 0:
            found.append(Component(f"arm {target.arm}, bonus", BONUS, tuple(bonus)))
        found.append(Component(f"arm {target.arm}, shift", 1 - BONUS if target.radius > 0 else 1.0, tuple(shift)))
        lucky = luck.tilted(bandit, target.arm, target.own, target.better, target.level, target.radius, target.pulls)
        found += [Component(f"arm {target.arm}, lucky", 1.0, row) for row in lucky]
    return with_plain(bandit, found)


def given(bandit: Bandit, wanted: Sequence[Sequence[Arm | float | None]]) -> list[Component]:
    """The mixture of tilts that a user asks for: of each component, for each arm a law, its mean, or None."""
    allowed = f"a list of components, each a list of {bandit.num_arms} laws, means or None, such as [[0.2, None]]"
    found = []
    if not isinstance(wanted, Sequence | np.ndarray):
        checks.fail("tilts", wanted, allowed)
    for k, row in enumerate(wanted):
        if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str) or len(row) != bandit.num_arms:
            checks.fail("tilts", wanted, allowed)
        chosen = []
        for arm, value in zip(bandit.arms, row, strict=True):
            if value is None:
                chosen.append(tilts.none(arm))
            elif isinstance(value, Arm):
                chosen.append(tilts.to_law(arm, value))
            else:
                chosen.append(tilts.to_mean(arm, checks.number("tilts", value)))
        found.append(Component(f"given {k}", 1.0, tuple(chosen)))
    if not found:
        checks.fail("tilts", wanted, allowed)
    return with_plain(bandit, found)


def can_tilt(arm: Arm, target: Target) -> bool:
    """Whether the default mixture can make the arm look as bad as the target."""
    return tilts.name_of(arm) in tilts.FAMILIES and arm.support[0] < target.level < arm.mean


def with_plain(bandit: Bandit, components: Sequence[Component]) -> list[Component]:
    """The components behind a plain one, shares adding up to 1."""
    total = sum(component.share for component in components)
    scaled = [component._replace(share=(1 - PLAIN) * component.share / total) for component in components]
    return [Component("plain", PLAIN, tuple(tilts.none(arm) for arm in bandit.arms)), *scaled]


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
    watched = paths.watch(bandit, tilted_arms(components))
    event = {"horizon": horizon, "threshold": threshold, "seed": seed, "progress": progress}
    samples = draw(bandit, policy, components, watched, runs=runs, **event)
    return combine(log_weights(components, watched, samples), np.array([sample.runs for sample in samples]))


def tilted_arms(components: Sequence[Component]) -> list[int]:
    """The arms that some component tilts."""
    return [i for i in range(len(components[0].tilts)) if any(c.tilts[i].ratio.any() for c in components)]


def draw(
    bandit: Bandit,
    policy: Policy,
    components: Sequence[Component],
    watched: paths.Watched,
    *,
    runs: int,
    first_run: int = 0,
    **event,
) -> list[Sample]:
    """Runs of each component in proportion to its share, at least two; numbered from `first_run` on."""
    counts = np.maximum(np.round([component.share * runs for component in components]).astype(int), 2)
    starts = first_run + np.concatenate([[0], np.cumsum(counts)])
    out = []
    for component, start, count in zip(components, starts, counts, strict=False):
        found = paths.decide(
            Bandit([tilt.arm for tilt in component.tilts]),
            policy,
            gaps=bandit.gaps,
            run_numbers=np.arange(start, start + count),
            watched=watched,
            **event,
        )
        out.append(Sample(int(count), found.pulls[found.hit], found.sums[found.hit]))
    return out


def log_weights(components: Sequence[Component], watched: paths.Watched, samples: Sequence[Sample]) -> list[np.ndarray]:
    """Of each component's runs that hit, [H]: log w, with the shares as drawn."""
    counts = np.array([sample.runs for sample in samples])
    ratios = np.zeros((len(components), len(watched.arms), 1 + tilts.STATISTICS))
    for k, component in enumerate(components):
        for w, i in enumerate(watched.arms):
            ratios[k, w] = component.tilts[i].ratio
    out = []
    for sample in samples:
        logs = np.einsum("jw,hw->hj", ratios[..., 0], sample.pulls)
        logs += np.einsum("jws,hws->hj", ratios[..., 1:], sample.sums)
        out.append(-special.logsumexp(logs + np.log(counts / counts.sum()), axis=1))
    return out


def combine(log_weights: Sequence[np.ndarray], counts: np.ndarray) -> TailEstimate:
    """The estimate from the log weights of the runs that hit, [hits_k] of the n_k runs of each component."""
    every = np.concatenate(log_weights)
    runs = int(counts.sum())
    plain_low, plain_high = clopper_pearson(log_weights[0].size, int(counts[0]))
    with np.errstate(divide="ignore"):
        plain = float(np.log(plain_low)), float(np.log(plain_high))
    if every.size == 0:
        reason = "no run hit the event; the interval is that of the plain runs"
        return TailEstimate(-np.inf, np.nan, *plain, "importance", runs, 0.0, reason=reason)
    top = every.max()
    total = variance = 0.0
    for logs, count in zip(log_weights, counts, strict=True):
        weights = np.exp(logs - top)
        mean = weights.sum() / count
        # α_k times the mean over n_k runs, α_k = n_k/n.
        total += mean * count / runs
        variance += (count / runs) ** 2 * ((weights**2).sum() / count - mean**2) / (count - 1)
    weights = np.exp(every - top)
    # The mean weight may exceed 1 by chance, a probability may not.
    log_prob, relative = min(float(np.log(total) + top), 0.0), float(np.sqrt(variance) / total)
    effective, largest = float(weights.sum() ** 2 / (weights**2).sum()), float(weights.max() / weights.sum())
    shape = _shape(weights)
    doubts, useless = [], []
    if relative > TRUSTED:
        doubts.append(f"relative error {relative:.2g} > {TRUSTED}")
    if effective < FEW:
        (useless if effective < USELESS_FEW else doubts).append(f"effective sample size {effective:.3g}")
    if largest > HEAVY:
        (useless if largest > USELESS_HEAVY else doubts).append(f"one run has {largest:.0%} of all weight")
    if shape > HEAVY_SHAPE:
        what = f"the weights seem to have no finite variance (Pareto shape {shape:.2g} > {HEAVY_SHAPE})"
        (useless if doubts else doubts).append(what)
    if useless:
        reason = f"useless weights: {', '.join(useless)}; take fitted or other tilts, or splitting"
        return TailEstimate(np.nan, np.nan, *plain, "importance", runs, effective, largest, reason)
    half = stats.norm.ppf(0.975) * np.sqrt(np.log1p(relative**2))
    ends = (log_prob - half, min(log_prob + half, 0.0)) if relative > 0 else plain  # all runs hit, with equal weights
    return TailEstimate(log_prob, relative, *ends, "importance", runs, effective, largest, doubts=tuple(doubts))


def _shape(weights: np.ndarray) -> float:
    """k of a generalised Pareto law fitted to the largest 20% of the weights, or 3 √H of them if that is fewer.

    By probability-weighted moments (Hosking & Wallis 1987), which stand weights that take few values: with the excess e
    over the next weight, a_0 = E[e] and a_1 = E[e (1 − F(e))], k = 2 − a_0/(a_0 − 2 a_1).
    """
    count = int(min(0.2 * weights.size, 3 * np.sqrt(weights.size)))
    highest = np.sort(weights)[-count - 1 :]
    if np.unique(highest).size <= LEAST_TOP:
        return -np.inf  # too few to say; the effective sample size has to
    excess = highest[1:] - highest[0]
    above = 1 - (np.arange(1, count + 1) - 0.35) / count
    first, second = excess.mean(), (above * excess).mean()
    return float(2 - first / (first - 2 * second))


def pulls_and_radius(policy: Policy, bandit: Bandit, j: int, horizon: int, threshold: float) -> tuple[float, float]:
    """How often a better arm has been pulled when arm j has cost x, and the radius C there.

    Read from the policy's hyperparameters `schedule` and `radius`; one with neither is taken to pull log t times.
    """
    given = getattr(policy.validate, "keywords", {})
    t = jnp.asarray(min(max(threshold / bandit.gaps[j], 2.0), horizon), jnp.result_type(float))
    schedule, radius = given.get("schedule"), given.get("radius", 0.0)
    pulls = float(clamped(schedule, t, bandit.num_arms)) if schedule is not None else float(jnp.log(t))
    radius = float(radius(t, bandit.num_arms)) if callable(radius) else float(np.max(radius))
    return max(pulls, 1.0), radius
