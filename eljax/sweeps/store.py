"""Where a sweep keeps its runs: one zarr group (format 2), which `xarray.open_zarr` reads like any other.

Runs of one cell are kept in batches of `batch_size`; every array has one chunk per cell and batch, so no two writers
ever share a chunk. A batch is there when its number in `done` is: that is written last, and says how many of its runs
are finished and what the CRC-32 of their bytes is. Chunks are replaced, never overwritten (zarr writes a new file and
renames it), so whatever happens to the process, a finished batch stays as it is, and an unfinished one counts for
nothing. More runs make the arrays longer, and a batch that was not full is filled up. The consolidated metadata, which
readers go by, are renewed last, so they see the old lengths or the new.
"""

import errno
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from eljax.sweeps.cells import Cells

PLACES = {  # what is kept of each run
    "regret": (("checkpoint",), np.float64, "pseudo-regret after the checkpoint's round, in units of the reward"),
    "pulls": (("arm",), np.int32, "pulls of each arm in all rounds"),
    "forced_pulls": (("arm",), np.int32, "pulls by forced exploration"),
    "max_index_error": ((), np.float64, "largest relative error of indices whose values decided"),
    "uncertified_decisions": ((), np.int32, "decisions that index errors may have changed, after exact re-runs"),
    "exact_rerun": ((), np.bool_, "done again with exact decisions"),
}
DONE = "finished runs of the batch times 2^32, plus the CRC-32 of their numbers; 0: not finished"


class Block(NamedTuple):
    """Runs start, ..., stop − 1 of one cell: all that its batch lacks."""

    bandit: int
    policy: int
    start: int
    stop: int


class Store:
    """An open store. `finished` [bandits, policies, batches] counts finished runs."""

    def __init__(self, group: Any, path: str | None, cells: Cells, batch_size: int):
        self.group, self.path, self.cells, self.batch_size = group, path, cells, batch_size
        self.arrays = {name: group[name] for name in PLACES}
        self.arms = self.arrays["pulls"].shape[-1]
        with clear_errors(self.path, "read"):
            done = np.asarray(group["done"][...]).reshape(len(cells.bandits), len(cells.policies), -1)
        self.finished, self._sums = done >> 32, done & 0xFFFFFFFF

    def missing(self, bandit: int, policy: int, batch: int, runs: int) -> Block | None:
        """What a batch lacks of the first `runs` runs."""
        first = batch * self.batch_size
        start, stop = first + int(self.finished[bandit, policy, batch]), min(first + self.batch_size, runs)
        return Block(bandit, policy, start, stop) if start < stop else None

    def write(self, block: Block, rows: Mapping[str, np.ndarray]) -> None:
        """Keep the runs of a block, [n, ...] by name. OSError if it fails; the batch then holds what it held before."""
        batch = block.start // self.batch_size
        first, cell = batch * self.batch_size, self._cell(block)
        with clear_errors(self.path, "write to"):
            total = 0
            for name, array in self.arrays.items():
                new = np.ascontiguousarray(rows[name], array.dtype)
                old = array[(*cell, slice(first, block.start))]
                array[(*cell, slice(block.start, block.stop))] = new
                total = zlib.crc32(new, zlib.crc32(np.ascontiguousarray(old), total))
            count = block.stop - first
            self.group["done"][(*cell, batch)] = count << 32 | total
        self.finished[block.bandit, block.policy, batch] = count
        self._sums[block.bandit, block.policy, batch] = total

    def verify(self, share: tuple[int, int] = (0, 1)) -> None:
        """ValueError naming the first finished batch whose numbers are not those that were written.

        `share` (i, n) checks every n-th batch from the i-th.
        """
        done = np.argwhere(self.finished > 0)
        for bandit, policy, batch in done[share[0] :: share[1]]:
            first, count = batch * self.batch_size, int(self.finished[bandit, policy, batch])
            cell, total = self._cell(Block(bandit, policy, 0, 0)), 0
            try:
                for array in self.arrays.values():
                    total = zlib.crc32(np.ascontiguousarray(array[(*cell, slice(first, first + count))]), total)
                intact = total == self._sums[bandit, policy, batch]
            except Exception:  # codecs complain of damage each in their own way
                intact = False
            if not intact:
                flag = os.path.join(str(self.path), "done", ".".join(map(str, (*cell, batch))))
                raise ValueError(
                    f"path {self.path!r} is damaged: runs {first} to {first + count - 1} of cell {cell} are not those "
                    f"that were written; to have them computed again, delete {flag!r}"
                )

    def extend(self, runs: int) -> None:
        """Make room for `runs` runs, if there is not yet; also ends an extension that was interrupted."""
        lengths = {array.shape[len(self.cells.shape)] for array in self.arrays.values()}
        batches = -(-max(runs, *lengths) // self.batch_size)
        if len(lengths) > 1 or runs > max(lengths) or self.group["done"].shape[-1] != batches:
            import zarr

            axis = len(self.cells.shape)
            with clear_errors(self.path, "write to"):
                for array in self.arrays.values():
                    array.resize((*array.shape[:axis], max(runs, *lengths), *array.shape[axis + 1 :]))
                self.group["done"].resize((*self.cells.shape, batches))
                zarr.consolidate_metadata(self.group.store, zarr_format=2)
            more = ((0, 0), (0, 0), (0, batches - self.finished.shape[-1]))
            self.finished, self._sums = np.pad(self.finished, more), np.pad(self._sums, more)

    def dataset(self, runs: int) -> Any:
        """The first `runs` runs as an `xarray.Dataset`: read when they are needed, or at once if there is no path."""
        import xarray as xr

        data = xr.open_zarr(self.group.store, chunks=None, consolidated=True).drop_vars("done")
        data = data.isel(run=slice(runs)).assign_coords(run=np.arange(runs))
        data.attrs["runs"] = runs
        return data.load() if self.path is None else data

    def _cell(self, block: Block) -> tuple[int, ...]:
        return int(block.bandit), *map(int, np.unravel_index(block.policy, self.cells.shape[1:]))


@contextmanager
def clear_errors(path: str | None, what: str) -> Iterator[None]:
    """An OSError in the block, such as of a full disk, with what it means for the store."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(
            error.errno or errno.EIO,
            f"cannot {what} the store at path {path!r}: {reason}. Its finished batches are kept, and the same call "
            "continues from them",
        ) from error
