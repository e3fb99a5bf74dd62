"""A bandit: K reward laws, their exact means and gaps, and the rewards any run would see."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from eljax import checks
from eljax.arms import law as device
from eljax.arms.base import Arm, frozen_array
from eljax.random import KeyData, arm_keys, seed_key


class Bandit:
    """K arms, numbered from 0. Immutable.

    Means, gaps and the best-arm set (`gaps == 0`) are float64 and exact to rounding: no tolerance decides who is best.

        >>> from eljax.arms import Bandit, gaussian
        >>> bandit = Bandit([gaussian(0.5, 1.0), gaussian(0.0, 1.0)], labels=["new", "old"])
        >>> bandit.gaps
        array([0. , 0.5])
        >>> bandit.rewards(seed=0, run=3, arm=1, pulls=5).shape  # the first five of arm 1 in run 3
        (5,)
    """

    __slots__ = ("arms", "gaps", "labels", "means")

    arms: tuple[Arm, ...]
    labels: tuple[str, ...]
    means: np.ndarray  # [K] float64
    gaps: np.ndarray  # [K] float64: best mean minus mean

    def __init__(self, arms: Sequence[Arm], labels: Sequence[str] | None = None):
        if isinstance(arms, Arm) or not isinstance(arms, Sequence) or len(arms) == 0:
            checks.fail("arms", arms, "a list of at least one arm, such as [gaussian(0.5, 1.0), gaussian(0.0, 1.0)]")
        for i, arm in enumerate(arms):
            if not isinstance(arm, Arm):
                checks.fail(f"arms[{i}]", arm, "an arm, such as gaussian(0.5, 1.0)")
        means = frozen_array([arm.mean for arm in arms])
        with np.errstate(over="ignore"):
            gaps = frozen_array(means.max() - means)
        if not np.isfinite(gaps).all():
            checks.fail("arms", means.tolist(), "such that the differences of their means are finite in float64")
        for name, value in {
            "arms": tuple(arms),
            "labels": _labels(labels, len(arms)),
            "means": means,
            "gaps": gaps,
        }.items():
            object.__setattr__(self, name, value)

    @property
    def num_arms(self) -> int:
        """K."""
        return len(self.arms)

    @property
    def best_mean(self) -> float:
        """The largest mean."""
        return float(self.means.max())

    def law(self, dtype: Any = None) -> device.Law:
        """The arms for the device, numbers in `dtype` (None follows x64): a pytree of NumPy arrays for a jitted call.

        Tables of equal parameters are made once per process. ValueError if an arm cannot be represented in `dtype`.
        """
        return device.build(self.arms, dtype=device.float_dtype(dtype))

    def rewards(self, *, seed: int, run: int, arm: int, pulls: int | ArrayLike, dtype: Any = None) -> np.ndarray:
        """The rewards that `arm` gives in `run`: the first `pulls`, or those of an array of 0-based pull numbers.

        What the simulator draws for the same seed, whatever its policy, horizon or batch: reward s is a pure function
        of (seed, run, arm, s). `dtype` None follows x64; float64 works with x64 off.
        """
        seed = checks.integer("seed", seed, low=0, high=2**64 - 1)
        run = checks.integer("run", run, low=0, high=2**32 - 1)
        arm = checks.integer("arm", arm, low=0, high=self.num_arms - 1)
        pulls = _pull_numbers(pulls)
        dtype = device.float_dtype(dtype)
        with device.precision(dtype):
            run_key = jax.random.fold_in(seed_key(seed), np.uint32(run))
            key = KeyData(*(x[arm] for x in arm_keys(run_key, self.num_arms)))
            x = device.in_tiles(device.pull_tile, self.law(dtype), arm, [pulls.ravel()], key)
        return x.reshape(pulls.shape)

    def __repr__(self) -> str:
        default = self.labels == _labels(None, self.num_arms)
        return f"Bandit([{', '.join(map(repr, self.arms))}]{'' if default else f', labels={list(self.labels)}'})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bandit):
            return NotImplemented
        return self.arms == other.arms and self.labels == other.labels

    def __hash__(self) -> int:
        return hash((self.arms, self.labels))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Bandit is immutable; make a new one instead of setting {name!r}")

    def __reduce__(self) -> tuple:
        return Bandit, (self.arms, self.labels)


def _labels(labels: Sequence[str] | None, num_arms: int) -> tuple[str, ...]:
    if labels is None:
        return tuple(f"arm {i}" for i in range(num_arms))
    allowed = f"{num_arms} different non-empty strings, one per arm"
    if isinstance(labels, str) or not isinstance(labels, Sequence) or len(labels) != num_arms:
        checks.fail("labels", labels, allowed)
    if not all(isinstance(x, str) and x for x in labels) or len(set(labels)) != num_arms:
        checks.fail("labels", labels, allowed)
    return tuple(labels)


def _pull_numbers(pulls: int | ArrayLike) -> np.ndarray:
    allowed = "a number of pulls >= 0, or an array of whole pull numbers in [0, 2**32)"
    if isinstance(pulls, bool) or pulls is None:
        checks.fail("pulls", pulls, allowed)
    numbers = np.asarray(pulls)
    if numbers.size == 0:
        return numbers.astype(np.uint32)
    if numbers.dtype.kind not in "iu" or int(numbers.min()) < 0 or int(numbers.max()) >= 2**32:
        checks.fail("pulls", pulls, allowed)
    return np.arange(int(numbers), dtype=np.uint32) if numbers.ndim == 0 else numbers.astype(np.uint32)
