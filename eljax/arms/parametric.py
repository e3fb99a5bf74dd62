"""Laws as functions of their parameters: means to differentiate, and device laws with traced numbers in them.

    d reward/dθ at a fixed uniform      through the quantile function, for the parameters in LEAVES
    d mean/dθ                           through MEANS, for all parameters of these families

A parameter in which the quantile function is a step (probabilities) or a table made on the host (shapes of Beta, gamma
and Student laws) has a mean but no such reward: derivatives in it need the likelihood ratio (`eljax.sensitivity`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from eljax import checks
from eljax.arms.base import Arm
from eljax.arms.law import Law

MEANS: dict[str, Callable[..., Any]] = {
    "gaussian": lambda mean, sigma: mean,
    "laplace": lambda mean, scale: mean,
    "uniform": lambda low, high: low + (high - low) / 2,
    "exponential": lambda mean: mean,
    "pareto": lambda shape, scale: scale * shape / (shape - 1),
    "gamma": lambda shape, scale: shape * scale,
    "beta": lambda a, b, scale: scale * a / (a + b),
    "student_t": lambda df, mean, scale: mean,
    "bernoulli": lambda p: p,
}


def _itself(value: Any, leaf: Any, old: Any) -> Any:
    return value


def _in_proportion(value: Any, leaf: Any, old: Any) -> Any:
    return leaf * (value / old)


# Which leaf of the family's law holds it, and the number there from (parameter, number so far, parameter so far).
LEAVES: dict[str, dict[str, tuple[int, Callable[[Any, Any, Any], Any]]]] = {
    "gaussian": {"mean": (0, _itself), "sigma": (1, _itself)},
    "laplace": {"mean": (0, _itself), "scale": (1, _itself)},
    "uniform": {"low": (0, _itself), "high": (1, _itself)},
    "exponential": {"mean": (0, _itself)},
    "pareto": {"scale": (0, _itself), "shape": (1, lambda value, leaf, old: 1 / value)},
    "gamma": {"scale": (0, _in_proportion)},
    "beta": {"scale": (0, _itself)},
    "student_t": {"mean": (0, _itself), "scale": (1, _itself)},
}


def parameters(arms: Sequence[Arm]) -> tuple[dict[str, float], ...]:
    """Of each arm the parameters in which its rewards can be differentiated; {} where there are none."""
    return tuple({name: float(arm.parameters[name]) for name in LEAVES.get(arm.family, ())} for arm in arms)


def moved(law: Law, arms: Sequence[Arm], values: Sequence[Mapping[str, Any]]) -> tuple[Law, Any]:
    """(the law, the means [K]) of `arms`, whose law this is, with these values (traced ones too) of some parameters.

    The ends of open supports move too: nothing is clipped to them any more.
    """
    if not isinstance(values, Sequence) or len(values) != len(arms):
        checks.fail("parameters", values, f"a list of {len(arms)} dicts, one per arm")
    leaves = [[[*leaf] if np.ndim(leaf) == 1 else leaf for leaf in group] for group in law.leaves]
    means = []
    for i, (arm, new) in enumerate(zip(arms, values, strict=True)):
        known = LEAVES.get(arm.family, {})
        for name, value in new.items():
            if name not in known:
                allowed = f"one of {', '.join(known)}" if known else "empty: rewards are not differentiable in any"
                checks.fail(f"parameters[{i}] of {arm!r}", name, allowed)
            leaf, change = known[name]
            group = leaves[law.kind[i]][leaf]
            group[law.slot[i]] = change(value, group[law.slot[i]], arm.parameters[name])
        means.append(MEANS[arm.family](**{**arm.parameters, **new}) if new else arm.mean)
    dtype = law.dtype
    stacked = tuple(
        tuple(jnp.stack([jnp.asarray(x, dtype) for x in leaf]) if isinstance(leaf, list) else leaf for leaf in group)
        for group in leaves
    )
    free = np.full(len(arms), np.inf, dtype)
    return replace(law, leaves=stacked, low=-free, high=free), jnp.stack([jnp.asarray(m, dtype) for m in means])
