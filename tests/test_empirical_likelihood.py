"""Exact empirical likelihood against outside references: ORACLES' 80-digit values, mpmath, bisection, statsmodels."""

import jax
import mpmath
import numpy as np
import pytest
from scipy.stats import chi2
from statsmodels.emplike.descriptive import DescStat

from eljax.empirical_likelihood import el_index, el_index_with_error, el_interval, el_weights, log_el
from eljax.empirical_likelihood import index as core

X64 = jax.config.jax_enable_x64
DTYPES = [np.float64, np.float32] if X64 else [np.float32]
needs_x64 = pytest.mark.skipif(not X64, reason="checks float64 accuracy")
LADDER = np.arange(5.0)

# Relative error allowed in (U − mean), on top of ULPS · eps · max|x| for the rounding of the mean and of the result.
RELATIVE = {np.float64: 1e-10, np.float32: 1e-4}
ULPS = 2


def assert_index(x, index, truth, mean, dtype, where=None):
    """|index − truth| ≤ RELATIVE · (truth − mean) + ULPS · eps · max|x|, lane by lane."""
    largest = np.abs(x if where is None else np.where(where, x, 0)).max(-1).astype(np.float64)
    error = np.abs(np.asarray(index).astype(np.longdouble) - truth)
    allowed = RELATIVE[dtype] * (truth - mean) + ULPS * np.finfo(dtype).eps * largest
    worst = np.argmax(np.asarray(error - allowed))
    assert np.all(error <= allowed), f"lane {worst}: error {error.ravel()[worst]}, allowed {allowed.ravel()[worst]}"


LANES = 260


def lanes(function, x, value, where=True):
    """function(x [m, 16], value [m], where) with rows padded to one shape: a function compiles once per dtype."""
    x = np.atleast_2d(x)
    order = np.arange(LANES) % len(x)
    padded = np.zeros((len(x), 16), x.dtype)
    padded[:, : x.shape[1]] = x
    where = np.broadcast_to(where, x.shape)
    present = np.zeros(padded.shape, bool)
    present[:, : x.shape[1]] = where
    value = np.broadcast_to(np.asarray(value, x.dtype), len(x))
    return jax.tree.map(lambda t: np.asarray(t)[: len(x)], function(padded[order], value[order], present[order]))


def interval(x, radius, where, **options):
    return el_interval(x, radius, where=where, **options)


# ORACLES: 80-digit arithmetic.
ORACLES = [
    (LADDER, 0.0, 2.0),
    (LADDER, 0.001, 2.0282834226424863),
    (LADDER, 0.1, 2.2819865146910407),
    (LADDER, 1.0, 2.8653526708837482),
    (LADDER, 3.0, 3.3852622925980813),
    (LADDER, 10.0, 3.9015152761219132),
    (LADDER, 50.0, 4 - 4.412853625e-6),
    (LADDER, 100.0, 4 - 1.644516551e-11),
    ([0.0, 1.0], 3.0, 0.98739432999167524),
    ([0.0, 1.0], 0.5, 0.81363567251166064),
    ([0.0] * 999 + [1.0], 3.0, 0.0057353984013669998),
    ([0.0] + [1.0] * 999, 3.0, 0.99998133020941877),
    ([0.0, 0.0, 0.0, 1e6], 3.0, 813833.47084004552),
    (1e8 + LADDER, 3.0, 1e8 + 3.3852622925980813),
    ([1.0, 1.0, 1.0], 3.0, 1.0),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_oracles(dtype):
    # 1e8 + (0..4) is not a float32 sample.
    rows = [row for row in ORACLES if np.all(np.asarray(row[0], dtype) == np.asarray(row[0]))]
    x, where = np.zeros((len(rows), 1000), dtype), np.zeros((len(rows), 1000), bool)
    for lane, (sample, _, _) in enumerate(rows):
        x[lane, : len(sample)], where[lane, : len(sample)] = sample, True
    index = el_index(x, np.array([row[1] for row in rows], dtype), where)
    assert index.dtype == dtype
    truth, mean = np.array([(row[2], np.mean(row[0])) for row in rows]).T
    assert_index(x, index, truth, mean, dtype, where)


@needs_x64
def test_index_next_to_the_maximum_keeps_the_gap():
    # 1.644516551e-11 below the maximum: put the maximum at 0, where the result can show it.
    index = lanes(el_index, [LADDER - 4, LADDER - 4], [100.0, 50.0])
    np.testing.assert_allclose(index, [-1.644516551e-11, -4.412853625e-6], rtol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_el_oracles(dtype):
    means = np.array([2, 2.5, 3, 1e-6, 0, -1, 4, 7], dtype)
    truth = [0, 0.31873873819862346, 1.3724276908211782, 55.938084465347561, np.inf, np.inf, np.inf, np.inf]
    ladder = np.tile(LADDER.astype(dtype), (8, 1))
    values = 5 * lanes(log_el, ladder, means)
    np.testing.assert_allclose(values, truth, rtol=1e-12 if dtype == np.float64 else 1e-5)
    # 3.999999 is not a binary number; about 0 the distance from the end is nearly exact in float32 too.
    np.testing.assert_allclose(5 * lanes(log_el, ladder - 4, -1e-6), [truth[3]] * 8, rtol=1e-6)
    if dtype == np.float64:
        np.testing.assert_allclose(5 * lanes(log_el, ladder, 3.999999), [truth[3]] * 8, rtol=1e-10)


KINDS = (
    ("normal", lambda rng, n: rng.normal(size=n)),
    ("exponential", lambda rng, n: rng.exponential(size=n) * rng.choice([-1, 1])),
    ("lognormal", lambda rng, n: np.exp(3 * rng.normal(size=n)) * rng.choice([-1, 1])),
    ("uniform", lambda rng, n: rng.uniform(size=n)),
    ("cauchy", lambda rng, n: rng.standard_cauchy(size=n)),
    ("binary", lambda rng, n: (rng.uniform(size=n) < rng.uniform() ** 2) * rng.choice([-1.0, 1.0])),
    ("counts", lambda rng, n: rng.poisson(rng.choice([0.3, 2.0, 20.0]), size=n) * 1.0),
    ("ties at the maximum", lambda rng, n: np.minimum(rng.normal(size=n), rng.normal())),
    ("clusters", lambda rng, n: rng.integers(0, 3, size=n) * 1e3 + rng.normal(size=n) * 10 ** rng.uniform(-6, 2)),
    ("one low", lambda rng, n: (np.arange(n) > 0) * 1.0),
    ("one high", lambda rng, n: (np.arange(n) == 0) * 1.0),
    ("outlier up", lambda rng, n: np.where(np.arange(n) == 0, 10 ** rng.uniform(1, 12), rng.normal(size=n))),
    ("outlier down", lambda rng, n: np.where(np.arange(n) == 0, -(10 ** rng.uniform(1, 12)), rng.normal(size=n))),
)


def draw(count, width, least, seed, dtype):
    """`count` samples of least..width points scattered over masked rows, and a radius each (log-uniform 1e-6..100)."""
    rng = np.random.default_rng(seed)
    x, where = np.empty((count, width), dtype), np.zeros((count, width), bool)
    for lane in range(count):
        n = int(np.exp(rng.uniform(np.log(least), np.log(width + 1))))
        sample = KINDS[lane % len(KINDS)][1](rng, n)
        scale = 10 ** rng.uniform(-9, 11)
        if rng.uniform() < 0.5:
            spread = max(np.std(sample), 1e-3)
            sample = sample + rng.choice([-1, 1]) * spread * 10 ** rng.uniform(-2, 8 if dtype == np.float64 else 3)
        where[lane, rng.permutation(width)[:n]] = True
        x[lane] = rng.normal() * scale
        x[lane, where[lane]] = sample * scale
    return x, where, (10 ** rng.uniform(-6, 2, size=count)).astype(dtype)


def bisect(x, where, radius, steps=30):
    """U and the mean in 80-bit arithmetic: plain bisection on the log pole of the textbook dual, then its value."""
    x, w, n = x.astype(np.longdouble), where.astype(np.longdouble), where.sum(-1, keepdims=True)
    average = lambda t: (w * t).sum(-1, keepdims=True) / n  # noqa: E731
    top = np.where(where, x, -np.inf).max(-1, keepdims=True)
    span = top - np.where(where, x, np.inf).min(-1, keepdims=True)
    gap = np.where(where, top - x, 0) / np.where(span > 0, span, 1)
    centre = average(gap)
    centre = centre + average(gap - centre)
    c = radius[:, None].astype(np.longdouble) / n

    def at(y):
        eps = np.exp(y)
        u = (centre - gap) / (centre + eps)
        logs = np.where(u < 0.5, np.log1p(-np.minimum(u, 0.5)), np.log((gap + eps) / (centre + eps)))
        return eps, average(logs)

    low, high = np.full_like(c, -250), np.full_like(c, 15)
    for _ in range(steps):
        middle = (low + high) / 2
        eps, mean_log = at(middle)
        above = np.log(average((centre + eps) / (gap + eps))) + mean_log > c
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    eps, mean_log = at((low + high) / 2)
    mean = top - span * centre
    rise = np.where(span > 0, -span * (centre + eps) * np.expm1(mean_log - c), 0)
    return np.where(span > 0, mean + rise, top)[:, 0], mean[:, 0]


@pytest.mark.parametrize(("count", "width", "least"), [(14_950, 16, 1), (4_680, 128, 8), (390, 2000, 64)])
def test_index_on_20000_samples(count, width, least):
    for dtype in DTYPES:
        rows = count if dtype == np.float64 or width == 16 else count // 4
        x, where, radius = draw(rows, width, least, 7, dtype)
        truth, mean = bisect(x, where, radius)
        index, error = (np.asarray(t) for t in el_index_with_error(x, radius, where))
        assert index.dtype == dtype
        assert_index(x, index, truth, mean, dtype, where)
        assert np.all(np.abs(index - truth) <= error * (truth - mean)), "the error estimate is not from above"
        typical = np.median(error)
        assert typical < (1e-10 if dtype == np.float64 else 1e-2)
        largest = np.where(where, x, -np.inf).max(-1)
        at_zero = np.asarray(el_index(x, np.zeros_like(radius), where))
        assert np.all((at_zero <= index) & (index <= largest))
        assert_index(x, at_zero, mean, mean, dtype, where)


def mp_index(x, radius):
    """U with 80 digits: bisection to 1e-12 on log pole (the min form is of second order), independent of eljax."""
    with mpmath.workdps(80):
        x = [mpmath.mpf(float(v)) for v in x]
        n, top, bottom = len(x), max(x), min(x)
        c = mpmath.mpf(float(radius)) / n
        if top == bottom:
            return top, top
        gap = [(top - v) / (top - bottom) for v in x]
        low, high = mpmath.mpf(-2 * max(float(radius), 10) - 50), mpmath.mpf(40)

        def mean_log(y):
            return mpmath.fsum(mpmath.log(g + mpmath.exp(y)) for g in gap) / n

        for _ in range(50):
            y = (low + high) / 2
            eps = mpmath.exp(y)
            value = mean_log(y) + mpmath.log(mpmath.fsum(1 / (g + eps) for g in gap) / n)
            low, high = (y, high) if value > c else (low, y)
        y = (low + high) / 2
        index = top + (top - bottom) * (mpmath.exp(y) - mpmath.exp(mean_log(y) - c))
        return index, mpmath.fsum(x) / n


@needs_x64
def test_index_and_log_el_against_80_digits():
    x, where, radius = draw(LANES, 16, 2, 11, np.float64)
    index = np.asarray(el_index(x, radius, where))
    for lane in range(LANES):
        truth, mean = mp_index(x[lane, where[lane]], radius[lane])
        allowed = 1e-10 * float(truth - mean) + ULPS * np.finfo(float).eps * np.abs(x[lane, where[lane]]).max()
        assert abs(float(mpmath.mpf(float(index[lane])) - truth)) <= allowed


def mp_log_el(x, mean):
    with mpmath.workdps(80):
        z = [mpmath.mpf(float(v)) - mpmath.mpf(float(mean)) for v in x]
        # λ lies in (−1/max z, −1/min z), where Σ z/(1 + λz) decreases.
        low, high = -1 / max(z), -1 / min(z)
        for _ in range(250):
            middle = (low + high) / 2
            if mpmath.fsum(v / (1 + middle * v) for v in z) > 0:
                low = middle
            else:
                high = middle
        weights = [1 / (1 + low * v) / len(z) for v in z]
        value = mpmath.fsum(mpmath.log(1 + low * v) for v in z) / len(z)
        return float(value) if value > 1e-70 else 0.0, [float(q) for q in weights]


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_el_and_weights_against_80_digits(dtype):
    """Candidate means at relative distances 1e-15..1 of the sample mean and of either end of the hull."""
    rng = np.random.default_rng(3)
    x, where, _ = draw(LANES, 16, 2, 13, dtype)
    near, end = 10 ** rng.uniform(-15, 0, size=LANES), rng.integers(0, 4, size=LANES)
    masked = np.ma.masked_array(x.astype(np.float64), ~where)
    low, middle, high = (np.asarray(f(-1)) for f in (masked.min, masked.mean, masked.max))
    start = np.choose(end, [middle, middle, low, high])
    mean = (start + np.choose(end, [high - middle, low - middle, middle - low, middle - high]) * near).astype(dtype)
    value, weights = np.asarray(log_el(x, mean, where)), np.asarray(el_weights(x, mean, where))
    assert value.dtype == weights.dtype == dtype
    assert np.all(weights[~where] == 0)
    rtol = 1e-10 if dtype == np.float64 else 1e-4
    eps, inside = np.finfo(dtype).eps, 0
    checked = 130 if dtype == np.float64 else 65
    for lane in range(checked):
        sample = x[lane, where[lane]]
        if sample.min() < mean[lane] < sample.max():
            inside += 1
            truth, q = mp_log_el(sample, mean[lane])
            assert np.isclose(value[lane], truth, rtol=rtol, atol=np.finfo(dtype).tiny), (lane, value[lane], truth)
            np.testing.assert_allclose(weights[lane, where[lane]], q, rtol=rtol, atol=eps * 1e-3)
            assert abs(weights[lane].sum() - 1) < 8 * eps
        elif sample.min() < sample.max():
            assert value[lane] == np.inf
            assert not weights[lane].any()
    assert inside > 0.6 * checked


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_el_and_index_are_inverse(dtype):
    x, where, radius = draw(LANES, 16, 4, 5, dtype)
    radius = np.clip(radius, 0.01, 5).astype(dtype)
    spread = np.ptp(np.where(where, x, x[np.arange(len(x)), where.argmax(-1)][:, None]), axis=-1)
    fair = spread > 1e-3 * np.abs(x).max(-1)  # else the index itself is rounded too coarsely to be inverted
    index, mean = (np.asarray(el_index(x, r, where)) for r in (radius, dtype(0)))
    back = np.asarray(log_el(x, index, where)) * where.sum(-1)
    slack = np.maximum(
        np.finfo(dtype).eps
        * 64
        * np.abs(x).max(-1)
        / np.maximum(index - mean, np.finfo(dtype).eps * np.abs(x).max(-1)),
        1e-13,
    )
    top = np.where(where, x, -np.inf).max(-1)
    fair &= (top - index) > 1e-2 * spread
    assert fair.sum() > 60
    assert np.all(np.abs(back / radius - 1)[fair] <= (4 * slack)[fair])


@pytest.mark.parametrize("dtype", DTYPES)
def test_edge_cases(dtype):
    x = np.zeros((5, 16), dtype)
    where = np.zeros((5, 16), bool)
    x[0, :4], where[0, :4] = 0.1, True  # constant
    x[1, 3], where[1, 3] = -7.3, True  # one point
    x[2, 2], x[2, 9] = np.nan, np.inf  # nothing: masked entries are never looked at
    x[3, :5], where[3, :5] = LADDER, True
    x[4, :3], where[4, :3] = [0.0, 0.0, 3.0], True
    inf, tenth, single = np.inf, dtype(0.1), dtype(-7.3)
    means = np.array([0.1, single, 0, 2, 1], dtype)
    for radius in (0.0, 1e-300, 1e-30, 1e-6, 3.0, 1e4, 1e30, inf):
        index, error = lanes(el_index_with_error, x, radius, where)
        assert index[0] == tenth
        assert index[1] == single
        assert index[2] == inf
        assert np.all(np.asarray(error[:3]) == 0)
        if dtype(radius) == 0:
            np.testing.assert_array_equal(index[3:], [2, 1])
            assert np.all(np.asarray(error) == 0)
        elif radius >= 1e4:
            np.testing.assert_array_equal(index[3:], [4, 3])
        else:
            assert np.all((index[3:] >= means[3:]) & (index[3:] < np.array([4, 3])))
        lower, upper = lanes(interval, x, radius, where)
        np.testing.assert_array_equal(upper, index)
        np.testing.assert_array_equal(lower, -lanes(el_index, -x, radius, where))
        assert lower[2] == -inf
    np.testing.assert_array_equal(lanes(log_el, x, means, where), np.zeros(5))
    np.testing.assert_array_equal(lanes(log_el, x, means + dtype(1e-3), where)[:3], [inf, inf, 0])
    for outside in (-inf, -10.0, 10.0, inf):
        np.testing.assert_array_equal(lanes(log_el, x, outside, where), [inf, inf, 0, inf, inf])
        assert not lanes(el_weights, x, outside, where).any()
    uniform = np.where(where, 1 / np.maximum(where.sum(-1, keepdims=True), 1), 0)
    np.testing.assert_allclose(lanes(el_weights, x, means, where), uniform, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_radius_follows_the_square_root(dtype):
    # U − m → sd √(2C/n), far below the smallest radius that the solver itself sees.
    x = np.tile(np.array([-1.0, 1.0, -1.0, 1.0], dtype), (5, 1))
    radius = np.array([1e-34, 1e-30, 1e-24, 1e-18, 1e-14], dtype)
    np.testing.assert_allclose(lanes(el_index, x, radius), np.sqrt(radius / 2), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-300, -250, -100, -30, -9, 0, 11, 30, 100, 250, 300, 307])
def test_equivariance_across_the_exponent_range(dtype, exponent):
    if dtype == np.float32:
        exponent = exponent // 10 + (exponent > 0)
    # A power of two: the scaled sample is exact, so all that may change is rounding.
    a = np.exp2(np.round(exponent * np.log2(10))).astype(dtype)
    x = np.random.default_rng(1).normal(size=(3, 16)).astype(dtype)
    x[0, 0], x[1, :4] = -1.5, 0.25
    eps = np.finfo(dtype).eps
    scaled = x * a
    assert np.all(np.isfinite(scaled))
    for radius in (0.0, 1e-3, 3.0, 40.0):
        for sign in (1, -1):
            index = lanes(el_index, sign * scaled, radius)
            np.testing.assert_allclose(index / a, lanes(el_index, sign * x, radius), rtol=8 * eps, atol=4 * eps)
    mean = np.array([0.3, -0.2, 0.1], dtype)
    np.testing.assert_allclose(lanes(log_el, scaled, mean * a), lanes(log_el, x, mean), rtol=1e4 * eps)
    np.testing.assert_allclose(lanes(el_weights, scaled, mean * a), lanes(el_weights, x, mean), rtol=1e4 * eps)


def test_full_range_of_the_exponent():
    dtype = DTYPES[0]
    huge = np.finfo(dtype).max
    sample = np.array([-huge, huge, 0, huge], dtype)
    index = lanes(el_index, sample, 0.5)
    np.testing.assert_allclose(index / huge, lanes(el_index, sample / huge, 0.5), rtol=1e-5)
    assert np.isfinite(lanes(log_el, sample, 0.0)).all()
    for tiny in (np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny):
        assert np.isfinite(lanes(interval, np.array([0, tiny, 2 * tiny], dtype), 1.0)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_offsets_and_scales(dtype):
    rng = np.random.default_rng(4)
    # Samples on a grid: adding the offset is exact.
    x = rng.integers(-8, 9, size=(16, 16)).astype(dtype)
    offset = dtype(2.0**28 if dtype == np.float64 else 2.0**16)
    plain, moved = (lanes(el_index, t, 3.0) for t in (x, x + offset))
    np.testing.assert_allclose(moved - offset, plain, atol=4 * np.finfo(dtype).eps * offset)
    mean = (x.min(-1) + x.max(-1)) / 2 + dtype(0.5)
    np.testing.assert_allclose(
        lanes(log_el, x + offset, mean + offset), lanes(log_el, x, mean), rtol=1e3 * np.finfo(dtype).eps
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_monotone_and_concave_in_the_radius(dtype):
    x, where, _ = draw(26, 16, 2, 17, dtype)
    radius = np.concatenate([[0], np.linspace(0.02, 60, 574)]).astype(dtype)
    # 575 · 26 lanes: the shape of the sweep above.
    rows = [np.repeat(x, 575, 0), np.tile(radius, 26), np.repeat(where, 575, 0)]
    index = np.asarray(el_index(*rows)).reshape(26, 575).T.astype(np.float64)
    rounding = 4 * np.finfo(dtype).eps * np.abs(np.where(where, x, 0)).max(-1)
    assert np.all(np.diff(index, axis=0) >= -rounding)
    slopes = np.diff(index, axis=0) / np.diff(radius.astype(np.float64))[:, None]
    # Radii are rounded too, hence the relative part.
    assert np.all(np.diff(slopes, axis=0) <= 4 * rounding / 0.02 + 64 * np.finfo(dtype).eps * np.abs(slopes[1:]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_duplication_permutation_and_weights(dtype):
    x, where, radius = draw(LANES, 16, 2, 19, dtype)
    rng = np.random.default_rng(0)
    rounding = 6 * np.finfo(dtype).eps * np.abs(np.where(where, x, 0)).max(-1)
    index = np.asarray(el_index(x, radius, where))
    order = rng.permutation(16)
    assert np.all(np.abs(el_index(x[:, order], radius, where[:, order]) - index) <= rounding)
    twice = el_index(np.concatenate([x, x], -1), 2 * radius, np.concatenate([where, where], -1))
    assert np.all(np.abs(twice - index) <= rounding)
    # Weights are multiplicities: 0 leaves a point out, 2 takes it twice.
    counts = rng.integers(0, 3, size=x.shape)
    lower, upper = el_interval(x, radius, where=where, weights=counts)
    repeated, present = np.concatenate([x, x], -1), np.concatenate([where & (counts > 0), where & (counts > 1)], -1)
    some = present.any(-1)
    for end, truth in ((upper, el_index(repeated, radius, present)), (lower, -el_index(-repeated, radius, present))):
        assert np.all(np.abs(end - truth)[some] <= rounding[some])
        np.testing.assert_array_equal(end[~some], truth[~some])
    scaled = el_interval(x, radius * dtype(0.37), where=where, weights=np.full(16, 0.37))
    assert np.all(np.abs(scaled[1] - index) <= rounding)


@needs_x64
def test_binary_samples_are_bernoulli_kl_ucb():
    ones, n, radius = (t.ravel() for t in np.meshgrid([1, 2, 7, 15], [16], [1e-4, 0.1, 1.0, 3.0, 30.0]))
    x = (np.arange(16) < ones[:, None]).astype(float)
    p, low, high = ones / n, ones / n, np.ones(len(n))
    kl = lambda q: p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))  # noqa: E731
    for _ in range(60):
        q = (low + high) / 2
        with np.errstate(divide="ignore"):
            above = n * kl(q) > radius
        low, high = np.where(above, low, q), np.where(above, q, high)
    np.testing.assert_allclose(lanes(el_index, x, radius), low, rtol=1e-11)


@needs_x64
def test_interval_is_that_of_statsmodels():
    x = np.random.default_rng(2).exponential(size=(4, 16)) - 0.7
    where = np.arange(16) < np.array([[10], [12], [16], [16]])
    for level in (0.5, 0.9, 0.95, 0.99):
        truth = [DescStat(row[present]).ci_mean(sig=1 - level) for row, present in zip(x, where, strict=True)]
        found = lanes(lambda x, _, where, level=level: el_interval(x, confidence=level, where=where), x, 0.0, where)
        np.testing.assert_allclose(np.transpose(found), truth, rtol=1e-9, atol=1e-10)
        by_radius = lanes(interval, x, chi2.ppf(level, 1) / 2, where)
        np.testing.assert_allclose(found, by_radius, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_samples_are_solved_in_blocks(dtype, monkeypatch):
    x, where, radius = draw(LANES, 16, 2, 29, dtype)
    x, where, radius = (np.resize(t, (2, 23, *t.shape[1:])) for t in (x, where, radius))
    whole = [np.asarray(t) for t in el_index_with_error(x, radius, where)]
    monkeypatch.setattr(core, "BLOCK_BYTES", 1)
    monkeypatch.setattr(core, "LANES", 10)  # 46 samples: five blocks, the last one padded
    core.index.clear_cache()
    blocks = el_index_with_error(x, radius, where)
    core.index.clear_cache()
    rtol = 1e-6 if dtype == np.float32 else 1e-13
    for block, plain in zip(blocks, whole, strict=True):
        assert block.shape == (2, 23)
        np.testing.assert_allclose(block, plain, rtol=rtol)


def test_jit_vmap_and_scan_agree_with_the_plain_call():
    x, where, radius = draw(LANES, 16, 2, 23, DTYPES[0])
    plain = np.asarray(el_index(x, radius, where))
    rtol = 1e-6 if DTYPES[0] == np.float32 else 1e-13
    np.testing.assert_allclose(jax.jit(el_index)(x, radius, where), plain, rtol=rtol)
    np.testing.assert_allclose(jax.vmap(el_index)(x, radius, where), plain, rtol=rtol)
    _, scanned = jax.lax.scan(lambda carry, lane: (carry, el_index(*lane)), 0, (x, radius, where))
    np.testing.assert_allclose(scanned, plain, rtol=rtol)
    # NaN that a check cannot see comes out as NaN.
    assert np.isnan(jax.jit(el_index)(np.array([0.0, np.nan, 1.0]), 1.0))
    assert np.isnan(jax.jit(log_el)(LADDER, np.nan))
