"""Reward laws against scipy.stats and mpmath, through the path the simulator draws with.

Random tests use fixed keys; false-alarm rates are for the whole family of comparisons (Bonferroni).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from law_table import ATOMIC, CONTINUOUS, DTYPES, LAWS, SAMPLES, N, draw
from scipy import stats

from eljax.arms import (
    Bandit,
    bernoulli,
    beta,
    clipped_gaussian,
    dirac,
    discrete,
    empirical,
    exponential,
    gamma,
    gaussian,
    laplace,
    paper_instances,
    pareto,
    reward,
    student_t,
    tables,
    tabulated,
    two_point,
    uniform,
)
from eljax.random import KeyData, arm_keys, seed_key, tail_uniform

FALSE_ALARM = 1e-3  # for all random comparisons of one test function together


# ------------------------------------------------------------------------------------------------ laws in distribution


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("arm", "truth"), CONTINUOUS)
def test_rewards_follow_the_law(arm, truth, dtype):
    """Kolmogorov-Smirnov on 20,000 rewards."""
    x = draw(arm, dtype)
    assert x.dtype == dtype
    assert np.isfinite(x).all()
    # float32 rounds Beta(.3, .6) and the like onto few numbers near 1: a reward stands for all that round to it
    x = np.sort(x)
    ulp = np.spacing(np.abs(x)).astype(np.float64)
    low, high = truth.cdf(x.astype(np.float64) - ulp), truth.cdf(x.astype(np.float64) + ulp)
    rank = np.arange(1, N + 1)
    distance = max((rank / N - high).max(), (low - (rank - 1) / N).max())
    assert stats.kstwo.sf(distance, N) > FALSE_ALARM / (len(LAWS) * len(DTYPES))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arm", [pytest.param(arm, id=name) for name, arm in ATOMIC.items()])
def test_atoms_have_their_probabilities(arm, dtype):
    """Chi-squared on the counts; no other value ever occurs."""
    values, probs = arm.atoms
    drawn, counts = np.unique(draw(arm, dtype), return_counts=True)
    assert np.isin(drawn, values.astype(dtype)).all()
    observed = np.zeros(values.size)
    observed[np.searchsorted(values, drawn)] = counts
    often = N * probs >= 5
    observed = np.append(observed[often], observed[~often].sum())
    expected = np.append(N * probs[often], N * probs[~often].sum())
    keep = expected > 0
    assert stats.chisquare(observed[keep], expected[keep]).pvalue > FALSE_ALARM / (len(ATOMIC) * len(DTYPES))


@pytest.mark.parametrize("dtype", DTYPES)
def test_mean_and_variance_within_standard_errors(dtype):
    arms = [arm for arm, _ in LAWS.values()] + list(ATOMIC.values()) + [empirical(SAMPLES)]
    limit = stats.norm.isf(FALSE_ALARM / (2 * 2 * len(arms)))
    for arm in arms:
        x = draw(arm, dtype, seed=3).astype(np.float64)
        assert abs(x.mean() - arm.mean) < limit * np.sqrt(arm.variance / N), arm
        spread = (x - arm.mean) ** 2
        if np.isfinite(arm.variance) and stats.kurtosis(x) < 20:  # else the standard error itself is not to be trusted
            assert abs(spread.mean() - arm.variance) < limit * spread.std() / np.sqrt(N), arm


@pytest.mark.parametrize(("arm", "truth"), CONTINUOUS)
def test_mean_variance_support_are_scipys(arm, truth):
    np.testing.assert_allclose([arm.mean, arm.variance], truth.stats("mv"), rtol=1e-13)
    assert arm.support == tuple(truth.support())


def test_a_clipped_gaussian_out_of_reach_is_constant():
    for mean, end in ((-1e6, 0.0), (1e300, 1.0)):
        arm = clipped_gaussian(mean, 1e-3)
        assert (arm.mean, arm.variance) == (end, 0.0)
        assert (draw(arm, np.float64, 100) == end).all()
    assert clipped_gaussian(0.5, 0.1).variance == pytest.approx(0.01, rel=1e-5)


def test_infinite_variance_is_stated():
    assert student_t(2).variance == student_t(1.5).variance == pareto(2, 1).variance == np.inf
    assert student_t(1.1, mean=4).mean == 4


# ------------------------------------------------------------------------------------------------------------- streams


def test_rewards_do_not_depend_on_how_many_are_drawn():
    bandit = Bandit([gaussian(0, 1), beta(2, 3), exponential(1)])
    for arm in range(3):
        all_of_them = bandit.rewards(seed=2**63 + 5, run=7, arm=arm, pulls=3_000)
        for n in (0, 1, 7, 1_024, 1_025):
            np.testing.assert_array_equal(bandit.rewards(seed=2**63 + 5, run=7, arm=arm, pulls=n), all_of_them[:n])
        some = np.array([2_999, 0, 17, 17])
        np.testing.assert_array_equal(bandit.rewards(seed=2**63 + 5, run=7, arm=arm, pulls=some), all_of_them[some])


def test_rewards_do_not_depend_on_the_other_arms():
    x = Bandit([gaussian(0, 1), gaussian(1, 2)]).rewards(seed=1, run=0, arm=1, pulls=100)
    y = Bandit([dirac(0), gaussian(1, 2), exponential(3), empirical([1, 2])]).rewards(seed=1, run=0, arm=1, pulls=100)
    np.testing.assert_allclose(x, y, rtol=4 * np.finfo(x.dtype).eps)


def test_streams_are_distinct():
    bandit = Bandit([gaussian(0, 1)] * 3)
    streams = [(seed, run, arm) for seed in (0, 1, 2**32, 2**64 - 1) for run in (0, 1, 2**32 - 1) for arm in range(3)]
    drawn = np.array([bandit.rewards(seed=s, run=r, arm=a, pulls=50, dtype=np.float64) for s, r, a in streams])
    assert np.unique(drawn).size == drawn.size
    correlations = np.corrcoef(drawn) - np.eye(len(streams))
    assert np.abs(correlations).max() < 0.8  # 630 pairs of 50: beyond 0.8 has probability 1e-9


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_scan_draws_the_same_rewards(dtype):
    """As the engine does: scan over rounds of vmap over 1,024 runs, the arm chosen on the way; bit for bit."""
    bandit = Bandit([gaussian(10, 4), pareto(2.3, 0.7), beta(3, 2, 50), empirical([1, 2, 3])])
    rounds, runs = 24, 1_024

    def run_of(law, run):
        keys = arm_keys(jax.random.fold_in(seed_key(9), run), 4)

        def step(counts, t):
            arm = ((t * 7 + run) % 4).astype(jnp.int32)
            p, upper = tail_uniform(KeyData(*(x[arm] for x in keys)), counts[arm], np.dtype(dtype))
            return counts.at[arm].add(np.uint32(1)), (arm, reward(law, arm, p, upper))

        return jax.lax.scan(step, jnp.zeros(4, jnp.uint32), jnp.arange(rounds, dtype=jnp.uint32))[1]

    with jax.enable_x64(dtype == np.float64):
        simulate = jax.jit(jax.vmap(run_of, (None, 0)))
        arms, rewards = map(np.asarray, simulate(bandit.law(dtype), np.arange(runs, dtype=np.uint32)))
    for run in (0, 5, 1_023):
        for arm in range(4):
            seen = rewards[run, arms[run] == arm]
            again = bandit.rewards(seed=9, run=run, arm=arm, pulls=seen.size, dtype=dtype)
            np.testing.assert_array_equal(again, seen)


def test_parameters_do_not_recompile():
    traces = []

    @jax.jit
    def draw_one(law, arm, p, upper):
        traces.append(law.families)
        return reward(law, arm, p, upper)

    for mean in (0.0, 1.0, 2.0):
        arms = [
            gaussian(mean, 1 + mean),
            beta(2 + mean, 3),
            empirical([mean, 1, 2]),
            two_point([0, mean + 1], [0.5, 0.5]),
        ]
        draw_one(Bandit(arms).law(np.float32), np.int32(1), np.float32(0.25), True)
    assert len(traces) == 1
    draw_one(Bandit([gaussian(0, 1), exponential(1)]).law(np.float32), np.int32(1), np.float32(0.25), True)
    assert len(traces) == 2  # other families are another program


def test_float64_whatever_the_process_setting():
    bandit = paper_instances()["beta_small_gap"]
    with jax.enable_x64(False):
        off = bandit.rewards(seed=4, run=1, arm=0, pulls=100, dtype="float64")
        assert bandit.rewards(seed=4, run=1, arm=0, pulls=2).dtype == np.float32
        assert bandit.law().low.dtype == np.float32
    with jax.enable_x64(True):
        on = bandit.rewards(seed=4, run=1, arm=0, pulls=100, dtype="float64")
        assert bandit.rewards(seed=4, run=1, arm=0, pulls=2).dtype == np.float64
    assert off.dtype == np.float64
    np.testing.assert_array_equal(off, on)
    single = bandit.rewards(seed=4, run=1, arm=0, pulls=100, dtype=np.float32)
    np.testing.assert_allclose(single, on, rtol=1e-5)  # the same uniform bits


def test_tables_are_made_once():
    tabulated._beta_table.cache_clear()
    for scale in (1, 50):
        Bandit([beta(2.25, 3.5, scale), beta(2.25, 3.5, 2 * scale)]).law(np.float32)
    assert tabulated._beta_table.cache_info().misses == 1


def test_table_grid_covers_every_p():
    cells, places = jax.vmap(tables._locate)(jnp.asarray([2.0**-64, 2.0**-1 - 2.0**-24, 0.5], jnp.float32))
    assert cells.tolist() == [0, tables.CELLS - 2, tables.CELLS - 1]
    assert places[0] == -1
    assert -1 <= float(places[1]) < 1


# ---------------------------------------------------------------------------------------------------- Arm and Bandit


def test_means_and_gaps_are_exact():
    bandit = Bandit(
        [beta(3, 2, 50), dirac(30), gaussian(30, 1), discrete([30, 30, 30], [0.1, 0.2, 0.7]), uniform(0, 2)]
    )
    assert bandit.means.dtype == bandit.gaps.dtype == np.float64
    assert bandit.gaps.tolist() == [0, 0, 0, 0, 29]
    assert bandit.best_mean == 30
    assert empirical([0.1] * 3).mean == 0.1
    tiny = Bandit([gaussian(2e-9, 1e-9), gaussian(1e-9, 1e-9)])
    assert tiny.gaps.tolist() == [0, 1e-9]
    assert two_point([0, 2 / 0.01], [1 - 0.01, 0.01]).mean == 2


def test_arms_are_equal_when_their_law_is():
    assert gaussian(0, 1) == gaussian(-0.0, 1.0)
    assert gaussian(0, 1) != gaussian(0, 2)
    assert gaussian(0, 1) != laplace(0, 1)
    assert hash(gaussian(0, 1)) == hash(gaussian(0.0, 1))
    assert (
        bernoulli(0.25)
        == two_point([1, 0], [0.25, 0.75])
        == discrete([0, 1, 7], [0.75, 0.25, 0])
        == empirical([0, 0, 0, 1])
    )
    assert dirac(2) == empirical([2, 2])
    assert Bandit([gaussian(0, 1)]) == Bandit([gaussian(0, 1)])
    assert Bandit([gaussian(0, 1)]) != Bandit([gaussian(0, 1)], labels=["other"])


def test_arms_and_bandits_are_immutable():
    arm = gaussian(0, 1)
    with pytest.raises(AttributeError):
        arm.mean = 3
    with pytest.raises(TypeError):
        arm.parameters["mean"] = 3
    bandit = Bandit([arm])
    with pytest.raises(AttributeError, match="immutable"):
        bandit.arms = ()
    with pytest.raises(ValueError, match="read-only"):
        bandit.means[0] = 1
    samples = np.array([1.0, 2])
    arm = empirical(samples)
    samples[0] = 99
    assert arm.parameters["samples"].tolist() == [1, 2]


def test_representations():
    assert repr(gaussian(0.5, 1)) == "gaussian(mean=0.5, sigma=1.0)"
    assert repr(two_point([1, 0], [0.25, 0.75])) == "two_point(values=[0.0, 1.0], probs=[0.75, 0.25])"
    assert repr(empirical(np.arange(100))) == "empirical(samples=<100 values from 0 to 99, sha256 df8192236b25>)"
    assert repr(Bandit([dirac(1)])) == "Bandit([dirac(value=1.0)])"
    assert repr(Bandit([dirac(1)], ["a"])) == "Bandit([dirac(value=1.0)], labels=['a'])"
    for arm in (*(arm for arm, _ in LAWS.values()), two_point([0, 1], [0.5, 0.5])):
        assert eval(repr(arm)) == arm


def test_paper_instances():
    instances = paper_instances()
    assert list(instances) == [
        "gaussian",
        "exponential",
        "beta_easy",
        "beta_small_gap",
        "beta_easy_unit",
        "beta_small_gap_unit",
    ]
    means = [[10, 8, 6], [10, 7], [30, 20], [25, 22.5], [0.6, 0.4], [0.5, 0.45]]
    assert [bandit.means.tolist() for bandit in instances.values()] == means


BAD = [
    (gaussian, (np.nan, 1), "mean must be a finite number.*nan"),
    (gaussian, (0, 0), "sigma must be a finite number > 0.*0"),
    (gaussian, (0, -1), "sigma must be"),
    (gaussian, ("a", 1), "mean must be"),
    (gaussian, ([0, 1], 1), "mean must be"),
    (clipped_gaussian, (0.5, 0), "sigma must be"),
    (clipped_gaussian, (0.5, 1, 1, 1), "high must be a finite number > low = 1"),
    (laplace, (0, 0), "scale must be"),
    (uniform, (1, 1), "high must be a finite number > low = 1"),
    (uniform, (0, np.inf), "high must be"),
    (uniform, (-1e308, 1e308), "high must be such that high - low is finite"),
    (exponential, (0,), "mean must be"),
    (exponential, (True,), "mean must be"),
    (pareto, (1, 1), "shape must be a finite number > 1"),
    (pareto, (2, -1), "scale must be"),
    (pareto, (1.0001, 1e308), "mean of pareto.* must be finite"),
    (student_t, (1,), "df must be"),
    (student_t, (1e9,), "df must be"),
    (student_t, (3, 0, 0), "scale must be"),
    (beta, (0, 1), "a must be"),
    (beta, (1, 1e9), "b must be"),
    (beta, (1, 1, 0), "scale must be"),
    (gamma, (-1, 1), "shape must be"),
    (gamma, (1, np.inf), "scale must be"),
    (bernoulli, (1.5,), r"p must be a finite number in \[0, 1\].*1.5"),
    (bernoulli, (-1e-9,), "p must be"),
    (bernoulli, (None,), "p must be"),
    (two_point, ([0, 1, 2], [0.5, 0.5]), "values must be two finite numbers"),
    (two_point, ([0, 1], [0.5, 0.4]), "probs must be at least 0 and sum to 1"),
    (discrete, ([0, np.inf], [0.5, 0.5]), "values must be"),
    (discrete, ([0, 1], [1.5, -0.5]), "probs must be at least 0"),
    (discrete, ([0, 1], [1.0]), "probs must be as long as values"),
    (discrete, ([], []), "values must be"),
    (discrete, ([0, 1], [0.5, np.nan]), "probs must be"),
    (dirac, (np.inf,), "value must be"),
    (empirical, ([],), "samples must be"),
    (empirical, ([1, np.nan],), "samples must be"),
    (empirical, ([[1, 2]],), "samples must be"),
    (empirical, (["x"],), "samples must be"),
    (Bandit, ([],), "arms must be a list of at least one arm"),
    (Bandit, (gaussian(0, 1),), "arms must be a list"),
    (Bandit, ([gaussian(0, 1), 0.5],), r"arms\[1\] must be an arm"),
    (Bandit, ([gaussian(1e308, 1), gaussian(-1e308, 1)],), "arms must be such that the differences"),
    (Bandit, ([dirac(0)], ["a", "b"]), "labels must be 1 different"),
    (Bandit, ([dirac(0), dirac(1)], ["a", "a"]), "labels must be 2 different"),
    (Bandit, ([dirac(0), dirac(1)], "ab"), "labels must be"),
    (Bandit([dirac(0)]).law, ("int32",), "dtype must be None, float32 or float64"),
    (Bandit([dirac(0)]).law, ("nonsense",), "dtype must be"),
    (Bandit([gaussian(1e300, 1)]).law, ("float32",), "dtype must be one that can represent.*gaussian"),
    (Bandit([gaussian(0, 1e-40)]).law, ("float32",), "dtype must be one that can resolve"),
    (Bandit([uniform(1, 1 + 1e-9)]).law, ("float32",), "dtype must be one that can resolve"),
    (gaussian(0, 1).quantile, (0.6,), "p must be masses of the nearer tail"),
    (gaussian(0, 1).quantile, ([0.1, 0],), "p must be"),
    (gaussian(0, 1).quantile, ([np.nan],), "p must be"),
    (gaussian(0, 1).quantile, ("x",), "p must be"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), BAD)
def test_bad_input_is_named(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 2**64}, "seed must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"run": -1}, "run must be"),
        ({"arm": 2}, r"arm must be a whole number in \[0, 1\]"),
        ({"pulls": -1}, "pulls must be"),
        ({"pulls": 2.5}, "pulls must be"),
        ({"pulls": None}, "pulls must be"),
        ({"pulls": [0, 2**32]}, "pulls must be"),
        ({"dtype": np.float16}, "dtype must be"),
    ],
)
def test_bad_rewards_arguments_are_named(change, message):
    bandit = Bandit([gaussian(0, 1), gaussian(1, 1)])
    with pytest.raises(ValueError, match=message):
        bandit.rewards(**({"seed": 0, "run": 0, "arm": 0, "pulls": 3} | change))
