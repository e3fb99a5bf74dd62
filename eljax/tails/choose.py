"""P[R(T) > x] by the method that suits it: the front door of `eljax.tails`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eljax import checks
from eljax.arms import Bandit
from eljax.tails import importance, monte_carlo, splitting
from eljax.tails.estimates import TailCurve, TailEstimate, setting
from eljax.types import Policy

PILOT = 2_000  # plain runs that `auto` looks at first
ENOUGH = 100  # hits that make plain simulation good enough: a relative error of 10%


def estimate(
    bandit: Bandit,
    policy: Policy,
    *,
    horizon: int,
    threshold: float,
    method: str = "auto",
    runs: int = 20_000,
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
        tilts, else splitting; checked against the pilot.
      runs: plain or weighted runs, or particles per stage of splitting.
      seed: whole number in [0, 2^64).
      progress: show a progress bar.

    Returns:
      A `TailEstimate`. `reason` says what `auto` chose and why, and what speaks against trusting the number.

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
    if method not in _BY:
        checks.fail("method", method, f"one of {', '.join(_BY)}")
    runs = checks.integer("runs", runs, low=10, high=2**32 - 1)
    seed = checks.integer("seed", seed, low=0, high=2**64 - 1)
    if policy.validate is not None:
        policy.validate(bandit.num_arms, horizon)
    found = _known(bandit, horizon, threshold)
    if found is None:
        plain = {"horizon": horizon, "threshold": threshold, "seed": seed, "progress": progress}
        found = _BY[method](bandit, policy, runs, plain)
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


def _monte_carlo(bandit: Bandit, policy: Policy, runs: int, plain: dict) -> TailEstimate:
    return monte_carlo.estimate(bandit, policy, runs=runs, **plain)


def _splitting(bandit: Bandit, policy: Policy, runs: int, plain: dict) -> TailEstimate:
    return splitting.estimate(bandit, policy, runs=runs, **plain)


def _importance(bandit: Bandit, policy: Policy, runs: int, plain: dict) -> TailEstimate:
    components = importance.mixture(bandit, policy, plain["horizon"], plain["threshold"])
    return importance.estimate(bandit, policy, runs=runs, components=components, **plain)


def _auto(bandit: Bandit, policy: Policy, runs: int, plain: dict) -> TailEstimate:
    pilot = _monte_carlo(bandit, policy, min(PILOT, runs), plain)
    expected = pilot.ess * runs / pilot.runs
    if expected >= ENOUGH:
        found = pilot if pilot.runs == runs else _monte_carlo(bandit, policy, runs, plain)
        return _because(found, f"{pilot.ess:.0f} of {pilot.runs:,} plain runs hit: plain simulation is enough")
    why = f"{pilot.ess:.0f} of {pilot.runs:,} plain runs hit: too rare for plain simulation"
    try:
        found = _importance(bandit, policy, runs, plain)
    except ValueError as error:
        why += f", and importance sampling is not possible ({error})"
        found = _splitting(bandit, policy, runs, plain)
    if not found.log_lower <= pilot.log_upper or not found.log_upper >= pilot.log_lower:
        low, high = np.exp([pilot.log_lower, pilot.log_upper])
        why += f"; do not trust: the plain runs say [{low:.2g}, {high:.2g}]"
    return _because(found, why)


def _because(found: TailEstimate, why: str) -> TailEstimate:
    return replace(found, reason=f"{why}; {found.reason}" if found.reason else why)


_BY = {"auto": _auto, "monte_carlo": _monte_carlo, "importance": _importance, "splitting": _splitting}
