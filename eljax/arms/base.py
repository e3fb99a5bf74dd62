"""A reward law as the user sees it: `Arm`, an immutable host object.

How to add a law (see `laplace` in closed_form.py, the shortest complete one):

1. a module-level quantile function   `_laplace(p, upper, mean, scale) -> x`
   of the mass p in [2^-64, 1/2] of the nearer tail and the flag `upper`: plain jax.numpy on scalars, any float dtype,
   never 1 - p in the upper tail, never rejection;
2. a registration `register_closed_form("laplace", _laplace, ("mean", "scale"), open_support=False)`
   (open_support=True has results clipped strictly inside a finite end of the support);
3. a constructor                       `def laplace(mean, scale) -> Arm` that checks its arguments and states mean,
   variance and support; then its name in arms/__init__.py and one line in the LAWS table of tests/law_table.py.

A law without a closed quantile gets a table (tabulated.py); one with data of its own registers a `stack` function
(discrete.py). Nothing else in the library knows the families by name.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eljax import checks
from eljax.arms import law as device


@dataclass(frozen=True, eq=False, repr=False)
class Arm:
    """One reward law. Two arms are equal if they have the same family and parameters, or the same finite support.

    Make one with `gaussian(0.5, 1.0)` and the like, not with this class.

        >>> from eljax.arms import bernoulli, discrete, gaussian
        >>> gaussian(0.5, 1.0)
        gaussian(mean=0.5, sigma=1.0)
        >>> discrete([1, 0], [0.25, 0.75]) == bernoulli(0.25)
        True
    """

    family: str
    parameters: Mapping[str, np.ndarray]  # float64, read-only: numbers, or arrays for laws given by data
    mean: float  # finite
    variance: float  # may be +inf
    support: tuple[float, float]  # ends of the smallest interval of probability one
    atoms: tuple[np.ndarray, np.ndarray] | None = field(
        default=None
    )  # (increasing values, probabilities > 0) if finite

    def quantile(self, p: ArrayLike, upper: ArrayLike = False) -> np.ndarray:
        """The reward at which the nearer tail has mass p in [2^-64, 1/2]: the lower tail, or the upper one if `upper`.

        This is the function the simulator draws with, in float64; p and upper broadcast.

            >>> from eljax.arms import exponential
            >>> float(exponential(2.0).quantile(0.5))  # 2 log 2
            1.3862943611198906
        """
        p, upper = np.broadcast_arrays(_tail_masses(p), np.asarray(upper, bool))
        with device.precision(np.dtype(np.float64)):
            law = device.build([self], np.float64)
            return device.in_tiles(device.reward_tile, law, 0, [p.ravel(), upper.ravel()]).reshape(p.shape)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_show(value)}" for name, value in self.parameters.items())
        return f"{self.family}({shown})"

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Arm) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        if self.atoms is not None:
            return tuple((x + 0.0).tobytes() for x in self.atoms)  # + 0.0: -0.0 is 0.0
        return self.family, *((float(x) + 0.0).hex() for x in self.parameters.values())


def make(
    family: str,
    parameters: Mapping[str, ArrayLike],
    *,
    mean: float,
    variance: float,
    support: tuple[float, float] = (-np.inf, np.inf),
    atoms: tuple[np.ndarray, np.ndarray] | None = None,
) -> Arm:
    """An arm with its parameters as read-only float64; ValueError if its mean overflows."""
    frozen = {name: frozen_array(value) for name, value in parameters.items()}
    if not np.isfinite(mean):
        given = ", ".join(f"{name}={_show(value)}" for name, value in frozen.items())
        checks.fail(f"the mean of {family}({given})", mean, "finite in float64")
    if atoms is not None:
        atoms = (frozen_array(atoms[0]), frozen_array(atoms[1]))
    ends = (float(support[0]), float(support[1]))
    return Arm(family, MappingProxyType(frozen), float(mean), float(variance), ends, atoms)


def frozen_array(value: ArrayLike) -> np.ndarray:
    """A read-only float64 copy."""
    x = np.array(value, np.float64)
    x.setflags(write=False)
    return x


def positive(name: str, value: Any, *, low: float = 0.0, high: float = np.inf) -> float:
    """A finite number > 0, in [low, high] where a narrower range is given."""
    return checks.number(name, value, low=low, high=high, open_low=low == 0.0)


def _tail_masses(p: ArrayLike) -> np.ndarray:
    allowed = "masses of the nearer tail, in [2**-64, 0.5] (for the other half pass 1 - p with upper=True)"
    try:
        x = np.asarray(p, np.float64)
    except (TypeError, ValueError):
        checks.fail("p", p, allowed)
    if not ((x >= device.SMALLEST_TAIL) & (x <= 0.5)).all():
        checks.fail("p", p, allowed)
    return x


def _show(value: np.ndarray) -> str:
    if value.ndim == 0:
        return repr(float(value))
    if value.size <= 8:
        return repr(value.tolist())
    digest = hashlib.sha256(value.tobytes()).hexdigest()[:12]  # which values: provenance is compared by this text
    return f"<{value.size} values from {value.min():g} to {value.max():g}, sha256 {digest}>"
