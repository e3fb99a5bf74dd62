"""What a sweep will cost, from one tile of each group played over its first rounds."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial

from eljax import engine
from eljax.sweeps import planning
from eljax.sweeps.opening import exists, open_again
from eljax.sweeps.planning import Group, Plan
from eljax.sweeps.playing import workers

ROUNDS = 300  # of the calibration


class Estimate(NamedTuple):
    """The size of a sweep and of what is left to do."""

    cells: int
    lanes: int  # runs of all cells
    left: int  # of these not in the store yet
    programs: int  # compiled, without those for exact re-runs
    seconds: float  # to play what is left, compilation included
    memory: int  # bytes: tiles in flight and what waits to be written; not what Python and JAX take anyway
    storage: int  # bytes of the whole store before compression


def estimate(plan: Plan, path: str | None) -> Estimate:
    """Compiles and plays a little; writes nothing. ValueError where the store at `path` is of another sweep."""
    cells = plan.cells
    finished = np.zeros((len(cells.bandits), len(cells.policies), 1), np.int64)
    if path is not None and exists(path):
        finished = open_again(path, plan).finished
    kept = np.minimum(finished.sum(-1), plan.runs)
    groups, seconds, memory, arms = planning.groups(plan), 0.0, 0, max(b.num_arms for b in cells.bandits.values())
    for group in groups:
        left = int((plan.runs - kept[group.bandit, list(group.family.numbers)]).sum())
        if left:
            spent, most = _measure(plan, group, left)
            seconds, memory = seconds + spent, max(memory, most)
    lanes = kept.size * plan.runs
    per_run = 8 * plan.checkpoints.size + 2 * 4 * arms + 8 + 4 + 1
    return Estimate(kept.size, lanes, lanes - int(kept.sum()), len(groups), seconds, memory, lanes * per_run)


def _measure(plan: Plan, group: Group, left: int) -> tuple[float, int]:
    """(seconds, bytes in flight) of a group of which `left` runs are left."""
    rounds, begun = min(plan.horizon, ROUNDS), time.monotonic()
    policies = group.family.policies
    policies = policies._replace(init=Partial(_with_room(plan.horizon), policies.init))
    short = plan._replace(horizon=rounds, checkpoints=np.array([rounds]))
    tiles = planning.tiles(short, group, policies)
    rows = np.arange(tiles.lanes) % len(group.family.numbers)
    play = lambda _: tiles.compute(rows, np.arange(tiles.lanes))  # noqa: E731
    play(0)
    compiled, at_once = time.monotonic() - begun, workers()
    begun = time.monotonic()
    list(engine.in_parallel(play, range(at_once), at_once))
    each = (time.monotonic() - begun) * plan.horizon / rounds
    snapshots = 2 * tiles.lanes * (plan.checkpoints.size + 1) * len(group.gaps) * 4
    return compiled + each * -(-left // (tiles.lanes * at_once)), at_once * (tiles.memory + snapshots)


def _with_room(horizon: int) -> Callable[..., Any]:
    """`init` for so many rounds, however few are played: what a round costs may hang on the room there is."""
    return lambda init, num_arms, _, dtype: init(num_arms, horizon, dtype)


def describe(sizes: Estimate) -> str:
    """For people."""
    devices = jax.local_devices()
    lines = {
        "cells": f"{sizes.cells:,}",
        "lanes": f"{sizes.lanes:,} runs, {sizes.left:,} of them still to play",
        "programs": f"{sizes.programs:,} to compile",
        "time": f"about {_duration(sizes.seconds)} on {len(devices)} {devices[0].platform} device(s)",
        "memory": f"about {_bytes(sizes.memory)} for the tiles in flight",
        "storage": f"{_bytes(sizes.storage)} before compression",
    }
    return "\n".join(f"{name:8}  {text}" for name, text in lines.items())


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6_000 else f"{seconds / 3_600:.1f} h"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1_000:
            return f"{count:.3g} {unit}"
        count /= 1_024
    return f"{count:.3g} TiB"
