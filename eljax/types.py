"""The two protocols everything else is written against: what a policy is, and what it decides.

Axis letters used throughout: R runs, K arms, T rounds, C checkpoints, n samples of one arm.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


@jax.tree_util.register_static
class Option(str):
    """A hyperparameter that is a word: part of a policy's structure, not a leaf."""

    __slots__ = ()


class Decision(NamedTuple):
    """What a policy chose in one round, and on what grounds."""

    arm: jax.Array  # [] int32: the arm to pull
    forced: jax.Array  # [] bool: pulled by forced exploration, not by its index
    index: jax.Array  # [K]: upper index of each arm (NaN where a policy has none)
    # [K]: error bound of each index, relative to (index - mean), if the choice rests on values; 0 if disjoint intervals
    # decided (then their widths do not matter)
    index_error: jax.Array
    certified: jax.Array | bool = True  # [] bool: forced, decided by disjoint intervals or ties, or solved exactly


class Policy(NamedTuple):
    """A bandit policy: three pure functions of one run (no batch axis), and two optional slots for the host.

    Each slot is a `jax.tree_util.Partial` of a module-level function over its hyperparameters, so a policy is a
    pytree whose leaves are radii and constants: they can be changed or vmapped without compiling again.
    A policy never sees the reward law and never keeps a PRNG key.

        init(num_arms, horizon, dtype) -> state      num_arms and horizon are static ints (horizon sizes buffers)
        select(key, t, state) -> (Decision, state)   t = 1, 2, ... is the round being decided; the only use of a key
        update(state, arm, reward) -> state          per-arm leaves of a state have leading axis K
        validate(num_arms, horizon) -> None          raises ValueError on the host, before anything is compiled
        fallback                                     the policy to re-run a run with that met an uncertified decision
    """

    init: Callable[..., Any]
    select: Callable[..., tuple[Decision, Any]]
    update: Callable[..., Any]
    validate: Callable[[int, int], None] | None = None
    fallback: "Policy | None" = None

    def __repr__(self) -> str:
        return describe(self)


def describe(policy: Policy) -> str:
    """One line naming a policy and its hyperparameters, such as `el_f(schedule=log_squared(), radius=3.0)`."""
    slot = policy.validate or policy.select  # validate takes every hyperparameter
    name = getattr(getattr(slot, "func", slot), "__module__", "policy").rpartition(".")[2]
    keywords = getattr(slot, "keywords", {})
    return f"{name}({', '.join(f'{key}={describe_value(value)}' for key, value in keywords.items())})"


def describe_value(value: Any) -> str:
    """One hyperparameter as `describe` shows it."""
    if isinstance(value, jax.tree_util.Partial):
        inner = [describe_value(v) for v in value.args]
        inner += [f"{key}={describe_value(v)}" for key, v in value.keywords.items()]
        return f"{value.func.__name__.lstrip('_')}({', '.join(inner)})"
    if callable(value):
        return getattr(value, "__name__", repr(value))
    return str(value)
