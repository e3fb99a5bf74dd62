"""Forced exploration, shared by the policies that have it: least-sampled arm first, else the largest index."""

import jax
import jax.numpy as jnp

from eljax import numerics
from eljax.schedules import Schedule, clamped
from eljax.types import Decision


def decide(
    schedule: Schedule,
    t: jax.Array,
    count: jax.Array,
    index: jax.Array,
    index_error: jax.Array,
    magnitude: jax.Array,
) -> Decision:
    """Pull a least-sampled arm while some arm has fewer than g(t) pulls, else an arm of largest index.

    All arrays are [K]; ties go to the lowest arm. `magnitude` (largest |reward|) sets what counts as tied.
    """
    g = clamped(schedule, t.astype(index.dtype), count.shape[0])
    least = jnp.argmin(count).astype(jnp.int32)
    forced = count.min() < g
    arm = jnp.where(forced, least, numerics.argmax_tied(index, magnitude))
    return Decision(arm, forced, index, index_error)
