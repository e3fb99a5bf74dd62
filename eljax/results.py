"""What a simulation returns: pseudo-regret, pulls, their summaries, and where they came from. No JAX is needed here.

Pseudo-regret of one run after round t, with gap Δ_i of arm i and N_i(t + 1) pulls of it in rounds 1..t:

    R(t) = Σ_i Δ_i N_i(t + 1)

It is computed in float64 from whole numbers of pulls, so it is never negative and never decreases.
Axis letters: R runs, K arms, C checkpoints, Q quantiles.
"""

import json
import math
import os
import secrets
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

FORMAT = "eljax.Result"
FORMAT_VERSION = 1


class TailProbability(NamedTuple):
    """An estimate of P[R(T) > x] with the ends of its exact confidence interval."""

    probability: Any  # float, or float64 array of the shape of x
    lower: Any
    upper: Any


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """R runs of one policy on one bandit. Rewards are unitless; regret is in units of the reward.

    The engine makes it with `from_pulls`. Arrays are read-only; two results are equal when every number is.

    >>> forced = [[1, 1], [1, 2]]
    >>> result = Result.from_pulls([[[1, 1], [3, 1]], [[1, 1], [2, 2]]], [2, 4], forced, [0.0, 0.5])
    >>> result.mean()
    array([0.5 , 0.75])
    """

    regret: np.ndarray  # [R, C] float64: pseudo-regret after each checkpoint's round
    checkpoints: np.ndarray  # [C] int64: rounds, increasing; the last one is the horizon T unless asked otherwise
    pulls: np.ndarray  # [R, K] int64: pulls of each arm in all T rounds
    forced_pulls: np.ndarray  # [R, K] int64: those made by forced exploration
    gaps: np.ndarray  # [K] float64: best mean minus mean of each arm, >= 0
    max_index_error: float  # largest error bound of indices whose values decided, relative to (index - mean)
    uncertified_decisions: int  # decisions that index errors may have changed, after exact re-runs
    provenance: dict[str, Any]  # JSON-able: versions, seed, horizon, runs, dtype, backend, bandit, policy, labels

    def __post_init__(self) -> None:
        for name in ("regret", "checkpoints", "pulls", "forced_pulls", "gaps"):
            dtype = np.float64 if name in ("regret", "gaps") else np.int64
            array = np.asarray(getattr(self, name))
            _require(dtype == np.float64 or array.dtype.kind in "iu", name, "an array of whole numbers", array.dtype)
            array = array.astype(dtype, copy=False).view()
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        _require(self.regret.ndim == 2 and self.regret.size > 0, "regret", "[R, C]", self.regret.shape)
        _require(self.gaps.ndim == 1 and self.gaps.size > 0, "gaps", "[K]", self.gaps.shape)
        _require(bool((self.gaps >= 0).all() & np.isfinite(self.gaps).all()), "gaps", "finite and >= 0", self.gaps)
        (runs, num_checkpoints), num_arms = self.regret.shape, self.gaps.size
        _require(self.checkpoints.shape == (num_checkpoints,), "checkpoints", f"[{num_checkpoints}]", self.checkpoints)
        ascending = self.checkpoints[0] >= 1 and (np.diff(self.checkpoints) > 0).all()
        _require(bool(ascending), "checkpoints", "increasing rounds >= 1", self.checkpoints)
        for name in ("pulls", "forced_pulls"):
            shape = getattr(self, name).shape
            _require(shape == (runs, num_arms), name, f"of shape {(runs, num_arms)} (runs, arms)", shape)
        rounds = self.pulls.sum(axis=1)
        complete = rounds.min() == rounds.max() >= self.checkpoints[-1]
        _require(bool(complete), "pulls", "as many in every run, and as many as the last checkpoint or more", rounds)
        try:  # a round trip through JSON now, so that what is saved later equals what is held
            provenance = json.loads(json.dumps(self.provenance, default=_plain))
        except (TypeError, ValueError) as error:
            raise ValueError(f"provenance must be JSON-able: {error}") from error
        object.__setattr__(self, "provenance", provenance)
        object.__setattr__(self, "max_index_error", float(self.max_index_error))
        object.__setattr__(self, "uncertified_decisions", int(self.uncertified_decisions))

    @classmethod
    def from_pulls(
        cls,
        checkpoint_pulls: Any,
        checkpoints: Any,
        forced_pulls: Any,
        gaps: Any,
        max_index_error: float = 0.0,
        uncertified_decisions: int = 0,
        provenance: dict[str, Any] | None = None,
        *,
        pulls: Any = None,
    ) -> "Result":
        """From pulls [R, C, K] of each arm up to and with each checkpoint's round, which are summed, not kept.

        `forced_pulls` and `pulls` [R, K] are those of all T rounds; `pulls` is left out where the last checkpoint is
        T. ValueError where shapes disagree, or where some run's pulls at a checkpoint do not sum to its round.
        """
        counts, rounds, gaps = np.asarray(checkpoint_pulls), np.asarray(checkpoints), np.asarray(gaps, np.float64)
        _require(counts.ndim == 3 and counts.size > 0, "checkpoint_pulls", "[R, C, K]", counts.shape)
        _require(counts.dtype.kind in "iu", "checkpoint_pulls", "an array of whole numbers", counts.dtype)
        _require(gaps.shape == counts.shape[2:], "gaps", f"of shape {counts.shape[2:]}", gaps.shape)
        _require(rounds.shape == counts.shape[1:2], "checkpoints", f"of shape {counts.shape[1:2]}", rounds.shape)
        totals = counts.sum(axis=2, dtype=np.int64)
        _require(bool((totals == rounds).all()), "checkpoint_pulls", "pulls that sum to the checkpoints", totals)
        regret = pseudo_regret(counts, gaps)
        # A copy: a view would keep the whole [R, C, K].
        pulls = counts[:, -1].astype(np.int64) if pulls is None else pulls
        return cls(
            regret, rounds, pulls, forced_pulls, gaps, max_index_error, uncertified_decisions, dict(provenance or {})
        )

    @property
    def runs(self) -> int:
        """R, the number of runs."""
        return self.regret.shape[0]

    @property
    def horizon(self) -> int:
        """T, the number of rounds of each run."""
        return int(self.pulls[0].sum())

    def mean(self) -> np.ndarray:
        """[C]: mean regret over runs at each checkpoint."""
        return self.regret.mean(axis=0)

    def standard_error(self) -> np.ndarray:
        """[C]: standard error of `mean`, sd/√R with sd in its 1/(R − 1) form; NaN for one run."""
        if self.runs == 1:
            return np.full(self.checkpoints.size, math.nan)
        return self.regret.std(axis=0, ddof=1) / math.sqrt(self.runs)

    def median(self) -> np.ndarray:
        """[C]: median regret over runs at each checkpoint."""
        return np.median(self.regret, axis=0)

    def median_standard_error(self) -> np.ndarray:
        """[C]: distribution-free standard error of `median`; NaN for one run.

        The rank of the median is known to within one binomial standard deviation, √R/2 of R ranks; half the distance
        between the quantiles ½ − 1/(2√R) and ½ + 1/(2√R) is that interval's half-width. 0 where the runs around the
        median agree, as regrets on a lattice often do.
        """
        if self.runs == 1:
            return np.full(self.checkpoints.size, math.nan)
        half = 0.5 / math.sqrt(self.runs)
        low, high = np.quantile(self.regret, [0.5 - half, 0.5 + half], axis=0)
        return (high - low) / 2

    def quantile(self, q: Any) -> np.ndarray:
        """[C] for one q in [0, 1], or [Q, C] for Q of them: quantiles over runs, interpolated linearly."""
        probabilities = _numbers("q", q, "a number in [0, 1], or a list of them")
        _require(probabilities.ndim <= 1 and probabilities.size > 0, "q", "a number or a list of numbers", q)
        _require(bool(((probabilities >= 0) & (probabilities <= 1)).all()), "q", "in [0, 1]", q)
        return np.quantile(self.regret, probabilities, axis=0)

    def tail(self, x: Any, *, confidence: float = 0.95) -> TailProbability:
        """P[regret > x] at the last checkpoint: share of runs, and both ends of the Clopper–Pearson interval.

        x is one threshold or an array of them. The interval covers with at least the given confidence, whatever the
        law; with no hit it is [0, 1 − ((1 − confidence)/2)^(1/R)], not a point. Where regrets lie on a lattice kΔ,
        use x = (k + ½)Δ: at x = kΔ the rounding of Δ would decide.
        """
        thresholds = _numbers("x", x, "a finite number, or an array of them")
        level = _numbers("confidence", confidence, "a number in (0, 1)")
        _require(level.ndim == 0 and 0 < level < 1, "confidence", "a number in (0, 1)", confidence)
        final = np.sort(self.regret[:, -1])
        hits = self.runs - np.searchsorted(final, thresholds, side="right")
        values = (hits / self.runs, *clopper_pearson(hits, self.runs, float(level)))
        return TailProbability(*(v if thresholds.ndim else float(v) for v in values))

    def best_arm_share(self) -> np.ndarray:
        """[R]: share of each run's pulls that went to arms of exactly the best mean."""
        return self.pulls[:, self.gaps == 0].sum(axis=1) / self.pulls.sum(axis=1)

    def save(self, path: str | os.PathLike) -> None:
        """Write one npz file (arrays, and provenance as JSON) under exactly this name; a crash leaves no half file.

        OSError or ValueError naming `path` where its folder is missing or cannot be written.
        """
        target = writable(path)
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "provenance"}
        arrays |= {"format": FORMAT, "version": FORMAT_VERSION, "provenance": json.dumps(self.provenance)}
        scratch = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        try:
            with open(scratch, "xb") as file:  # a file object: given a name, NumPy would append ".npz" to it
                np.savez(file, **arrays)
            os.replace(scratch, target)
        finally:
            scratch.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Result":
        """Read what `save` wrote; nothing in the file is executed.

        FileNotFoundError where there is no file; ValueError where it is damaged, foreign, or of another version.
        """
        source = _as_path(path)
        if not source.is_file():
            raise FileNotFoundError(f"path must be a file written by Result.save, found no file at {str(path)!r}")
        try:
            with open(source, "rb") as file, np.load(file, allow_pickle=False) as archive:
                content = {name: archive[name] for name in archive.files}
            kind, version = str(content.pop("format")), int(content.pop("version"))
        except Exception as error:  # zipfile, zlib, NumPy and struct each complain of damage in their own way
            raise ValueError(f"path {str(path)!r} is not an intact file written by Result.save: {error!r}") from error
        if kind != FORMAT or version != FORMAT_VERSION:
            raise ValueError(
                f"path {str(path)!r} holds {kind!r} version {version}; this eljax reads {FORMAT!r} version "
                f"{FORMAT_VERSION}"
            )
        try:
            return cls(**(content | {"provenance": json.loads(str(content["provenance"]))}))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"path {str(path)!r} does not hold a complete result: {error}") from error

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` with dimensions run, checkpoint and arm; provenance becomes its attributes."""
        import xarray as xr

        labels = self.provenance.get("labels") or list(range(self.gaps.size))
        attributes = {k: v if isinstance(v, str | int | float) else json.dumps(v) for k, v in self.provenance.items()}
        attributes |= {
            "max_index_error": self.max_index_error,
            "uncertified_decisions": self.uncertified_decisions,
        }
        return xr.Dataset(
            {
                "regret": (("run", "checkpoint"), self.regret, {"long_name": "pseudo-regret"}),
                "pulls": (("run", "arm"), self.pulls, {"long_name": "pulls of each arm in all rounds"}),
                "forced_pulls": (("run", "arm"), self.forced_pulls, {"long_name": "pulls by forced exploration"}),
                "gaps": (("arm",), self.gaps, {"long_name": "best mean minus mean of the arm"}),
            },
            coords={"run": np.arange(self.runs), "checkpoint": self.checkpoints, "arm": labels},
            attrs=attributes,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        pairs = [(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.name != "provenance"]
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
        return same and self.provenance == other.provenance

    def __repr__(self) -> str:
        policy = self.provenance.get("policy", "a policy")
        error = "" if self.runs == 1 else f" ± {readable(self.standard_error()[-1], 2)} (s.e.)"
        runs = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
        return (
            f"<Result of {policy}: {runs} of {self.horizon:,} rounds on {self.gaps.size} arms; "
            f"regret after round {self.checkpoints[-1]:,}: mean {readable(self.mean()[-1])}{error}, "
            f"median {readable(self.median()[-1])}>"
        )


def pseudo_regret(pulls: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """[R, C] float64 from pulls [R, C, K] and gaps [K] float64."""
    # Arm by arm in one fixed order, not a matrix product: rounding is then monotone, so regret never decreases.
    regret = np.zeros(pulls.shape[:2])
    for arm, gap in enumerate(gaps):
        regret += gap * pulls[:, :, arm]
    return regret


def clopper_pearson(hits: Any, runs: int, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the exact interval of a probability, from how many of the runs hit."""
    alpha, misses = 1 - confidence, runs - np.asarray(hits)
    # Where a Beta parameter would be 0 the end is known; 1 stands in for it so that scipy has nothing to warn of.
    lower = np.where(hits == 0, 0.0, stats.beta.ppf(alpha / 2, np.maximum(hits, 1), misses + 1))
    upper = np.where(misses == 0, 1.0, stats.beta.ppf(1 - alpha / 2, hits + 1, np.maximum(misses, 1)))
    return lower, upper


def readable(x: float, digits: int = 4) -> str:
    """A number to `digits` significant digits without an exponent (12,345 and 0.0123), for people; 1e-7 stays 1e-7."""
    if not math.isfinite(x) or x == 0 or not 1e-4 <= abs(x) < 1e12:
        return f"{x:.{digits}g}"
    exponent = int(f"{x:.{digits - 1}e}".partition("e")[2])  # of the rounded number: 0.99999 is 1.000
    return f"{x:,.{max(0, digits - 1 - exponent)}f}"


def writable(path: Any) -> Path:
    """The path, once it is known that a file can be put there; OSError or ValueError naming `path` otherwise."""
    target = _as_path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path must lie in an existing folder, got {str(path)!r}")
    if target.is_dir():
        raise IsADirectoryError(f"path must name a file, got the folder {str(path)!r}")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"path must lie in a writable folder, got {str(path)!r}")
    return target


def _as_path(path: Any) -> Path:
    _require(isinstance(path, str | os.PathLike) and str(path) != "", "path", "a file name", path)
    return Path(path)


def _numbers(name: str, value: Any, allowed: str) -> np.ndarray:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        array = np.array(math.nan)
    _require(bool(np.isfinite(array).all()) and not isinstance(value, str | bytes | bool), name, allowed, value)
    return array


def _require(holds: bool, name: str, allowed: str, value: Any) -> None:
    if not holds:
        shown = repr(value)
        raise ValueError(f"{name} must be {allowed}, got {shown if len(shown) <= 80 else shown[:77] + '...'}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON-able")
