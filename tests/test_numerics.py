"""The tie rule, the compensated sum, arms read and written by selection, batching with the lanes last, threefry."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from eljax import numerics, random

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


@pytest.mark.parametrize("num_arms", [1, 2, numerics.SELECTED, numerics.SELECTED + 1, 40])
@pytest.mark.parametrize("tail", [(), (3,)])
def test_arms_are_read_and_written_as_by_indexing(num_arms, tail):
    """Of one run, batched by vmap, and with the lanes last as `lanes_last` calls it; infinities included."""
    rng, lanes, dtype = np.random.default_rng(num_arms), 5, jnp.result_type(float)
    values = rng.normal(size=(lanes, num_arms, *tail)).astype(dtype)
    values[:, -1] = -np.inf
    new = rng.normal(size=(lanes, *tail)).astype(dtype)
    arm = np.arange(lanes, dtype=np.int32) * 7 % num_arms
    read = np.stack([v[a] for v, a in zip(values, arm, strict=True)])
    written = values.copy()
    written[np.arange(lanes), arm] = new
    for lane in range(lanes):
        np.testing.assert_array_equal(numerics.read(values[lane], jnp.asarray(arm[lane])), read[lane])
        np.testing.assert_array_equal(
            numerics.write(jnp.asarray(values[lane]), jnp.asarray(arm[lane]), jnp.asarray(new[lane])), written[lane]
        )
    for wrap in (lambda f: f, numerics.lanes_last):
        np.testing.assert_array_equal(jax.vmap(wrap(numerics.read))(values, arm), read)
        np.testing.assert_array_equal(jax.vmap(wrap(numerics.write))(values, arm, new), written)


def test_lanes_last_is_a_vmap():
    """Whatever is batched, and under a second vmap and jit."""

    @numerics.lanes_last
    def combine(x, y):  # [J], []: leading axes of its own, trailing ones for the lanes
        return {"sum": x[0] + x[1] * y, "all": x * y}

    x, y = np.arange(24.0).reshape(2, 3, 4)[..., :2], np.arange(6.0).reshape(2, 3)
    plain = lambda x, y: {"sum": x[0] + x[1] * y, "all": x * y}  # noqa: E731
    for axes in [(0, 0), (0, None), (None, 0)]:
        mine, theirs = (
            jax.vmap(f, axes)(x[0] if axes[0] == 0 else x[0, 0], y[0] if axes[1] == 0 else y[0, 0])
            for f in (combine, plain)
        )
        assert jax.tree.all(jax.tree.map(np.array_equal, mine, theirs))
    twice = jax.jit(jax.vmap(jax.vmap(combine)))(x, y)
    assert jax.tree.all(jax.tree.map(np.array_equal, twice, jax.vmap(jax.vmap(plain))(x, y)))


@pytest.mark.parametrize("num_arms", [1, 5, numerics.SELECTED + 4])
def test_argmax_and_all_of_along_the_first_axis(num_arms):
    rng = np.random.default_rng(0)
    for values in (rng.integers(0, 4, (num_arms, 50)).astype(float), rng.random((num_arms, 50)) < 0.7):
        np.testing.assert_array_equal(numerics.argmax(jnp.asarray(values)), values.argmax(0))
    flags = rng.random((num_arms, 50)) < 0.9
    np.testing.assert_array_equal(numerics.all_of(jnp.asarray(flags)), flags.all(0))


def test_minus_log_minus_is_accurate_relative_to_itself():
    """−log(1 − y) − y against 50 digits, from −1e6 to next to 1 and down to 1e-12."""
    dtype = jnp.result_type(float)
    y = np.concatenate([s * np.geomspace(1e-12, 0.99, 60) for s in (-1, 1)] + [-np.geomspace(1, 1e6, 20)]).astype(dtype)
    y = np.append(y, [0.25, -0.25, np.nextafter(dtype.type(0.25), dtype.type(0))]).astype(dtype)
    mine = np.asarray(numerics.minus_log_minus(jnp.asarray(y), jnp.asarray(1 - y)), np.float64)
    with mpmath.workdps(50):
        # 1 − y is given, rounded: the truth takes y for small and 1 − y for large |y|, as the rounding of y moves it.
        truth = [-mpmath.log(1 - mpmath.mpf(float(v))) - mpmath.mpf(float(v)) for v in y]
        error = [abs(m - t) / t for m, t in zip(mine, truth, strict=True)]
    assert max(error) <= 400 * jnp.finfo(dtype).eps  # at .99 the rounding of 1 − y is worth 100 ulp


def test_fold_in_is_that_of_jax():
    """Bit for bit: 1,000 keys and numbers, the ends of the range among them."""
    rng = np.random.default_rng(1)
    data = rng.integers(0, 2**32, (1_000, 2), dtype=np.uint32)
    numbers = rng.integers(0, 2**32, 1_000, dtype=np.uint32)
    numbers[:4], data[:2] = (0, 1, 2**31, 2**32 - 1), 0
    keys = jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")
    theirs = jax.random.key_data(jax.vmap(jax.random.fold_in)(keys, numbers))
    mine = random.fold_in(random.KeyData(data[:, 0], data[:, 1]), jnp.asarray(numbers))
    np.testing.assert_array_equal(np.stack(mine, 1), theirs)
