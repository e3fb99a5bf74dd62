"""Several processes on one sweep, with `jax.distributed`: who plays what, and waiting for each other."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np


def share() -> tuple[int, int]:
    """(number of this process, number of processes)."""
    return jax.process_index(), jax.process_count()


@contextmanager
def agreed() -> Iterator[None]:
    """Wait for all processes at the end of the block; if it fails in one of them, all raise."""
    try:
        yield
    except Exception as error:
        agree(error)
        raise
    agree(None)


def agree(error: Exception | None) -> None:
    """Tell all processes whether this one has failed, once all have come here."""
    if jax.process_count() == 1:
        return
    from jax.experimental import multihost_utils

    failed = np.flatnonzero(multihost_utils.process_allgather(np.int32(error is not None)))
    if error is None and failed.size:
        raise RuntimeError(f"process {failed[0]} of this sweep has failed; what is wrong stands in its own message")
