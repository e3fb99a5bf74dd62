"""How fast a regret tail decays: weighted least-squares fits of −log P.

For two Gaussian arms and a slowly varying schedule (Corollary 6.3 of the paper) −log P[R(T) > cT] ~ slope · n with
n = g(cT/Δ), the schedule when the event is decided, and slope = Δ²/2σ². At finite T a Gaussian probability carries a
prefactor, so what is fitted is

    −log P − ½ log n = intercept + slope · n         (prefactor=True)
    −log P           = intercept + slope · n         (prefactor=False)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eljax import checks


@dataclass(frozen=True)
class ExponentFit:
    """A fitted line; M points."""

    slope: float  # nats per unit of the schedule
    standard_error: float  # of the slope: the larger of what the points' errors and what their scatter imply
    intercept: float
    residuals: np.ndarray  # [M] nats: fitted minus given −log P
    prefactor: bool

    def __str__(self) -> str:
        what = "−log P − ½ log n" if self.prefactor else "−log P"
        return f"{what} = {self.intercept:.4g} + ({self.slope:.4g} ± {self.standard_error:.2g}) n"


def fit_exponent(
    schedule_values: Any, log_probs: Any, relative_errors: Any = None, *, prefactor: bool = True
) -> ExponentFit:
    """Fit −log P against n.

    Args:
      schedule_values: [M] n > 0, such as g(cT/Δ) at several horizons; at least three different ones. Pulls are whole
        numbers, so P falls in steps: take many horizons.
      log_probs: [M] log P of each, finite.
      relative_errors: [M] standard errors of P relative to P, > 0: the errors of log P. None: all alike.
      prefactor: whether ½ log n is taken off first.

    Raises:
      ValueError: not as described.

    Example:
      >>> import numpy as np
      >>> from eljax import tails
      >>> n = np.array([10.0, 20.0, 30.0, 40.0])
      >>> print(tails.fit_exponent(n, -(1.5 + 0.5 * n + 0.5 * np.log(n))))
      −log P − ½ log n = 1.5 + (0.5 ± 0) n
    """
    n, logs = (
        checks.numbers("schedule_values", schedule_values, least=3),
        checks.numbers("log_probs", log_probs, least=3),
    )
    if (n <= 0).any() or np.unique(n).size < 3:
        checks.fail("schedule_values", schedule_values, "positive, with at least three different values")
    if logs.shape != n.shape:
        checks.fail("log_probs", f"shape {logs.shape}", f"of the shape {n.shape} of schedule_values")
    errors = np.ones_like(n) if relative_errors is None else checks.numbers("relative_errors", relative_errors, least=3)
    if errors.shape != n.shape or (errors <= 0).any():
        checks.fail("relative_errors", relative_errors, f"positive and of the shape {n.shape} of schedule_values")

    values = -logs - (0.5 * np.log(n) if prefactor else 0.0)
    weights = 1 / errors**2
    centre = np.average(n, weights=weights)
    spread = np.sum(weights * (n - centre) ** 2)
    slope = float(np.sum(weights * (n - centre) * values) / spread)
    intercept = float(np.average(values, weights=weights) - slope * centre)
    residuals = intercept + slope * n - values
    scatter = np.sum(weights * residuals**2) / (n.size - 2)  # 1 if the stated errors are all there is
    stated = 0.0 if relative_errors is None else 1.0
    standard_error = float(np.sqrt(max(scatter, stated) / spread))
    if standard_error < 1e-14 * abs(slope):  # rounding
        standard_error = 0.0
    return ExponentFit(slope, standard_error, intercept, residuals, prefactor)
