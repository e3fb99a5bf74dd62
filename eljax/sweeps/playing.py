"""Playing what a store lacks: runs of many cells, flattened into lanes, tile by tile.

    lanes of a group   cell 1: run 0, 1, ...   cell 2: run 0, 1, ...   ...   cut into tiles of one fixed size

A group is the policies of one family on one bandit; its lanes differ in hyperparameters and run number alone, so one
program plays them all, and a run is the same, bit for bit, as in `eljax.simulate`. A batch goes to the store as soon as
its last lane is played. Runs that met an open decision are played again with exact decisions: they wait for company,
because a tile costs the same however few of its lanes are used, but not for long.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from tqdm.auto import tqdm

from eljax import engine
from eljax.results import pseudo_regret
from eljax.sweeps import planning
from eljax.sweeps.planning import Plan
from eljax.sweeps.store import Block, Store

PATIENCE = 10.0, 20.0  # open runs wait so many seconds at least, and so many times as long as playing them again takes
WAITING_BYTES = 2**28  # of batches that wait


class Batch:
    """A batch in the making."""

    def __init__(self, group: int, row: int, block: Block):
        self.group, self.row, self.block = group, row, block
        self.left = block.stop - block.start  # lanes not yet played
        self.record: engine.RunRecord | None = None  # [n, ...]
        self.exact = np.zeros(self.left, bool)  # played again


class Tile(NamedTuple):
    """Lanes that are played together."""

    group: int
    exact: bool
    parts: list[tuple[Batch, np.ndarray]]  # lanes of each batch, by number


def workers() -> int:
    """How many tiles are in flight."""
    devices = jax.local_devices()
    return engine.parallel_tiles(devices) if devices[0].platform == "cpu" else 2  # one is played, one written


class Player:
    """Plays what a store lacks."""

    def __init__(self, plan: Plan, store: Store, share: tuple[int, int], bar: tqdm):
        self.plan, self.store, self.share, self.bar = plan, store, share, bar
        self.groups = planning.groups(plan)
        self.programs: dict[tuple[int, bool], engine.Tiles] = {}
        self.waiting: dict[int, list[tuple[Batch, np.ndarray]]] = {}  # by group: batches with their open lanes
        self.since, self.seconds = 0.0, 0.0  # when the first of them came; what the last exact tile took

    def play(self) -> None:
        for played in engine.in_parallel(self._compute, self._tiles(), workers()):
            self._take(*played)
        while self.waiting:
            for played in engine.in_parallel(self._compute, self._again(), workers()):
                self._take(*played)

    def _tiles(self) -> Iterator[Tile]:
        for number, group in enumerate(self.groups):
            blocks = planning.missing(self.plan, group, self.store, self.share)
            batches = (Batch(number, row, block) for row, block in blocks)
            for parts in _cut(((batch, np.arange(batch.left)) for batch in batches), partial(self._lanes, number)):
                if self._due():
                    yield from self._again()
                yield Tile(number, False, parts)

    def _again(self) -> Iterator[Tile]:
        """Tiles of all open lanes."""
        waiting, self.waiting = self.waiting, {}
        for number, lanes in waiting.items():
            for parts in _cut(iter(lanes), partial(self._lanes, number, exact=True)):
                yield Tile(number, True, parts)

    def _due(self) -> bool:
        """Whether waiting has an end: a tile is full, the memory is, or the time is up."""
        if not self.waiting:
            return False
        if time.monotonic() - self.since > max(PATIENCE[0], PATIENCE[1] * self.seconds):
            return True
        if sum(x.nbytes for lanes in self.waiting.values() for batch, _ in lanes for x in batch.record) > WAITING_BYTES:
            return True
        return any(
            sum(len(x) for _, x in lanes) >= self._lanes(number, exact=True) for number, lanes in self.waiting.items()
        )

    def _lanes(self, number: int, exact: bool = False) -> int:
        """Lanes of the group's tiles, whose program is compiled if it is not yet."""
        if (number, exact) not in self.programs:
            family = self.groups[number].family
            policies = family.fallback if exact else family.policies
            self.programs[number, exact] = planning.tiles(self.plan, self.groups[number], policies)
        return self.programs[number, exact].lanes

    def _compute(self, tile: Tile) -> tuple[Tile, engine.RunRecord]:
        rows = np.concatenate([np.full(len(lanes), batch.row) for batch, lanes in tile.parts])
        numbers = np.concatenate([batch.block.start + lanes for batch, lanes in tile.parts])
        start = time.monotonic()
        record = self.programs[tile.group, tile.exact].compute(rows, numbers)
        if tile.exact:
            self.seconds = time.monotonic() - start
        return tile, record

    def _take(self, tile: Tile, record: engine.RunRecord) -> None:
        """Hand a tile's lanes to their batches, and the batches that are complete to the store."""
        start = 0
        for batch, lanes in tile.parts:
            if batch.record is None:
                batch.record = jax.tree.map(lambda x, n=batch.left: np.empty((n, *x.shape[1:]), x.dtype), record)
            for whole, some in zip(batch.record, record, strict=True):
                whole[lanes] = some[start : start + len(lanes)]
            start += len(lanes)
            batch.left -= len(lanes)
            batch.exact[lanes] = tile.exact
            if batch.left == 0:
                self._complete(batch, tile.exact)
        if not tile.exact:
            self.bar.update(start)

    def _complete(self, batch: Batch, exact: bool) -> None:
        group, record = self.groups[batch.group], batch.record
        open_ = np.flatnonzero(record.uncertified_decisions)
        if open_.size and group.family.fallback is not None and not exact:
            self.since = self.since if self.waiting else time.monotonic()
            self.waiting.setdefault(batch.group, []).append((batch, open_))
            batch.left = open_.size
            return
        absent = ((0, 0), (0, self.store.arms - len(group.gaps)))
        rows = {
            "regret": pseudo_regret(record.checkpoint_pulls, group.gaps),
            "pulls": np.pad(record.pulls, absent),
            "forced_pulls": np.pad(record.forced_pulls, absent),
            "max_index_error": record.max_index_error,
            "uncertified_decisions": record.uncertified_decisions,
            "exact_rerun": batch.exact,
        }
        self.store.write(batch.block, rows)


def _cut(lanes: Iterator[tuple[Batch, np.ndarray]], size: Callable[[], int]) -> Iterator[list]:
    """The lanes of batch after batch in lists of `size` lanes, the last one shorter."""
    parts, room = [], None
    for batch, numbers in lanes:
        room = size() if room is None else room
        while numbers.size:
            parts.append((batch, numbers[:room]))
            numbers, room = numbers[room:], room - len(parts[-1][1])
            if room == 0:
                yield parts
                parts, room = [], size()
    if parts:
        yield parts
