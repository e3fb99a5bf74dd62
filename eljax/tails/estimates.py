"""What an estimate of a regret tail P[R(T) > x] consists of."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TailEstimate:
    """An estimate of P[R(T) > x], with natural logarithms so that 1e-300 and less can be told.

    `log_lower` and `log_upper` are the ends of a 95% interval; for an exact value they are the value itself.
    """

    log_prob: float  # −inf for an event that cannot happen
    relative_error: float  # standard error over the estimate; 0 if exact, NaN if no run hit the event
    log_lower: float
    log_upper: float
    method: str  # "exact", "monte_carlo", "importance" or "splitting"
    runs: int  # simulated; 0 if exact
    ess: float  # effective sample size: how many plain runs that hit the event it is worth; NaN if exact
    largest_weight: float = np.nan  # share of the largest weight in the sum of weights; near 1: do not trust
    reason: str = ""  # why the method was chosen, why the estimate is 0 or 1, or why not to trust it
    expected_regret: float = np.nan  # E[R(T)], where it comes with the method

    @property
    def probability(self) -> float:
        """P[R(T) > x]; 0 where it is smaller than any float64."""
        return float(np.exp(self.log_prob))

    def __str__(self) -> str:
        spread = "" if self.method == "exact" else f"relative error {self.relative_error:.2g}, "
        digits = 12 if self.method == "exact" else 4
        value = f"{self.probability:.{digits}g}" if self.log_prob > -700 else f"exp({self.log_prob:.{digits}g})"
        note = f"; {self.reason}" if self.reason else ""
        return f"P = {value} ({spread}{self.method}{note})"
