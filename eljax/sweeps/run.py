"""`eljax.sweep`: every policy on every bandit, kept batch by batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from eljax import checks
from eljax.sweeps import planning, processes
from eljax.sweeps.opening import open_store, place
from eljax.sweeps.playing import Player
from eljax.sweeps.store import Store


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
                Player(plan, store, share, bar).play()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_interrupted(store)) from None
    return store.dataset(plan.runs)


def _interrupted(store: Store) -> str:
    if store.path is None:
        return "interrupted; nothing is kept without a path"
    finished, batches = np.count_nonzero(store.finished), store.finished.size
    return f"interrupted: {finished} of {batches} batches are in {store.path!r}, and the same call continues from them"
