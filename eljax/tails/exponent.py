"""How fast a regret tail decays: weighted least-squares fits of −log P.

For two Gaussian arms and a slowly varying schedule (Corollary 6.3 of the paper) −log P[R(T) > cT] ~ slope · n with
n = g(cT/Δ), the schedule when the event is decided, and slope = Δ²/2σ². At finite T a Gaussian probability carries a
prefactor, so what is fitted is

    −log P − ½ log n = intercept + slope · n         (prefactor=True)
    −log P           = intercept + slope · n         (prefactor=False)

Policies of logarithmic regret have power laws instead (Fan & Glynn 2024): with n ~ (1 + b) log x pulls of the best arm
and its mean d = Δ/σ standard deviations too low, −log P ≈ (1 + b) log x + d √(2 (1 + b) log x) + ..., so

    −log P = intercept + exponent · log x + root · √log x     (`fit_power_law`; root = 0 without the term)

and the exponent shows only once the root term is fitted too.
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
    n: np.ndarray  # [M] the schedule
    errors: np.ndarray  # [M] standard errors of log P; 0 where none were given

    def __str__(self) -> str:
        what = "−log P − ½ log n" if self.prefactor else "−log P"
        return f"{what} = {self.intercept:.4g} + ({self.slope:.4g} ± {self.standard_error:.2g}) n"


@dataclass(frozen=True)
class PowerLawFit:
    """A fitted power law; M points."""

    exponent: float  # of 1/x
    standard_error: float  # of the exponent: the larger of what the points' errors and what their scatter imply
    root: float  # coefficient of √log x; 0 if it was not fitted
    root_error: float  # its standard error
    intercept: float
    residuals: np.ndarray  # [M] nats: fitted minus given −log P

    def __str__(self) -> str:
        root = f" + ({self.root:.4g} ± {self.root_error:.2g}) √log x" if self.root else ""
        return f"−log P = {self.intercept:.4g} + ({self.exponent:.4g} ± {self.standard_error:.2g}) log x{root}"


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
    n, logs, errors = _points("schedule_values", schedule_values, log_probs, relative_errors, least=3)
    values = -logs - (0.5 * np.log(n) if prefactor else 0.0)
    (intercept, slope), (_, error), residuals = _least_squares([np.ones_like(n), n], values, errors)
    return ExponentFit(slope, error, intercept, residuals, prefactor, n, np.zeros_like(n) if errors is None else errors)


def fit_power_law(thresholds: Any, log_probs: Any, relative_errors: Any = None, *, root: bool = True) -> PowerLawFit:
    """Fit −log P[R(T) > x] against log x, and √log x unless `root` is False.

    Args:
      thresholds: [M] x > 1, in units in which the law is asked for (regret over the gap, say); at least four different.
      log_probs, relative_errors: [M] as for `fit_exponent`.

    Raises:
      ValueError: not as described.

    Example:
      >>> import numpy as np
      >>> from eljax import tails
      >>> x = np.array([10.0, 100.0, 1_000.0, 10_000.0])
      >>> print(tails.fit_power_law(x, -(2 + np.log(x) + 0.5 * np.sqrt(np.log(x)))))
      −log P = 2 + (1 ± 0) log x + (0.5 ± 0) √log x
    """
    x, logs, errors = _points("thresholds", thresholds, log_probs, relative_errors, least=4, low=1.0)
    terms = [np.ones_like(x), np.log(x), *([np.sqrt(np.log(x))] if root else [])]
    (intercept, exponent, *more), (_, error, *more_errors), residuals = _least_squares(terms, -logs, errors)
    return PowerLawFit(exponent, error, *(more or [0.0]), *(more_errors or [0.0]), intercept, residuals)


def _points(
    name: str, values: Any, log_probs: Any, relative_errors: Any, *, least: int, low: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The checked arrays; errors None where none are given."""
    x, logs = checks.numbers(name, values, least=least), checks.numbers("log_probs", log_probs, least=least)
    if (x <= low).any() or np.unique(x).size < least:
        checks.fail(name, values, f"all > {low:g}, with at least {least} different values")
    if logs.shape != x.shape:
        checks.fail("log_probs", f"shape {logs.shape}", f"of the shape {x.shape} of {name}")
    if relative_errors is None:
        return x, logs, None
    errors = checks.numbers("relative_errors", relative_errors, least=least)
    if errors.shape != x.shape or (errors <= 0).any():
        checks.fail("relative_errors", relative_errors, f"positive and of the shape {x.shape} of {name}")
    return x, logs, errors


def _least_squares(
    terms: list[np.ndarray], values: np.ndarray, errors: np.ndarray | None
) -> tuple[list[float], list[float], np.ndarray]:
    """(coefficients, their standard errors, [M] fitted minus given)."""
    scale = np.ones_like(values) if errors is None else errors
    design = np.column_stack(terms)
    orthogonal, triangle = np.linalg.qr(design / scale[:, None])
    coefficients = np.linalg.solve(triangle, orthogonal.T @ (values / scale))
    residuals = design @ coefficients - values
    freedom = values.size - len(terms)
    scatter = np.sum((residuals / scale) ** 2) / freedom if freedom else 0.0  # 1 if the stated errors are all there is
    spread = np.sqrt(np.sum(np.linalg.inv(triangle) ** 2, 1))
    found = np.sqrt(max(scatter, 0.0 if errors is None else 1.0)) * spread
    rounding = 1e-13 * np.abs(values).max() * spread / scale.min()
    return (
        [float(c) for c in coefficients],
        [float(e) if e > r else 0.0 for e, r in zip(found, rounding, strict=True)],
        residuals,
    )
