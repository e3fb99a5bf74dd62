"""What a sweep is going to do, from checked arguments; nothing is compiled or written here."""

import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np

from eljax import checks, engine
from eljax.arms.law import float_dtype
from eljax.sweeps.cells import Cells, Family, families, resolved
from eljax.sweeps.identity import identity
from eljax.sweeps.store import Block, Store

BATCHES = 64  # of a cell, if no other size is asked for
BATCH_SIZES = 512, 16_384  # smallest and largest default: files that are neither tiny nor long in the making


class Plan(NamedTuple):
    """A sweep."""

    cells: Cells
    horizon: int
    runs: int
    seed: int
    checkpoints: np.ndarray  # [C]
    dtype: np.dtype
    batch_size: int | None  # None: that of the store, if there is one


class Group(NamedTuple):
    """Cells whose runs share tiles: the policies of one family on one bandit."""

    family: Family
    bandit: int
    law: Any
    gaps: np.ndarray  # [K]


def plan(
    bandits: Any,
    policies: Any,
    *,
    horizon: int,
    runs: int,
    seed: int = 0,
    checkpoints: Sequence[int] | None = None,
    dtype: Any = None,
    batch_size: int | None = None,
) -> Plan:
    """The plan from the arguments of `eljax.sweep`; ValueError naming the one that is at fault."""
    cells = resolved(bandits, policies)
    horizon = checks.integer("horizon", horizon, low=1, high=2**31 - 2)
    runs = checks.integer("runs", runs, low=1, high=2**32 - 1)
    seed = checks.integer("seed", seed, low=0, high=2**64 - 1)
    rounds = engine.checkpoint_rounds(checkpoints, horizon)
    dtype = float_dtype(dtype)
    if batch_size is not None:
        batch_size = checks.integer("batch_size", batch_size, low=1, high=2**31 - 1)
    for num_arms in sorted({bandit.num_arms for bandit in cells.bandits.values()}):
        for policy in cells.policies:
            if policy.validate is not None:
                policy.validate(num_arms, horizon)
    return Plan(cells, horizon, runs, seed, rounds, dtype, batch_size)


def groups(plan: Plan) -> list[Group]:
    """All groups, those of one family one after the other."""
    laws = [(bandit.law(plan.dtype), bandit.gaps) for bandit in plan.cells.bandits.values()]
    own = families(plan.cells.policies, plan.dtype)
    return [Group(family, number, *law) for family in own for number, law in enumerate(laws)]


def tiles(plan: Plan, group: Group, policies: Any) -> engine.Tiles:
    """The compiled tiles of a group's policies, or of its fallbacks."""
    return engine.tiles(
        group.law, policies, seed=plan.seed, horizon=plan.horizon, checkpoints=plan.checkpoints, dtype=plan.dtype
    )


def missing(plan: Plan, group: Group, store: Store, share: tuple[int, int]) -> Iterator[tuple[int, Block]]:
    """(row in the family, block) of what the store lacks: the first batch of all cells, then the second, ...

    `share` (i, n) gives every n-th from the i-th: the part of process i.
    """
    index, count = share
    for batch in range(-(-plan.runs // store.batch_size)):
        for row, policy in enumerate(group.family.numbers):
            block = store.missing(group.bandit, policy, batch, plan.runs)
            if block is not None and (group.bandit * len(plan.cells.policies) + policy + batch) % count == index:
                yield row, block


def count_missing(plan: Plan, store: Store, share: tuple[int, int]) -> int:
    """Runs that this process is going to play."""
    each = (missing(plan, group, store, share) for group in groups(plan))
    return sum(block.stop - block.start for blocks in each for _, block in blocks)


def settings(plan: Plan, batch_size: int) -> dict[str, str | int]:
    """What two sweeps must share to keep their runs in one store."""
    bandits = {
        name: {"arms": [repr(arm) for arm in bandit.arms], "labels": list(bandit.labels)}
        for name, bandit in plan.cells.bandits.items()
    }
    policies = [identity(policy) for policy in plan.cells.policies]
    return {
        "seed": plan.seed,
        "horizon": plan.horizon,
        "dtype": plan.dtype.name,
        "batch_size": batch_size,
        "checkpoints": json.dumps(plan.checkpoints.tolist()),
        "bandits": json.dumps(bandits, ensure_ascii=False),
        "axes": json.dumps(plan.cells.axes, ensure_ascii=False),
        "policies": json.dumps(policies, ensure_ascii=False),
        "backend": jax.default_backend(),
        "versions": json.dumps({name: version(name) for name in ("eljax", "jax", "jaxlib", "numpy")}),
    }


def default_batch_size(runs: int) -> int:
    """The power of two that makes about `BATCHES` of them, within `BATCH_SIZES`."""
    wanted = 2 ** (max(runs // BATCHES, 1) - 1).bit_length()
    return min(max(wanted, BATCH_SIZES[0]), BATCH_SIZES[1])
