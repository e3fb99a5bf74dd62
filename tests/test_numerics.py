"""The tie rule and the compensated sum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eljax import numerics

NOTHING = np.zeros(3)


def choose(index, magnitude=(1.0, 1.0, 1.0), error=NOTHING):
    arm, sure = numerics.argmax_tied(*(jnp.asarray(x, jnp.result_type(float)) for x in (index, magnitude, error)))
    return int(arm), bool(sure)


def test_the_largest_index_wins_and_ties_go_to_the_lowest_arm():
    eps = float(jnp.finfo(jnp.result_type(float)).eps)
    assert choose([1.0, 5.0, 3.0]) == (1, True)
    assert choose([5.0, 5.0, 3.0]) == (0, True)
    assert choose([1.0, 1.0 + 8 * eps, 0.5]) == (0, True)  # apart by rounding
    assert choose([1.0, 1.0 + 2 * numerics.TIE_ULPS * eps, 0.5]) == (1, True)
    assert choose([1.0, 1.0 + 2 * numerics.TIE_ULPS * eps, 0.5], magnitude=[10.0, 1.0, 1.0])[0] == 0  # scale decides
    assert choose([1.0, np.inf, np.inf]) == (1, True)  # arms not yet pulled


def test_a_choice_is_sure_only_if_errors_cannot_change_it():
    assert choose([1.0, 2.0, 0.0], error=[0.4, 0.4, 0.4]) == (1, True)
    assert choose([1.0, 2.0, 0.0], error=[0.6, 0.6, 0.0]) == (1, False)
    assert choose([1.0, 2.0, 0.0], error=[np.inf, 0.0, 0.0]) == (1, False)
    assert choose([1.0, 1.0, 0.0], error=[1e-3, 1e-3, 0.0]) == (0, False)  # tied, or not


@pytest.mark.parametrize("index", [[1.0, np.nan, 5.0], [np.nan, 1.0, 5.0], [np.nan] * 3])
def test_a_nan_is_never_a_sure_choice(index):
    assert not choose(index)[1]


def test_compensated_sums_keep_what_plain_ones_lose():
    """2e6 float32 terms about 0.1, against exact sums."""
    x = np.random.default_rng(0).normal(0.1, 1.0, 2_000_000).astype(np.float32)
    zero = jnp.zeros((), jnp.float32)
    total = jax.jit(
        lambda x: jax.lax.scan(lambda s, v: (numerics.add(s, v), None), numerics.RunningSum(zero, zero), x)[0]
    )(x)
    exact = x.astype(np.longdouble).sum()
    assert abs(float(total.high) + float(total.low) - exact) <= 1e-9 * np.abs(x).sum(dtype=np.float64)
    ones = numerics.RunningSum(jnp.float32(2**24), jnp.float32(0))
    assert float(numerics.add(ones, jnp.float32(1)).low) == 1  # what float32 cannot add
