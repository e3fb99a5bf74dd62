"""Counter-based randomness: every random number is a pure function of (seed, run, arm, pull).

    seed key = threefry key of the 64 bits of the seed      run = fold_in(seed key, r)
    arm      = fold_in(run, i)                              64 bits of reward s = key data of fold_in(arm, s)

Nothing depends on the round, the policy, the batch or the number of runs, so policies can be compared on the same
rewards, single runs re-done, and past rewards regenerated instead of stored.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

POLICY_STREAM = np.uint32(2**32 - 1)  # the "arm" whose stream serves a policy's own randomness


class KeyData(NamedTuple):
    """The two words of a threefry key, apart: two vectors in a batch instead of an array of pairs."""

    high: jax.Array  # uint32
    low: jax.Array  # uint32


def seed_key(seed: int) -> jax.Array:
    """Typed threefry key of a seed in [0, 2^64): all 64 bits count, with x64 on or off."""
    data = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")


def arm_keys(run_key: jax.Array, num_arms: int) -> KeyData:
    """Key data, [K] each, of the arms' reward streams in one run."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(run_key, jnp.arange(num_arms, dtype=jnp.uint32))
    data = jax.random.key_data(keys)
    return KeyData(data[:, 0], data[:, 1])


def fold_in(key: KeyData, number: jax.Array) -> KeyData:
    """The key data of `jax.random.fold_in`, bit for bit: threefry-2x32 with 20 rounds on the counter (0, number).

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). jax compiles the rounds as a loop on
    CPUs, which takes a third of a whole simulation without indices; written out they fuse into one vector loop.
    """
    schedule = (key.high, key.low, key.high ^ key.low ^ np.uint32(0x1BD11BDA))
    x = key.high + jnp.zeros_like(number, jnp.uint32)
    y = key.low + number.astype(jnp.uint32)
    for group in range(5):
        for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = ((y << np.uint32(distance)) | (y >> np.uint32(32 - distance))) ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return KeyData(x, y)


def tail_uniform(arm_key: KeyData, pull: jax.Array, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
    """One uniform number as (p, upper): the mass p in [2^-64, 1/2] of the nearer tail, and which tail that is.

    A float32 uniform near 1 cannot resolve tails beyond 6e-8; the mass of the nearer tail resolves both to 2^-64.
    `pull` is the 0-based number of the pull.
    """
    high, low = fold_in(arm_key, jnp.asarray(pull))
    upper = (high >> 31).astype(bool)
    # Signed conversions: an unsigned one has no vector instruction on common CPUs.
    high31 = (high & np.uint32(0x7FFFFFFF)).astype(jnp.int32).astype(dtype)
    low31 = (low >> 1).astype(jnp.int32).astype(dtype)
    p = high31 * dtype.type(2.0**-32) + (low31 * dtype.type(2.0**-63) + dtype.type(2.0**-64))
    return p, upper
