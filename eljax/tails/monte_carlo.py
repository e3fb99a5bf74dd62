"""P[R(T) > x] by plain simulation: the share of runs, with its exact (Clopper–Pearson) interval.

Runs stop as soon as the event is decided. With h hits in n runs the interval is that of a binomial proportion, which
holds for any h: with none it reaches from 0 to 1 − (α/2)^(1/n).
"""

import numpy as np

from eljax.arms import Bandit
from eljax.results import clopper_pearson
from eljax.tails import paths
from eljax.tails.estimates import TailEstimate
from eljax.types import Policy


def estimate(
    bandit: Bandit,
    policy: Policy,
    *,
    horizon: int,
    threshold: float,
    runs: int,
    seed: int,
    first_run: int = 0,
    progress: bool = False,
) -> TailEstimate:
    """From checked arguments; runs are numbered from `first_run` on."""
    found = paths.decide(
        bandit,
        policy,
        horizon=horizon,
        threshold=threshold,
        gaps=bandit.gaps,
        seed=seed,
        run_numbers=np.arange(first_run, first_run + runs),
        progress=progress,
    )
    return from_hits(int(found.hit.sum()), runs)


def from_hits(hits: int, runs: int) -> TailEstimate:
    """The estimate from the number of runs that hit the event."""
    lower, upper = clopper_pearson(hits, runs)
    share = hits / runs
    relative = float(np.sqrt((1 - share) / hits)) if hits else np.nan
    reason = "" if hits else f"none of {runs:,} runs hit the event"
    with np.errstate(divide="ignore"):
        logs = (float(x) for x in np.log([share, lower, upper]))
    log_prob, log_lower, log_upper = logs
    largest = 1 / hits if hits else np.nan
    return TailEstimate(log_prob, relative, log_lower, log_upper, "monte_carlo", runs, float(hits), largest, reason)
