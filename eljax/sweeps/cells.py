"""What the cells of a sweep are: bandits × policies, their labels, and which policies share a compiled program."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from eljax import checks, engine
from eljax.arms import Bandit
from eljax.types import Policy, describe, describe_value

RESERVED = ("arm", "bandit", "batch", "checkpoint", "policy", "run")
POLICIES = "a policy, an eljax.grid, a list of policies, or a dict of policies and grids by name"


class Grid(NamedTuple):
    """Policies over the product of the values of some parameters; `eljax.grid` makes it."""

    axes: Mapping[str, list]  # parameter -> the labels of its values: numbers, or strings
    policies: tuple[Policy, ...]  # in the order of the product, the last parameter fastest


class Family(NamedTuple):
    """Policies of one structure: one program, hyperparameters as arrays over its rows."""

    policies: Policy  # prepared, leaves [P, ...]
    fallback: Policy | None  # likewise
    numbers: tuple[int, ...]  # [P]: which policies of the sweep these are


class Cells(NamedTuple):
    """The cells of a sweep, in the order of its arrays."""

    bandits: Mapping[str, Bandit]
    axes: Mapping[str, list]  # dimensions of the policies, with labels; their product numbers the policies
    policies: tuple[Policy, ...]
    parameters: Mapping[str, list]  # along a dimension "policy" that comes from grids: the parameters' values

    @property
    def shape(self) -> tuple[int, ...]:
        """Of bandits and policy dimensions."""
        return len(self.bandits), *map(len, self.axes.values())


def grid(make: Callable[..., Policy], **parameters: Any) -> Grid:
    """The policies make(**parameters) for all combinations of the parameters that are lists or dicts.

    Args:
      make: what returns a policy, such as `eljax.policies.el_f`.
      parameters: for `make`, by name. A list, range or array is an axis, labelled by its values; a dict is an axis
        labelled by its keys; anything else is the same for all.

    Raises:
      ValueError: no axis, an empty one, one with equal labels, a parameter that `make` refuses or that is named like
        another dimension of a sweep.

    Example:
      >>> import eljax
      >>> schedules = {"g1": eljax.log_loglog(), "g2": eljax.log_squared()}
      >>> ablation = eljax.grid(eljax.policies.el_f, schedule=schedules, radius=[0, 0.5, 1, 3])
      >>> {name: len(labels) for name, labels in ablation.axes.items()}
      {'schedule': 2, 'radius': 4}
    """
    if not callable(make):
        checks.fail("make", make, "a function that returns a policy, such as eljax.policies.el_f")
    values = {name: value for name, value in parameters.items() if _is_axis(value)}
    if not values:
        checks.fail("parameters", parameters, "such that at least one of them is a list or a dict of values")
    axes, choices = {}, {}
    for name, value in values.items():
        if name in RESERVED:
            checks.fail("parameters", name, f"named otherwise than {', '.join(RESERVED)}")
        choices[name] = list(value.values() if isinstance(value, Mapping) else value)
        axes[name] = _labels(name, list(value) if isinstance(value, Mapping) else choices[name])
    policies = []
    for combination in itertools.product(*choices.values()):
        try:
            policy = make(**(parameters | dict(zip(choices, combination, strict=True))))
        except TypeError as error:
            checks.fail("parameters", parameters, f"what {getattr(make, '__name__', make)} takes ({error})")
        if not isinstance(policy, Policy):
            checks.fail("make", make, "a function that returns a policy")
        policies.append(policy)
    return Grid(axes, tuple(policies))


def resolved(bandits: Any, policies: Any) -> Cells:
    """The cells from the arguments of `eljax.sweep`; ValueError naming the argument at fault."""
    named = _named_bandits(bandits)
    if isinstance(policies, Grid):
        return Cells(named, policies.axes, policies.policies, {})
    if isinstance(policies, Policy):
        policies = {describe(policies): policies}
    elif isinstance(policies, Sequence) and not isinstance(policies, str):
        if not all(isinstance(policy, Policy) for policy in policies):
            checks.fail("policies", policies, POLICIES)
        policies = dict(zip(_labels("policies", list(map(describe, policies))), policies, strict=True))
    if not isinstance(policies, Mapping) or not policies:
        checks.fail("policies", policies, POLICIES)
    rows = [row for name, value in policies.items() for row in _rows(name, value)]
    labels = _labels("policies", [label for label, _, _ in rows])
    names = dict.fromkeys(name for _, chosen, _ in rows for name in chosen)
    parameters = {name: _filled([chosen.get(name) for _, chosen, _ in rows]) for name in names}
    return Cells(named, {"policy": labels}, tuple(policy for _, _, policy in rows), parameters)


def families(policies: Sequence[Policy], dtype: np.dtype) -> list[Family]:
    """The policies by structure: one compiled program each (and one for exact re-runs, where there is a fallback)."""
    groups: dict[Any, list[int]] = {}
    ready = [
        (engine.prepared(p, dtype), None if p.fallback is None else engine.prepared(p.fallback, dtype))
        for p in policies
    ]
    for number, both in enumerate(ready):
        leaves, structure = jax.tree.flatten(both)
        groups.setdefault((structure, *((x.shape, x.dtype) for x in leaves)), []).append(number)

    def stack(own: list[int], which: int) -> Policy | None:
        members = [ready[number][which] for number in own]
        return None if members[0] is None else engine.stacked(members)

    return [Family(stack(own, 0), stack(own, 1), tuple(own)) for own in groups.values()]


def _named_bandits(bandits: Any) -> dict[str, Bandit]:
    allowed = "an eljax.Bandit, or a dict of bandits by name"
    if isinstance(bandits, Bandit):
        return {"bandit": bandits}
    good = isinstance(bandits, Mapping) and bandits and all(isinstance(b, Bandit) for b in bandits.values())
    if not good or not all(isinstance(name, str) and name for name in bandits):
        checks.fail("bandits", bandits, allowed)
    return dict(bandits)


def _rows(name: Any, value: Any) -> list[tuple[str, dict, Policy]]:
    """(label, parameters, policy) of each policy under one name."""
    if not isinstance(name, str) or not name or not isinstance(value, Policy | Grid):
        checks.fail("policies", {name: value}, POLICIES)
    if isinstance(value, Policy):
        return [(name, {}, value)]
    chosen = [dict(zip(value.axes, labels, strict=True)) for labels in itertools.product(*value.axes.values())]
    texts = (", ".join(f"{key}={_text(label)}" for key, label in c.items()) for c in chosen)
    return [(f"{name}, {text}", c, p) for text, c, p in zip(texts, chosen, value.policies, strict=True)]


def _is_axis(value: Any) -> bool:
    return isinstance(value, list | tuple | range | Mapping) or (
        isinstance(value, np.ndarray | jax.Array) and np.ndim(value) == 1
    )


def _labels(name: str, values: list) -> list:
    """Numbers as they are, if all are; otherwise texts."""
    if all(_is_number(value) for value in values):
        labels = [value if isinstance(value, int) else float(value) for value in values]
        labels = labels if all(isinstance(label, int) for label in labels) else [float(label) for label in labels]
    else:
        labels = [value if isinstance(value, str) else _text(value) for value in values]
    if not labels or len(set(labels)) != len(labels):
        checks.fail(name, labels, "at least one value, and different ones (give functions by name, in a dict)")
    return labels


def _filled(values: list) -> list:
    """A parameter along all policies, with NaN or "" for those that have none."""
    numbers = all(value is None or _is_number(value) for value in values)
    if numbers:
        return [np.nan if value is None else float(value) for value in values]
    return ["" if value is None else _text(value) for value in values]


def _is_number(value: Any) -> bool:
    scalar = isinstance(value, np.ndarray | jax.Array) and np.ndim(value) == 0
    return scalar or (isinstance(value, int | float | np.number) and not isinstance(value, bool))


def _text(value: Any) -> str:
    return f"{float(value):g}" if _is_number(value) else describe_value(value)
