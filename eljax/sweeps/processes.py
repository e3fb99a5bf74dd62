"""Several processes on one sweep, with `jax.distributed`: who plays what, and waiting for each other.

They meet through JAX's coordination service (as its own `array_serialization` does), not by collective operations
on devices: those give up after seconds, and the parts of a sweep may end hours apart.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import jax
from jax._src import distributed  # the service has no public name

WAIT = 7 * 24 * 3600 * 1000  # milliseconds; if a process dies, the service ends the waiting
_meetings = itertools.count()  # all processes meet in the same order


def share() -> tuple[int, int]:
    """(number of this process, number of processes)."""
    return jax.process_index(), jax.process_count()


@contextmanager
def agreed() -> Iterator[None]:
    """Wait for all processes at the end of the block; if it fails in one of them, all raise."""
    try:
        yield
    except Exception as error:
        _meet(error)
        raise
    _meet(None)


def _meet(error: Exception | None) -> None:
    if jax.process_count() == 1:
        return
    client, name = distributed.global_state.client, f"eljax/sweep/{next(_meetings)}"
    if error is not None:
        client.key_value_set(f"{name}/failed/{jax.process_index()}", str(error))
    client.wait_at_barrier(f"{name}/met", WAIT)
    failed = client.key_value_dir_get(f"{name}/failed/")
    if error is None and failed:
        raise RuntimeError(f"process {failed[0][0].rpartition('/')[2]} of this sweep has failed: {failed[0][1]}")
