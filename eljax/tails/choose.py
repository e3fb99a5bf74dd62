"""P[R(T) > x] by the method that suits it: the front door of `eljax.tails`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eljax import checks
from eljax.arms import Arm, Bandit
from eljax.tails import cross_entropy, importance, monte_carlo, splitting
from eljax.tails.estimates import TailCurve, TailEstimate, setting
from eljax.types import Policy

PILOT = 2_000  # plain runs that `auto` looks at first
ENOUGH = 100  # hits that make plain simulation good enough: a relative error of 10%; or a quarter of all runs
CHECKED = 10  # hits of the pilot that are enough to check another method by
FIRST_RUN = 2**31 + 2**30  # of the pilot: none of its runs is used again
CHECK_SHARE, LEAST_CHECK = 8, 1_600  # of the runs, and particles at least, that splitting gets to check by
DISAGREE = 4.0  # standard errors of both


def estimate(
    bandit: Bandit,
    policy: Policy,
    *,
    horizon: int,
    threshold: float,
    method: str = "auto",
    runs: int = 20_000,
    tilts: str | Sequence[Sequence[Arm | float | None]] | None = None,
    seed: int = 0,
    progress: bool = False,
) -> TailEstimate:
    """P[R(T) > threshold] with its error.

    Args:
      bandit: the arms.
      policy: any policy, randomised ones included; importance sampling is made for those of largest index.
      horizon: T.
      threshold: x, in the unit of the rewards. Regrets of few arms lie on a lattice: choose x between its points.
      method: "monte_carlo" (plain runs, exact interval), "importance" (weighted runs of tilted laws), "splitting" (any
        law), or "auto": plain runs if a pilot of 2,000 promises 100 hits, else importance sampling where the arms have
        tilts (fitted ones if the default ones do badly), else splitting; checked against the pilot, and by splitting
        where the pilot has too few hits.
      runs: plain or weighted runs, or particles per stage of splitting.
      tilts: what importance sampling draws from. None: by the rate function of the policy's index, towards each arm
        that could cost the threshold; "fitted": from there by cross-entropy, with further runs; or a list of
        components, each with a law, a mean or None (as it is) for each arm, such as [[-0.2, None]].
      seed: whole number in [0, 2^64).
      progress: show a progress bar.

    Returns:
      A `TailEstimate`. `reason` says what `auto` chose and why, `doubts` what speaks against trusting the number.

    Raises:
      ValueError: for an argument out of range, or importance sampling of arms whose law has no tilt (Student t).

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> policy = eljax.policies.g_forcing(eljax.log_squared())
      >>> tail = eljax.tails.estimate(bandit, policy, horizon=300, threshold=150.5, method="importance", runs=2_000)
      >>> tail.method, 6e-5 < tail.probability < 1e-4  # the truth is 7.93e-5
      ('importance', True)
    """
    if not isinstance(bandit, Bandit):
        checks.fail("bandit", bandit, "an eljax.Bandit")
    if not isinstance(policy, Policy):
        checks.fail("policy", policy, "a policy, such as eljax.policies.el_f(eljax.log_squared())")
    horizon = checks.integer("horizon", horizon, low=1, high=2**31 - 64)
    threshold = checks.number("threshold", threshold)
    if not isinstance(method, str) or method not in METHODS:
        checks.fail("method", method, f"one of {', '.join(METHODS)}")
    runs = checks.integer("runs", runs, low=10, high=2**32 - 1)
    seed = checks.integer("seed", seed, low=0, high=2**64 - 1)
    if tilts is not None and method != "importance":
        checks.fail("tilts", tilts, f"None unless method is 'importance', which is {method!r}")
    if policy.validate is not None:
        policy.validate(bandit.num_arms, horizon)
    found = _known(bandit, horizon, threshold)
    if found is None:
        event = {"horizon": horizon, "threshold": threshold, "seed": seed, "progress": progress}
        more = {"tilts": tilts} if method == "importance" else {}
        found = METHODS[method](bandit, policy, runs=runs, **event, **more)
    return replace(found, setting=setting(bandit, policy, horizon, threshold, seed))


def curve(bandit: Bandit, policy: Policy, *, thresholds: Sequence[float], **options: Any) -> TailCurve:
    """P[R(T) > x] for each x of `thresholds`, by an estimate of its own (`options` are those of `estimate`).

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> policy = eljax.policies.g_forcing(eljax.log_squared())
      >>> found = eljax.tails.curve(bandit, policy, thresholds=[20.5, 99.5, 300], horizon=300, runs=1_000)
      >>> print(found.estimates[-1])
      P = 0 (exact; the event cannot happen: regret is at most 300)
    """
    thresholds = checks.numbers("thresholds", thresholds)
    return TailCurve(tuple(estimate(bandit, policy, threshold=float(x), **options) for x in thresholds))


def _known(bandit: Bandit, horizon: int, threshold: float) -> TailEstimate | None:
    """The probability of an event that cannot or must happen."""
    most = bandit.gaps.max() * horizon
    if threshold < 0:
        return TailEstimate(0.0, 0.0, 0.0, 0.0, "exact", 0, math.nan, reason="the event is certain: regret is >= 0")
    if threshold >= most:
        reason = f"the event cannot happen: regret is at most {most:g}"
        return TailEstimate(-math.inf, 0.0, -math.inf, -math.inf, "exact", 0, math.nan, reason=reason)
    return None


def _importance(
    bandit: Bandit, policy: Policy, *, horizon: int, threshold: float, runs: int, tilts: Any = None, **event
) -> TailEstimate:
    event |= {"horizon": horizon, "threshold": threshold}
    said = ""
    if tilts is None or isinstance(tilts, str):
        if tilts not in (None, "fitted"):
            checks.fail("tilts", tilts, 'None, "fitted", or a list of components')
        components = importance.mixture(bandit, policy, horizon, threshold)
        if tilts == "fitted":
            components, said = cross_entropy.fit(bandit, policy, components, runs=runs, **event)
    else:
        components = importance.given(bandit, tilts)
    return _because(importance.estimate(bandit, policy, runs=runs, components=components, **event), said)


def _auto(bandit: Bandit, policy: Policy, *, runs: int, **event) -> TailEstimate:
    pilot = monte_carlo.estimate(bandit, policy, runs=min(PILOT, runs), first_run=FIRST_RUN, **event)
    hits = f"{pilot.ess:.0f} of {pilot.runs:,} plain runs hit"
    if pilot.ess * runs / pilot.runs >= min(ENOUGH, runs / 4):
        found = monte_carlo.estimate(bandit, policy, runs=runs, **event)
        return _because(found, f"{hits}: plain simulation is enough")
    why = f"{hits}: too rare for plain simulation"
    bad = _not_tilted(bandit, policy, event["horizon"], event["threshold"])
    if bad:
        found = splitting.estimate(bandit, policy, runs=runs, **event)
        return _against(_because(found, f"{why}, and there is no tilt for it of {bad}"), pilot)
    found = _importance(bandit, policy, runs=runs, **event)
    if not found.trusted:
        fitted = _importance(bandit, policy, runs=runs, tilts="fitted", **event)
        why += ", the default tilts do badly"
        found = _better(found, fitted)
    if not found.trusted:
        why += ", and so do fitted ones"
        found = _better(found, splitting.estimate(bandit, policy, runs=runs, **event))
    if found.method == "importance" and found.trusted and pilot.ess < CHECKED:
        second = splitting.estimate(bandit, policy, runs=max(runs // CHECK_SHARE, LEAST_CHECK), **event)
        return _against(_compared(_because(found, why), second), pilot)
    return _against(_because(found, why), pilot)


def _better(*found: TailEstimate) -> TailEstimate:
    """The first that is to be trusted; of those that are not, the one of the smallest error."""
    error = lambda one: math.inf if math.isnan(one.relative_error) else one.relative_error  # noqa: E731
    return min(found, key=lambda one: (not one.trusted, 0.0 if one.trusted else error(one)))


def _not_tilted(bandit: Bandit, policy: Policy, horizon: int, threshold: float) -> str:
    """The better arms of a target arm that cannot be made to look as bad; empty if all can."""
    pairs = [
        (bandit.arms[i], target)
        for target in importance.targets(bandit, policy, horizon, threshold)
        for i in target.better
    ]
    return ", ".join(dict.fromkeys(repr(arm) for arm, target in pairs if not importance.can_tilt(arm, target)))


def _against(found: TailEstimate, pilot: TailEstimate) -> TailEstimate:
    """With a doubt if the plain runs of the pilot contradict it."""
    if not (found.log_lower > pilot.log_upper or found.log_upper < pilot.log_lower):
        return found
    low, high = np.exp([pilot.log_lower, pilot.log_upper])
    return _doubted(found, f"the plain runs say [{low:.2g}, {high:.2g}]")


def _compared(found: TailEstimate, second: TailEstimate) -> TailEstimate:
    """An estimate by importance sampling with what splitting says to it."""
    if not math.isfinite(second.log_prob):
        return replace(found, reason=f"{found.reason}; splitting could not check it ({second.reason})")
    says = f"splitting with {second.runs:,} particles says {np.exp(second.log_prob):.2g} ± {second.relative_error:.0%}"
    errors = [math.sqrt(math.log1p(one.relative_error**2)) for one in (found, second)]
    far = abs(found.log_prob - second.log_prob) > DISAGREE * math.hypot(*errors)
    return _doubted(found, says) if far else replace(found, reason=f"{found.reason}; {says}, which agrees")


def _doubted(found: TailEstimate, doubt: str) -> TailEstimate:
    return replace(found, doubts=(*found.doubts, doubt))


def _because(found: TailEstimate, why: str) -> TailEstimate:
    return replace(found, reason="; ".join(part for part in (why, found.reason) if part))


METHODS = {
    "auto": _auto,
    "monte_carlo": monte_carlo.estimate,
    "importance": _importance,
    "splitting": splitting.estimate,
}
