"""`eljax.sweep`: the runs of all cells, flattened into lanes, tile by tile into the store.

    lanes of a group   cell 1: run 0, 1, ...   cell 2: run 0, 1, ...   ...   cut into tiles of one fixed size

A group is the policies of one family on one bandit; its lanes differ in hyperparameters and run number alone, so one
program plays them all, and a run is the same, bit for bit, as in `eljax.simulate`. A batch goes to the store as soon as
its last lane is played. Runs that met an open decision are played again with exact decisions: they wait for company,
because a tile costs the same however few of its lanes are used, but not for long.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm.auto import tqdm

from eljax import checks, engine
from eljax.results import pseudo_regret
from eljax.sweeps import planning, processes
from eljax.sweeps.opening import open_store, place
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


def sweep(
    bandits: Any,
    policies: Any,
    *,
    horizon: int,
    runs: int,
    seed: int = 0,
    path: Any = None,
    progress: bool = True,
    checkpoints: Sequence[int] | None = None,
    dtype: Any = None,
    batch_size: int | None = None,
) -> Any:
    """Simulate every policy on every bandit, and keep what is finished at once.

    Args:
      bandits: a `Bandit`, or a dict of bandits by name.
      policies: an `eljax.grid` (its parameters become dimensions); or a policy, a list of policies, or a dict of
        policies and grids by name (dimension "policy"; a grid's parameters become coordinates along it).
      horizon, runs, seed, checkpoints, dtype: as for `eljax.simulate`, which gives the same runs, bit for bit.
      path: a zarr store to make, or to continue: what is in it is not computed again, and more `runs` extend it. It may
        be read while the sweep is at work (`xarray.open_zarr`). None keeps everything in memory.
      progress: show a progress bar.
      batch_size: runs of a cell that are kept together; default 512 to 16,384, growing with `runs`, or the store's.

    Returns:
      An `xarray.Dataset` of dimensions bandit, policy (or the grid's parameters), run, checkpoint and arm: `regret`,
      `pulls`, `forced_pulls`, `gaps`, and for each run `max_index_error`, `uncertified_decisions` and `exact_rerun`.
      With a path it reads from there as needed. Attributes: the whole configuration and the versions of the software.

    Raises:
      ValueError: an argument out of range, before anything is compiled; a store of other settings, software or layout,
        or with a damaged batch: it is left as it was.
      OSError: the store cannot be written; finished batches are kept.
      KeyboardInterrupt: likewise.

    With `jax.distributed` initialised, each process plays its part and writes it to the one store, and all return it.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> scales = eljax.grid(eljax.policies.ucb, sigma=[0.5, 1.0])
      >>> data = eljax.sweep(bandit, scales, horizon=50, runs=8, progress=False)
      >>> dict(data.regret.isel(checkpoint=-1).sizes)
      {'bandit': 1, 'sigma': 2, 'run': 8}
    """
    plan = planning.plan(
        bandits,
        policies,
        horizon=horizon,
        runs=runs,
        seed=seed,
        checkpoints=checkpoints,
        dtype=dtype,
        batch_size=batch_size,
    )
    path, share = place(path), processes.share()
    if path is None and share[1] > 1:
        checks.fail("path", path, "a store in a folder that all processes share")
    store = open_store(path, plan, share)
    left, kept = planning.count_missing(plan, store, share), int(store.finished.sum())
    hidden = not progress or share[0] > 0
    title = "sweep" if kept == 0 else f"sweep, {kept:,} runs kept"
    with tqdm(total=left, unit="run", disable=hidden, desc=title) as bar:
        try:
            with processes.agreed():
                _Player(plan, store, share, bar).play()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_interrupted(store)) from None
    return store.dataset(plan.runs)


def workers() -> int:
    """How many tiles are in flight."""
    devices = jax.local_devices()
    return engine.parallel_tiles(devices) if devices[0].platform == "cpu" else 2  # one is played, one written


def _interrupted(store: Store) -> str:
    if store.path is None:
        return "interrupted; nothing is kept without a path"
    finished, batches = np.count_nonzero(store.finished), store.finished.size
    return f"interrupted: {finished} of {batches} batches are in {store.path!r}, and the same call continues from them"


class _Player:
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
