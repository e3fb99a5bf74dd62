"""What an estimate of a regret tail P[R(T) > x] consists of, alone and over several thresholds x; files of them."""

import json
import math
import os
import secrets
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from eljax.arms import Bandit
from eljax.results import writable
from eljax.types import Policy, describe

FORMAT, FORMAT_VERSION = "eljax.TailCurve", 1


@dataclass(frozen=True)
class TailEstimate:
    """An estimate of P[R(T) > x], with natural logarithms so that 1e-300 and less can be told.

    `log_lower` and `log_upper` are the ends of a 95% interval; for an exact value they are the value itself. Weights of
    importance sampling that say nothing give NaN, with an interval from the plain runs alone, and `reason` says why.
    """

    log_prob: float  # −inf for an event that cannot happen, or that no run hit
    relative_error: float  # standard error over the estimate; 0 if exact, NaN if no run hit the event
    log_lower: float
    log_upper: float
    method: str  # "exact", "monte_carlo", "importance" or "splitting"
    runs: int  # simulated; 0 if exact
    ess: float  # effective sample size: how many plain runs that hit the event it is worth; NaN if exact
    largest_weight: float = math.nan  # share of the largest weight in the sum of weights; near 1: do not trust
    reason: str = ""  # why the method was chosen, or why the estimate is 0, 1 or NaN
    doubts: tuple[str, ...] = ()  # what speaks against the number
    expected_regret: float = math.nan  # E[R(T)], where it comes with the method
    shares: tuple[float, ...] = ()  # of splitting: the share of particles that got from each level to the next
    setting: dict[str, Any] = field(default_factory=dict)  # JSON-able: bandit, policy, horizon, threshold, seed

    @property
    def probability(self) -> float:
        """P[R(T) > x]; 0 where it is smaller than any float64."""
        return float(np.exp(self.log_prob))

    @property
    def trusted(self) -> bool:
        """Whether it is a number with an error, and nothing speaks against it; `doubts` and `reason` say what does."""
        known = self.method == "exact" or (math.isfinite(self.log_prob) and math.isfinite(self.relative_error))
        return known and not self.doubts

    def __str__(self) -> str:
        spread = "" if self.method == "exact" else f"relative error {self.relative_error:.2g}, "
        digits = 12 if self.method == "exact" else 4
        small = -math.inf < self.log_prob <= -700
        value = f"exp({self.log_prob:.{digits}g})" if small else f"{self.probability:.{digits}g}"
        doubts = f"do not trust: {', '.join(self.doubts)}" if self.doubts else ""
        note = "".join(f"; {part}" for part in (self.reason, doubts) if part)
        return f"P = {value} ({spread}{self.method}{note})"

    def save(self, path: str | os.PathLike) -> None:
        """Write a JSON file; OSError or ValueError naming `path` where it cannot be written."""
        TailCurve((self,)).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "TailEstimate":
        """Read what `save` wrote; ValueError where it is something else."""
        estimates = TailCurve.load(path).estimates
        if len(estimates) != 1:
            raise ValueError(f"path {str(path)!r} holds {len(estimates)} estimates: read it with TailCurve.load")
        return estimates[0]


@dataclass(frozen=True)
class TailCurve:
    """P[R(T) > x] at several thresholds x: what `eljax.tails.curve` returns.

    >>> one = TailEstimate(-2.0, 0.1, -2.2, -1.8, "importance", 100, 50.0, setting={"threshold": 3.5})
    >>> TailCurve((one,)).thresholds
    array([3.5])
    """

    estimates: tuple[TailEstimate, ...]

    @property
    def thresholds(self) -> np.ndarray:
        """[M]: x, in the unit of the rewards."""
        return np.array([one.setting["threshold"] for one in self.estimates], np.float64)

    @property
    def log_probs(self) -> np.ndarray:
        """[M]: log P, natural."""
        return self._each("log_prob")

    @property
    def relative_errors(self) -> np.ndarray:
        """[M]: standard errors over the estimates."""
        return self._each("relative_error")

    def _each(self, name: str) -> np.ndarray:
        return np.array([getattr(one, name) for one in self.estimates])

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` over the dimension threshold; what all estimates share becomes its attributes."""
        import xarray as xr

        names = ("log_prob", "relative_error", "log_lower", "log_upper", "method", "runs", "ess", "reason", "trusted")
        shared = {k: v for k, v in self.estimates[0].setting.items() if k != "threshold"}
        attributes = {k: v if isinstance(v, str | int | float) else json.dumps(v) for k, v in shared.items()}
        variables = {name: ("threshold", self._each(name)) for name in names}
        return xr.Dataset(variables, coords={"threshold": self.thresholds}, attrs=attributes)

    def save(self, path: str | os.PathLike) -> None:
        """Write a JSON file; a crash leaves no half file. OSError or ValueError naming `path` if it cannot be done."""
        target = writable(path)
        content = {"format": FORMAT, "version": FORMAT_VERSION, "estimates": [asdict(one) for one in self.estimates]}
        scratch = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        try:
            scratch.write_text(json.dumps(content, indent=1))  # NaN and Infinity as Python's json reads them
            os.replace(scratch, target)
        finally:
            scratch.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "TailCurve":
        """Read what `save` wrote. FileNotFoundError, or ValueError where it is damaged, foreign or another version."""
        source = Path(path)
        if not source.is_file():
            raise FileNotFoundError(f"path must be a file written by save, found no file at {str(path)!r}")
        try:
            content = json.loads(source.read_text())
            if (content["format"], content["version"]) != (FORMAT, FORMAT_VERSION):
                raise ValueError(f"{content['format']!r} version {content['version']}")
            rows = [row | {name: tuple(row[name]) for name in ("shares", "doubts")} for row in content["estimates"]]
            return cls(tuple(TailEstimate(**row) for row in rows))
        except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise ValueError(
                f"path {str(path)!r} is not an intact file written by save ({FORMAT} {FORMAT_VERSION}): {error!r}"
            ) from error


def setting(bandit: Bandit, policy: Policy, horizon: int, threshold: float, seed: int | None) -> dict[str, Any]:
    """What an estimate is of, JSON-able."""
    return {
        "bandit": [repr(arm) for arm in bandit.arms],
        "labels": list(bandit.labels),
        "policy": describe(policy),
        "horizon": horizon,
        "threshold": threshold,
        "seed": seed,
        "versions": {name: version(name) for name in ("eljax", "jax", "jaxlib", "numpy")},
    }
