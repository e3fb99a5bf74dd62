"""Arms and policies written as in Python, such as "el_f(log_squared(), radius=3)", read without running code.

Only calls of known functions with numbers, strings, lists and further such calls are understood.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from eljax import arms, policies, schedules

NOT_LAWS = ("paper_instances", "reward")
LAWS = {name: f for name, f in sorted(vars(arms).items()) if inspect.isfunction(f) and name not in NOT_LAWS}
NAMES = ("log_loglog", "log_squared", "log_schedule", "log_power", "loglog_radius")
SCHEDULES = {name: getattr(schedules, name) for name in NAMES}
POLICIES = {name: getattr(policies, name) for name in policies.__all__}


def arm(text: str) -> arms.Arm:
    """A reward law.

    >>> arm("gaussian(0.5, sigma=1)")
    gaussian(mean=0.5, sigma=1.0)
    """
    return _read("arm", text, LAWS)


def policy(text: str) -> Any:
    """A policy, with schedules and radii in it.

    >>> from eljax.types import describe
    >>> describe(policy("el_f(log_squared(), radius=3)"))
    'el_f(schedule=log_squared(), radius=3.0)'
    """
    return _read("policy", text, POLICIES | SCHEDULES, POLICIES)


def _read(name: str, text: str, known: Mapping[str, Callable], outermost: Mapping[str, Callable] | None = None) -> Any:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        tree = None
    outermost = outermost or known
    if not isinstance(tree, ast.Call) or getattr(tree.func, "id", None) not in outermost:
        raise ValueError(f"{name} must be one of {', '.join(outermost)}, with its arguments in brackets, got {text!r}")
    try:
        return _value(tree, known)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} {text!r}: {error}") from error


def _value(node: ast.expr, known: Mapping[str, Callable]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [_value(entry, known) for entry in entries]
        case ast.Call(func=ast.Name(id=called)) if called in known and all(word.arg for word in node.keywords):
            given = [_value(argument, known) for argument in node.args]
            return known[called](*given, **{word.arg: _value(word.value, known) for word in node.keywords})
    raise ValueError(f"{ast.unparse(node)!r} is not a number, a string, a list or one of {', '.join(known)}")
