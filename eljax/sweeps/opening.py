"""Making a store, and opening one again: only if it is of the same sweep and intact, otherwise it stays untouched."""

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eljax import checks
from eljax.sweeps import planning, processes
from eljax.sweeps.cells import Cells
from eljax.sweeps.planning import Plan
from eljax.sweeps.store import DONE, PLACES, Store, clear_errors

FORMAT, FORMAT_VERSION = "eljax.sweep", 1
SOFTWARE = ("backend", "versions")


def open_store(path: str | None, plan: Plan, share: tuple[int, int]) -> Store:
    """The store of the plan, made if there is none, checked if there is one, with room for the plan's runs.

    Each of several processes calls it with its own `share`; the first makes and extends, all check.
    """
    with processes.agreed():  # also if the others find a store: it may be what the first has just made
        made = create(path, plan) if share[0] == 0 and (path is None or not exists(path)) else None
    if path is None:
        return open_again(path, plan, made)
    with processes.agreed():
        store = open_again(path, plan)
        store.verify(share)
    with processes.agreed():
        if share[0] == 0:
            store.extend(plan.runs)
    return open_again(path, plan)


def open_again(path: str | None, plan: Plan, made: Any = None) -> Store:
    """The store at `path`, or the one just `made` in memory; ValueError if it is of another sweep or damaged."""
    import zarr

    try:
        group = zarr.open_group(path if made is None else made, mode="r+", zarr_format=2, use_consolidated=False)
        found = dict(group.attrs)
    except Exception as error:  # zarr and json complain of what is no store each in their own way
        raise ValueError(f"path {path!r} is not a store made by eljax.sweep: {error}") from error
    kind = found.get("format"), found.get("format_version")
    if kind != (FORMAT, FORMAT_VERSION):
        raise ValueError(
            f"path {path!r} holds {kind[0]!r} version {kind[1]}; this eljax reads {FORMAT!r} version {FORMAT_VERSION}"
        )
    wanted = planning.settings(plan, plan.batch_size or found.get("batch_size"))
    for name, value in wanted.items():
        if found.get(name) != value:
            told = "was made by other software" if name in SOFTWARE else "holds another sweep"
            raise ValueError(f"path {path!r} {told}: {_difference(name, found.get(name), value)}; or give another path")
    try:
        for name, expected in _labels(plan.cells, plan.checkpoints).variables.items():
            if not np.array_equal(
                np.asarray(group[name][...]).astype(expected.dtype), expected, expected.dtype.kind == "f"
            ):
                raise ValueError(f"{name} is not what it was")
        return Store(group, path, plan.cells, wanted["batch_size"])
    except (KeyError, ValueError, RuntimeError) as error:
        raise ValueError(f"path {path!r} is damaged: {error}") from error


def _difference(name: str, stored: Any, asked: Any) -> str:
    """Which entry of a setting differs first, if it is a list or a dict in JSON, and how."""
    pair = [json.loads(x) if isinstance(x, str) and x[:1] in "[{" else x for x in (stored, asked)]
    while all(isinstance(x, dict) for x in pair) or all(isinstance(x, list) for x in pair):
        entries = [dict(enumerate(x)) if isinstance(x, list) else x for x in pair]
        key = next(key for key in entries[0] | entries[1] if entries[0].get(key) != entries[1].get(key))
        name, pair = f"{name}[{key!r}]", [x.get(key) for x in entries]
    shown = [text if len(text) <= 100 else text[:97] + "..." for text in map(repr, pair)]
    return f"{name} must be {shown[0]}, got {shown[1]}"


def place(path: Any) -> str | None:
    """The path as text, once it is known that a store is there or can be made there; OSError or ValueError else."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not str(path):
        checks.fail("path", path, "None, or the name of a folder")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"path must lie in an existing folder, got {str(path)!r}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PermissionError(f"path must lie in a writable folder, got {str(path)!r}")
    return str(path)


def exists(path: str) -> bool:
    """Whether anything but an empty folder is there."""
    return os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path))


def create(path: str | None, plan: Plan) -> Any:
    """Make an empty store: aside and then renamed, so that it is there as a whole or not at all.

    Without a path: in memory, and returned.
    """
    import zarr

    settings = planning.settings(plan, plan.batch_size or planning.default_batch_size(plan.runs))
    if path is None:
        store = zarr.storage.MemoryStore()
        _lay_out(store, plan, settings)
        return store
    scratch = f"{path.rstrip(os.sep)}.{secrets.token_hex(4)}.tmp"
    try:
        with clear_errors(path, "make"):
            _lay_out(zarr.storage.LocalStore(scratch), plan, settings)
            if not exists(path):  # another process may have been faster; what it made is the same
                os.rename(scratch, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _lay_out(store: Any, plan: Plan, settings: Mapping[str, Any]) -> None:
    import numcodecs
    import zarr

    attributes = {"format": FORMAT, "format_version": FORMAT_VERSION, **settings}
    _labels(plan.cells, plan.checkpoints).assign_attrs(attributes).to_zarr(store, zarr_format=2, consolidated=False)
    group, batch, shape = zarr.open_group(store, mode="r+", zarr_format=2), settings["batch_size"], plan.cells.shape
    sizes = {"checkpoint": len(plan.checkpoints), "arm": group["arm"].size}
    axes, one = ["bandit", *plan.cells.axes], (1,) * len(shape)
    for name, (dims, dtype, meaning) in PLACES.items():
        rest = tuple(sizes[dim] for dim in dims)
        group.create_array(
            name,
            shape=(*shape, plan.runs, *rest),
            chunks=(*one, batch, *rest),
            dtype=dtype,
            compressors=numcodecs.Zstd(level=1, checksum=True),  # Blosc reads beyond the end of a chunk cut short
            fill_value=np.nan if dtype is np.float64 else None,
            attributes={"_ARRAY_DIMENSIONS": [*axes, "run", *dims], "long_name": meaning},
        )
    group.create_array(
        "done",
        shape=(*shape, -(-plan.runs // batch)),
        chunks=(*one, 1),
        dtype=np.int64,
        compressors=None,
        fill_value=None,
        attributes={"_ARRAY_DIMENSIONS": [*axes, "batch"], "long_name": DONE},
    )
    zarr.consolidate_metadata(store, zarr_format=2)


def _labels(cells: Cells, checkpoints: np.ndarray) -> Any:
    """What is known of the cells beforehand, as a Dataset."""
    import xarray as xr

    gaps = np.full((len(cells.bandits), max(bandit.num_arms for bandit in cells.bandits.values())), np.nan)
    names = np.full(gaps.shape, "", object)
    for row, bandit in enumerate(cells.bandits.values()):
        gaps[row, : bandit.num_arms], names[row, : bandit.num_arms] = bandit.gaps, bandit.labels
    labels = {"bandit": list(cells.bandits), **cells.axes, "checkpoint": checkpoints, "arm": np.arange(gaps.shape[1])}
    labels |= {name: ("policy", values) for name, values in cells.parameters.items()}
    labels["arm_label"] = (("bandit", "arm"), names.astype(str))
    known = {"gaps": (("bandit", "arm"), gaps, {"long_name": "best mean minus mean of the arm; NaN: no such arm"})}
    return xr.Dataset(known, labels)
