"""Exploration schedules g(t) and moving radii, as functions of (t, num_arms).

    g1(t) = log t · log log t / K        g2(t) = (log t)² / K        (the paper's schedules)

A schedule says how often every arm must have been pulled by round t. Near t = 1 the formulas are 0, negative or NaN, so
a schedule is read through `clamped`, which lifts it to a floor in (0, 1]: any such floor gives the same run, since all
it asks is that every arm is pulled once. Any traceable function of (t, num_arms) will do as a schedule; a fresh lambda
is a new function and compiles again, a module-level function does not.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from eljax import checks

FLOOR = 0.5
FIRST_DEFINED = 3  # log log t > 0 from here on

Schedule = Callable[[jax.Array, int], jax.Array]


def log_loglog() -> Schedule:
    """The paper's g1(t) = log t · log log t / K: close to logarithmic.

    >>> float(log_loglog()(10_000.0, 2))  # doctest: +ELLIPSIS
    10.22498...
    """
    return Partial(_log_loglog)


def log_squared() -> Schedule:
    """The paper's g2(t) = (log t)² / K: costs more forced pulls, thins the regret tail faster.

    >>> float(log_squared()(10_000.0, 2))  # doctest: +ELLIPSIS
    42.415...
    """
    return Partial(_log_squared)


def log_schedule(scale: float = 1.0) -> Schedule:
    """g(t) = scale · log t / K, the boundary case: the paper's guarantees want g = ω(log t). `scale` > 0."""
    return Partial(_log, scale=checks.hyperparameter("scale", scale, low=0.0, open_low=True))


def log_power(scale: float = 1.0, power: float = 2.0) -> Schedule:
    """g(t) = scale · (log t)^power / K, `scale` and `power` > 0; g2 has scale 1 and power 2. To tune, or differentiate.

    >>> float(log_power(1.0, 2.0)(10_000.0, 2))  # doctest: +ELLIPSIS
    42.415...
    """
    scale, power = (
        checks.hyperparameter(name, x, low=0.0, open_low=True) for name, x in (("scale", scale), ("power", power))
    )
    return Partial(_log_power, scale=scale, power=power)


def loglog_radius(offset: float = 3.0) -> Schedule:
    """The moving radius log log t + offset (`offset` >= 0), equal to `offset` while log log t is below 0 (t < 3)."""
    return Partial(_loglog_radius, offset=checks.hyperparameter("offset", offset, low=0.0))


def _log_loglog(t, num_arms):
    log_t = jnp.log(t)
    return log_t * jnp.log(log_t) / num_arms


def _log_squared(t, num_arms):
    return jnp.log(t) ** 2 / num_arms


def _log(t, num_arms, *, scale):
    return scale * jnp.log(t) / num_arms


def _log_power(t, num_arms, *, scale, power):
    return scale * jnp.log(t) ** power / num_arms


def _loglog_radius(t, num_arms, *, offset):
    return jnp.log(jnp.log(jnp.maximum(t, np.e))) + offset


def clamped(schedule: Schedule, t: jax.Array, num_arms: int) -> jax.Array:
    """g(t) lifted to the floor; a NaN counts as "not defined yet" only where t < 3, later ones stay visible."""
    g = jnp.asarray(schedule(t, num_arms), t.dtype)
    return jnp.where((t < FIRST_DEFINED) & ~(g > FLOOR), jnp.asarray(FLOOR, g.dtype), jnp.maximum(g, FLOOR))


def as_schedule(name: str, value: Any) -> Schedule:
    """A schedule given by the user, as a pytree; not a function -> ValueError."""
    if not callable(value):
        checks.fail(name, value, "a function of (t, num_arms), such as eljax.log_squared()")
    return value if isinstance(value, Partial) else Partial(value)


def as_radius(name: str, value: Any) -> Any:
    """A radius given by the user: a number >= 0 (or an array of them, one per lane) or a function of (t, num_arms)."""
    return as_schedule(name, value) if callable(value) else checks.hyperparameter(name, value, low=0.0)


def check_schedule(name: str, schedule: Schedule, num_arms: int, horizon: int) -> None:
    """ValueError unless the clamped schedule is finite, positive and non-decreasing on t = 1..horizon."""
    t = _rounds(horizon)
    raw, g = _values(name, schedule, t, num_arms), _values(name, partial(clamped, schedule), t, num_arms)
    defined = raw[t >= FIRST_DEFINED]
    bad = np.flatnonzero(~np.isfinite(g))
    if bad.size:
        checks.fail(f"{name}(t={t[bad[0]]:.0f})", float(g[bad[0]]), "finite")
    drops = np.flatnonzero(np.diff(g) < 0)
    if drops.size:
        i = drops[0]
        checks.fail(f"{name}(t={t[i + 1]:.0f})", float(g[i + 1]), f"non-decreasing: it was {g[i]} one round earlier")
    if defined.size and not defined[-1] > 0:
        checks.fail(f"{name}(t={t[-1]:.0f})", float(raw[-1]), "positive, or it forces no exploration")


def check_radius(name: str, radius: Any, num_arms: int, horizon: int) -> None:
    """ValueError unless a moving radius is finite and >= 0 on t = 1..horizon, or a constant one is a single number."""
    if not callable(radius) and np.ndim(radius) > 0:
        checks.fail(name, radius, "one number; arrays are for jax.vmap over policies")
    if callable(radius):
        t = _rounds(horizon)
        values = _values(name, radius, t, num_arms)
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if bad.size:
            checks.fail(f"{name}(t={t[bad[0]]:.0f})", float(values[bad[0]]), "finite and >= 0")


def _rounds(horizon: int) -> np.ndarray:
    """Every round up to 100,000 and a geometric grid from there."""
    dense = min(horizon, 100_000)
    return np.unique(np.concatenate([np.arange(1.0, dense + 1), np.geomspace(dense, horizon, 10_000).round()]))


def _values(name: str, schedule: Schedule, t: np.ndarray, num_arms: int) -> np.ndarray:
    # In float64 whatever the process setting: a float32 log is not monotone to the last bit.
    with jax.enable_x64(True):
        try:
            values = jax.vmap(lambda s: jnp.asarray(schedule(s, num_arms), jnp.float64))(jnp.asarray(t))
        except (TypeError, ValueError) as error:
            checks.fail(name, schedule, f"a traceable function of (t, num_arms) that returns a number ({error})")
    if values.shape != t.shape:
        checks.fail(name, schedule, f"scalar-valued: it returned shape {values.shape[1:]} for one t")
    return np.asarray(values)
