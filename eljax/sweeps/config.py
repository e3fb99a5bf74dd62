"""A sweep as a TOML file, checked: whatever is in it must be known, and an unknown key is told its nearest known one.

    horizon = 10_000                 # rounds of each run
    runs = 1_024                     # of each cell
    path = "radius.zarr"             # the store, relative to the folder of this file
    seed = 0                         # optional, as are the next three
    checkpoints = [100, 1_000, 10_000]
    dtype = "float32"
    batch_size = 512

    [bandits.two]                    # a bandit of your own, by any name
    arms = [{law = "gaussian", mean = 0.5, sigma = 1.0}, {law = "gaussian", mean = 0.0, sigma = 1.0}]
    labels = ["new", "old"]          # optional

    [bandits.easy]                   # or one of eljax.paper_instances()
    instance = "beta_easy"

    [policies.EL-F]                  # a policy, by any name; a list of values is an axis of a grid
    policy = "el_f"
    schedule = ["log_loglog", "log_squared", {name = "log_schedule", scale = 2.0}]
    radius = [0, 0.5, 1, 3, {name = "loglog_radius", offset = 3.0}]

Laws, policies and schedules are those of `eljax`, their parameters those of the functions there.
"""

import difflib
import inspect
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eljax import arms
from eljax.notation import LAWS, POLICIES, SCHEDULES
from eljax.sweeps.cells import Grid, grid

REQUIRED, OPTIONAL = ("horizon", "runs", "path", "bandits", "policies"), ("seed", "checkpoints", "dtype", "batch_size")


def load(file: str | os.PathLike) -> dict[str, Any]:
    """The arguments of `eljax.sweep` from a TOML file; ValueError or OSError naming the file and the key at fault."""
    try:
        with open(file, "rb") as opened:
            given = tomllib.load(opened)
        return arguments(given, Path(file).parent)
    except (ValueError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{os.fspath(file)}: {error}") from error


def arguments(given: Mapping[str, Any], folder: Path = Path()) -> dict[str, Any]:
    """The arguments of `eljax.sweep` from a parsed configuration.

    >>> arguments({"horizon": 10, "run": 5})
    Traceback (most recent call last):
      ...
    ValueError: unknown key run: did you mean runs?
    """
    _known("", given, (*REQUIRED, *OPTIONAL))
    for key in REQUIRED:
        if key not in given:
            raise ValueError(f"key {key} is missing")
    if not isinstance(given["path"], str) or not given["path"]:
        raise ValueError(f"path must be the name of the store, got {given['path']!r}")
    made = {key: given[key] for key in ("horizon", "runs", *OPTIONAL) if key in given}
    made["path"] = str(folder / given["path"])
    for key, make in (("bandits", _bandit), ("policies", _policy)):
        if not isinstance(given[key], Mapping) or not given[key]:
            raise ValueError(f"{key} must be tables such as [{key}.name], got {given[key]!r}")
        made[key] = {name: make(f"{key}.{name}", table) for name, table in given[key].items()}
    first, *others = made["policies"].values()
    if isinstance(first, Grid) and not others:  # its parameters become dimensions
        made["policies"] = first
    return made


def _bandit(where: str, table: Any) -> arms.Bandit:
    _known(f"{where}.", table, ("arms", "labels", "instance"))
    if "instance" in table:
        if len(table) > 1:
            raise ValueError(f"{where} must have either instance or arms and labels")
        instances = arms.paper_instances()
        return instances[_one_of(f"{where}.instance", table["instance"], instances)]
    entries = table.get("arms")
    if not isinstance(entries, list) or not entries:
        raise ValueError(f'{where}.arms must be a list of arms such as {{law = "gaussian", ...}}, got {entries!r}')
    made = [_made(f"{where}.arms[{i}]", entry, "law", LAWS) for i, entry in enumerate(entries)]
    return _named(where, arms.Bandit, made, table.get("labels"))


def _policy(where: str, table: Any) -> Any:
    return _made(where, table, "policy", POLICIES)


def _made(where: str, table: Any, kind: str, functions: Mapping[str, Callable]) -> Any:
    """What the function named by table[kind] makes of the rest; a grid, if some values of a policy are lists."""
    if not isinstance(table, Mapping) or kind not in table:
        raise ValueError(f"{where} must be a table with a key {kind}, got {table!r}")
    function = functions[_one_of(f"{where}.{kind}", table[kind], functions)]
    signature = inspect.signature(function).parameters
    _known(f"{where}.", table, (kind, *signature))
    missing = [n for n, p in signature.items() if p.default is p.empty and n not in table]
    if missing:
        raise ValueError(f"key {where}.{missing[0]} is missing")
    values = {key: value for key, value in table.items() if key != kind}
    if kind == "policy":
        values = {key: _values(f"{where}.{key}", value) for key, value in values.items()}
        if any(isinstance(value, list) for value in values.values()):
            return _named(where, grid, function, **values)
    return _named(where, function, **values)


def _values(where: str, value: Any) -> Any:
    """Schedules and radii by name become functions, in lists too."""
    if isinstance(value, list):
        return [_values(f"{where}[{i}]", entry) for i, entry in enumerate(value)]
    if isinstance(value, Mapping):
        return _made(where, value, "name", SCHEDULES)
    if where.rpartition(".")[2].partition("[")[0] in ("schedule", "radius") and isinstance(value, str):
        return _made(where, {"name": value}, "name", SCHEDULES)
    return value


def _known(where: str, table: Any, names: tuple) -> None:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where.rstrip('.')} must be a table, got {table!r}")
    for key in table:
        if key not in names:
            raise ValueError(f"unknown key {where}{key}: {_nearest(key, names)}")


def _one_of(where: str, value: Any, names: Any) -> str:
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{where} is unknown, got {value!r}: {_nearest(str(value), names)}")
    return value


def _nearest(word: str, names: Any) -> str:
    close = difflib.get_close_matches(word, names, 1, 0.5)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}"


def _named(where: str, make: Callable, *args: Any, **values: Any) -> Any:
    """What `make` gives; its errors with the place in the file."""
    try:
        return make(*args, **values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error
