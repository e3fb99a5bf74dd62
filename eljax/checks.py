"""Validation of arguments on the host: a ValueError naming argument, value and what is allowed, before compiling."""

import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def fail(name: str, value: Any, allowed: str) -> None:
    """Raise the one kind of error every check raises."""
    shown = repr(value)
    raise ValueError(f"{name} must be {allowed}, got {shown if len(shown) <= 80 else shown[:77] + '...'}")


def integer(name: str, value: Any, *, low: int | None = None, high: int | None = None) -> int:
    """A whole number in [low, high]; booleans and floats are refused."""
    allowed = "a whole number" + _range(low, high)
    if isinstance(value, bool | np.bool_):
        fail(name, value, allowed)
    try:
        whole = operator.index(value)
    except TypeError:
        fail(name, value, allowed)
    if (low is not None and whole < low) or (high is not None and whole > high):
        fail(name, value, allowed)
    return whole


def number(name: str, value: Any, *, low: float = -math.inf, high: float = math.inf, open_low: bool = False) -> float:
    """A finite number in [low, high], or in (low, high] with `open_low`."""
    allowed = "a finite number" + _range(low, high, open_low)
    if isinstance(value, str | bytes | bool | None):
        fail(name, value, allowed)
    try:
        x = float(value)
    except (TypeError, ValueError, OverflowError):
        fail(name, value, allowed)
    if not math.isfinite(x) or x < low or x > high or (open_low and x == low):
        fail(name, value, allowed)
    return x


def numbers(name: str, value: Any, *, least: int = 1) -> np.ndarray:
    """A one-dimensional float64 array of at least `least` finite numbers."""
    allowed = f"a one-dimensional array of at least {least} finite numbers"
    try:
        x = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        fail(name, value, allowed)
    if x.ndim != 1 or x.size < least or not np.isfinite(x).all():
        fail(name, value, allowed)
    return x


def hyperparameter(name: str, value: Any, *, low: float = -math.inf, open_low: bool = False) -> Any:
    """A number, or an array of numbers (one per lane of a vmap); traced values pass, they cannot be looked at."""
    if isinstance(value, jax.core.Tracer):
        return value
    if isinstance(value, np.ndarray | jax.Array) and value.ndim > 0:
        for x in np.asarray(value, np.float64).ravel():
            number(name, x, low=low, open_low=open_low)
        return value
    return number(name, value, low=low, open_low=open_low)


def _range(low: float | None, high: float | None, open_low: bool = False) -> str:
    has_low, has_high = low is not None and low > -math.inf, high is not None and high < math.inf
    if has_low and has_high:
        return f" in {'(' if open_low else '['}{low}, {high}]"
    if has_low:
        return f" {'>' if open_low else '>='} {low}"
    return f" <= {high}" if has_high else ""


def concrete(*arrays: jax.Array) -> bool:
    """Whether all have values that can be looked at: inside jit, vmap and grad they have not."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


def array(name: str, value: Any, allowed: str) -> jax.Array:
    """An array of float32, float64, whole numbers or booleans."""
    try:
        x = jnp.asarray(value)
    except (TypeError, ValueError, OverflowError):
        fail(name, value, allowed)
    if x.dtype not in (np.float32, np.float64, bool) and not jnp.issubdtype(x.dtype, jnp.integer):
        fail(name, f"dtype {x.dtype}", allowed)
    return x


def broadcast(name: str, array: jax.Array, shape: tuple, data: tuple) -> tuple:
    """The joint shape of `array` and `shape`, whose last axis must stay that of x, of shape `data`."""
    try:
        joint = np.broadcast_shapes(array.shape, shape)
    except ValueError:
        joint = ()
    if joint[-1:] != data[-1:]:
        fail(name, f"shape {array.shape}", f"of a shape that broadcasts against x of shape {data}")
    return joint
