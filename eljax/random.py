"""Counter-based randomness: every random number is a pure function of (seed, run, arm, pull).

    seed key = threefry key of the 64 bits of the seed      run = fold_in(seed key, r)
    arm      = fold_in(run, i)                              64 bits of reward s = key data of fold_in(arm, s)

Nothing depends on the round, the policy, the batch or the number of runs, so policies can be compared on the same
rewards, single runs re-done, and past rewards regenerated instead of stored.
"""

import jax
import jax.numpy as jnp
import numpy as np

POLICY_STREAM = np.uint32(2**32 - 1)  # the "arm" whose stream serves a policy's own randomness


def seed_key(seed: int) -> jax.Array:
    """Typed threefry key of a seed in [0, 2^64): all 64 bits count, with x64 on or off."""
    data = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")


def arm_keys(run_key: jax.Array, num_arms: int) -> jax.Array:
    """[K, 2] uint32: the key data of each arm's reward stream in one run."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(run_key, jnp.arange(num_arms, dtype=jnp.uint32))
    return jax.random.key_data(keys)


def tail_uniform(arm_key_data: jax.Array, pull: jax.Array, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array]:
    """One uniform number as (p, upper): the mass p in [2^-64, 1/2] of the nearer tail, and which tail that is.

    A float32 uniform near 1 cannot resolve tails beyond 6e-8; the mass of the nearer tail resolves both to 2^-64.
    `arm_key_data` is [2] uint32, `pull` the 0-based number of the pull.
    """
    arm_key = jax.random.wrap_key_data(arm_key_data, impl="threefry2x32")
    high, low = jax.random.key_data(jax.random.fold_in(arm_key, pull))
    upper = (high >> 31).astype(bool)
    # Signed conversions: an unsigned one has no vector instruction on common CPUs.
    high31 = (high & np.uint32(0x7FFFFFFF)).astype(jnp.int32).astype(dtype)
    low31 = (low >> 1).astype(jnp.int32).astype(dtype)
    p = high31 * dtype.type(2.0**-32) + (low31 * dtype.type(2.0**-63) + dtype.type(2.0**-64))
    return p, upper
