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
    magnitude: jax.Array,
    mean: jax.Array,
    index: jax.Array,
    error: jax.Array,
    *,
    solved: jax.Array | bool = False,
) -> Decision:
    """Pull a least-sampled arm while some arm has fewer than g(t) pulls, else an arm of largest index.

    All arrays are [K]; ties go to the lowest arm, `magnitude` (largest |reward|) sets what counts as tied, and `error`
    is each index's absolute error bound. A decision is certified if no indices within their bounds would change it, if
    they are known to within what counts as tied (rounding moves the exact index as much), or if they were `solved`
    exactly, to within the tolerance. In the last two cases, or if it is left open, it rests on the values of the
    indices, and what their errors exceed a tie by is reported.
    """
    g = clamped(schedule, t.astype(index.dtype), count.shape[0])
    arm, forced, relative, certified = _decide(g, count, magnitude, mean, index, error, jnp.asarray(solved))
    return Decision(arm, forced, index, relative, certified)


@numerics.lanes_last
def _decide(
    g: jax.Array,
    count: jax.Array,
    magnitude: jax.Array,
    mean: jax.Array,
    index: jax.Array,
    error: jax.Array,
    solved: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    least = numerics.argmax(-count)
    forced = numerics.read(count, least) < g
    arm, sure = numerics.argmax_tied(index, magnitude, error)
    beyond_ties = jnp.maximum(error - numerics.tie_tolerance(magnitude), 0)
    relative = jnp.where(beyond_ties > 0, beyond_ties / (index - mean), 0)
    tolerance = jnp.where(solved, numerics.index_tolerance(index.dtype), 0)
    certified = forced | sure | numerics.all_of((relative <= tolerance) & ~jnp.isnan(index))
    return jnp.where(forced, least, arm), forced, jnp.where(solved | ~sure, relative, 0), certified
