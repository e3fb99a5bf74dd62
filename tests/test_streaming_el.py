"""The streaming index against the exact one: the error bound holds, and whole runs pull the same arms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eljax
from eljax import engine, streaming_el
from eljax.empirical_likelihood import el_index, el_index_with_error
from eljax.policies import el_f, el_ucb

G2 = eljax.log_squared()
LANES, LENGTH = 64, 600
SIZES = np.array([1, 2, 3, 5, 8, 9, 10, 13, 17, 24, 40, 64, 100, 150, 300, 600])
ACTG = eljax.datasets.actg175().arms[1].parameters["samples"]
STREAMS = {
    "gaussian": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "left-skewed": lambda rng, size: -rng.exponential(size=size),
    "U-shaped": lambda rng, size: 50 * rng.beta(0.3, 0.6, size=size),
    "student t3": lambda rng, size: rng.standard_t(3, size=size),
    "cauchy": lambda rng, size: rng.standard_cauchy(size=size),
    "bernoulli": lambda rng, size: (rng.random(size) < 0.9) * 1.0,
    "rare": lambda rng, size: (rng.random(size) < 0.01) * 100.0,
    "clinical": lambda rng, size: rng.choice(ACTG, size=size),
    "offset": lambda rng, size: 1e4 + rng.normal(size=size),
    "outliers": lambda rng, size: rng.normal(size=size) * np.where(rng.random(size) < 0.02, 1e6, 1.0),
    "constant, then not": lambda rng, size: np.where(np.arange(size[1]) < 100, 3.0, rng.normal(size=size)),
    "one far below": lambda rng, size: np.where(np.arange(size[1]) == 50, -1e15, rng.normal(size=size)),
    "one far above": lambda rng, size: np.where(np.arange(size[1]) == 50, 1e12, rng.normal(size=size)),
    "growing": lambda rng, size: rng.normal(size=size) * 1.05 ** np.arange(size[1]),
}


@jax.jit
@jax.vmap
def indices(rewards, radius):
    """Index, error bound and mean after each reward of a stream."""

    arm = jnp.int32(0)

    def step(streams, x):
        index, error, streams = streaming_el.arm_index(streaming_el.push(streams, arm, x), arm, radius)
        return streams, (index, error, streaming_el.mean(streams)[0])

    return jax.lax.scan(step, streaming_el.init(1, rewards.dtype), rewards)[1]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", STREAMS)
def test_the_error_bound_holds(name, dtype):
    """Radii .5 to 40 side by side, 64 streams each; bounds add 2 eps · max|x| for the rounding of the result."""
    with jax.enable_x64(True):
        rewards = STREAMS[name](np.random.default_rng(8), (LANES, LENGTH)).astype(dtype)
        radius = np.resize([0.5, 3.0, 10.0, 40.0], LANES).astype(dtype)
        index, error, mean = (np.asarray(x, np.float64) for x in indices(rewards, radius))
        seen = np.arange(LENGTH) < SIZES[:, None, None]
        truth = np.asarray(el_index(rewards.astype(np.float64), radius.astype(np.float64), np.array(seen)))
    column = SIZES - 1
    largest = np.maximum.accumulate(np.abs(rewards.astype(np.float64)), axis=1)[:, column].T
    assert not np.isnan(index).any()
    assert not np.isnan(error).any()
    bound = error[:, column].T + 2 * np.finfo(dtype).eps * largest
    assert (np.abs(index[:, column].T - truth) <= bound).all()
    exact_mean = np.cumsum(rewards.astype(np.longdouble), axis=1) / np.arange(1, LENGTH + 1)
    np.testing.assert_allclose(
        mean, exact_mean.astype(np.float64), rtol=0, atol=2 * np.finfo(dtype).eps * largest.max()
    )


def adversarial(rng, size):
    """One stream of a random kind: tails, few values, clusters, drifts, outliers; any sign, unit and offset."""
    kinds = [
        lambda: rng.normal(size=size),
        lambda: rng.standard_t(rng.uniform(0.6, 4), size),
        lambda: np.exp(rng.uniform(0.5, 4) * rng.normal(size=size)),
        lambda: rng.beta(*rng.uniform(0.05, 2, 2), size),
        lambda: rng.choice(rng.normal(size=rng.integers(2, 14)), size),
        lambda: np.where(rng.random(size) < 0.97, rng.normal(), rng.normal(size=size)),
        lambda: rng.uniform() * np.cumsum(rng.normal(size=size)) + rng.normal(size=size),
        lambda: rng.normal(size=size) * np.where(rng.random(size) < 0.03, 10 ** rng.uniform(0, 12), 1),
        lambda: np.concatenate([np.full(size // 3, rng.normal()), rng.standard_cauchy(size - size // 3)]),
    ]
    x = kinds[rng.integers(len(kinds))]() * rng.choice([-1, 1]) * 10 ** rng.uniform(-3, 3)
    return x + (rng.random() < 0.3) * 10 ** rng.uniform(0, 4) * x.std()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_error_bound_holds_on_adversarial_streams(dtype):
    """256 streams, radii 1e-3 to 100, at eight sizes; the exact index is right to its own bound."""
    rng, sizes = np.random.default_rng(1), (5, 12, 20, 35, 60, 120, 250, 400)
    with jax.enable_x64(True):
        rewards = np.stack([adversarial(rng, 400) for _ in range(256)]).astype(dtype)
        radius = (10 ** rng.uniform(-3, 2, 256)).astype(dtype)
        index, error, mean = (np.asarray(x, np.float64) for x in indices(rewards, radius))
        rewards, radius = rewards.astype(np.float64), radius.astype(np.float64)
        for n in sizes:
            seen = np.broadcast_to(np.arange(400) < n, rewards.shape)
            truth, relative = (np.asarray(x) for x in el_index_with_error(rewards, radius, seen))
            rounding = 2 * np.finfo(dtype).eps * np.abs(rewards[:, :n]).max(1) + relative * np.abs(
                truth - mean[:, n - 1]
            )
            assert (np.abs(index[:, n - 1] - truth) <= error[:, n - 1] + rounding).all()


def test_the_exact_solve_does_not_stop_on_a_plateau():
    """19 values within 800, one 1e7 below, level 3.5: next to the maximum F hardly moves. Against the min form."""
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(0, 400, 19), -1e7)
    with jax.enable_x64(True):
        mine = float(el_index(x, 69.3))
    pole = x.max() + np.exp(np.linspace(-20, 20, 400_001)).astype(np.longdouble)
    best = min(
        (pole - np.exp(np.log(pole[:, None] - x).mean(1) - np.longdouble(69.3 / 20))).min()
        for pole in np.array_split(pole, 80)
    )
    assert abs(mine - best) <= 1e-9 * (best - x.mean())


@pytest.mark.parametrize("name", ["gaussian", "exponential", "left-skewed", "student t3", "clinical", "cauchy"])
def test_radius_3_needs_no_history(name):
    """At the usual radius the summary alone gives the index to 1e-4 of (index − mean) at any sample size, 1e-9 late."""
    with jax.enable_x64(True):
        rewards = STREAMS[name](np.random.default_rng(9), (LANES, LENGTH))
        index, error, mean = indices(rewards, np.full(LANES, 3.0))
    relative = np.asarray(error / (index - mean))[:, 1:]
    assert (relative <= 1e-4).mean() > 0.999
    assert np.median(relative[:, 300:]) < 1e-9


def test_clustered_values_stay_within_the_bound_in_long_runs():
    """float32, 20,000 rewards on 11 values, 97% of them on one: the power sums must not drift."""
    rng, size = np.random.default_rng(3), (LANES, 20_000)
    values = np.where(rng.random(size) < 0.97, 90.1, rng.choice(np.linspace(1.3, 99.7, 10), size)).astype(np.float32)
    radius = np.resize([0.5, 3.0, 10.0, 40.0], LANES).astype(np.float32)
    index, error, _ = (np.asarray(x, np.float64) for x in indices(values, radius))
    with jax.enable_x64(True):
        for n in (1_000, 5_000, 20_000):
            truth = np.asarray(el_index(values[:, :n].astype(np.float64), radius.astype(np.float64)))
            bound = error[:, n - 1] + 2 * np.finfo(np.float32).eps * 100
            assert (np.abs(index[:, n - 1] - truth) <= bound).all()
            assert (bound <= 1e-2).all()


def test_huge_float32_rewards_do_not_break_an_arm():
    rewards = np.random.default_rng(1).normal(size=(LANES, LENGTH)).astype(np.float32) * np.float32(1e25)
    index, _, _ = indices(rewards, np.full(LANES, 3, np.float32))
    plain, _, _ = indices(rewards / np.float32(1e25), np.full(LANES, 3, np.float32))
    assert np.isfinite(index).all()
    np.testing.assert_allclose(index[:, 2:] / np.float32(1e25), plain[:, 2:], rtol=1e-4, atol=1e-4)


def test_edge_cases():
    push, arm_index = jax.jit(streaming_el.push), jax.jit(streaming_el.arm_index)

    def after(rewards, radius):
        arm, dtype = jnp.int32(1), jnp.zeros(()).dtype
        streams = streaming_el.init(2, dtype)
        for x in rewards:
            streams = push(streams, arm, jnp.asarray(x, dtype))
        return arm_index(streams, arm, jnp.asarray(radius, dtype))[:2]

    assert after([], 3.0) == (np.inf, 0)
    assert after([7.0], 3.0) == (7, 0)
    assert after([7.0, 7.0, 7.0], 40.0) == (7, 0)
    assert after([0.0, 1.0, 5.0], 0.0) == (2, 0)
    assert after(np.float32([24264.922, 24264.922, 24264.92]), 0.01)[0] <= np.float32(
        24264.922
    )  # a mean next to the top
    index, error = after([0.0, 1.0], 3.0)  # (1 + √(1 − e⁻³)) / 2
    assert abs(index - 0.98739432999167524) <= error + 1e-7


def sampled(make, size=1_000):
    """Two empirical arms of one size drawn from a law: every law then runs through the same compiled program."""
    rng = np.random.default_rng(6)
    return eljax.Bandit([eljax.empirical(make(rng, size)), eljax.empirical(0.9 * make(rng, size))])


LAWS = {
    "gaussian": lambda rng, n: rng.normal(0.5, 1.0, n),
    "exponential": lambda rng, n: rng.exponential(1.5, n),
    "beta": lambda rng, n: 50 * rng.beta(0.3, 0.6, n),
    "bernoulli": lambda rng, n: (rng.random(n) < 0.5) * 1.0,
    "student_t": lambda rng, n: 0.5 + rng.standard_t(3, n),
    "two_point": lambda rng, n: (rng.random(n) < 0.01) * 100.0,
    "actg175": lambda rng, n: rng.choice(ACTG, n),
}


@pytest.mark.parametrize("law", LAWS)
def test_runs_pull_the_same_arms_as_with_the_exact_index(law):
    """float64: every run, after re-running those with an open decision."""
    bandit, sizes = sampled(LAWS[law]), {"horizon": 120, "runs": 128, "seed": 4, "dtype": "float64"}
    for radius in (0.5, 3.0, 10.0):
        fast = eljax.simulate(bandit, el_f(G2, radius), **sizes)
        exact = eljax.simulate(bandit, el_f(G2, radius, index="exact"), **sizes)
        np.testing.assert_array_equal(fast.pulls, exact.pulls)
        np.testing.assert_array_equal(fast.regret, exact.regret)
        assert fast.uncertified_decisions == exact.uncertified_decisions == 0
        assert exact.max_index_error <= 1e-6
        assert fast.max_index_error <= 1e-6


@pytest.mark.parametrize(
    "make", [lambda index: el_f(G2, eljax.loglog_radius(3.0), index=index), lambda index: el_ucb(G2, index=index)]
)
def test_moving_radii_pull_the_same_arms_too(make):
    bandit, sizes = sampled(LAWS["beta"]), {"horizon": 120, "runs": 128, "seed": 4, "dtype": "float64"}
    fast, exact = (eljax.simulate(bandit, make(index), **sizes) for index in ("streaming", "exact"))
    np.testing.assert_array_equal(fast.pulls, exact.pulls)
    assert fast.uncertified_decisions == 0


@pytest.mark.parametrize("law", ["gaussian", "beta"])
def test_float32_runs_agree_too(law):
    """At least 99.5% of runs; the others meet a difference of indices at rounding level."""
    bandit, sizes = sampled(LAWS[law]), {"horizon": 300, "runs": 256, "seed": 4, "dtype": "float32"}
    fast, exact = (eljax.simulate(bandit, el_f(G2, 3.0, index=index), **sizes) for index in ("streaming", "exact"))
    assert (fast.pulls == exact.pulls).all(axis=1).mean() >= 0.995
    assert fast.uncertified_decisions == 0


def test_an_open_decision_is_settled_from_the_history():
    """With an error bound of infinity everywhere, every unforced decision is solved exactly, by the batching rule."""
    bandit = sampled(LAWS["gaussian"])
    policy = el_f(G2, 3.0)
    doubtful = policy.fallback._replace(update=jax.tree_util.Partial(_doubtful_update, policy.update))
    sizes = {"horizon": 120, "runs": 16, "seed": 1, "dtype": "float64"}  # the plain run was compiled above
    settled = eljax.simulate(bandit, doubtful, **sizes)
    np.testing.assert_array_equal(settled.pulls, eljax.simulate(bandit, policy, **sizes).pulls)
    assert settled.uncertified_decisions == 0
    without = doubtful._replace(init=policy.init)
    assert eljax.simulate(bandit, without, **sizes).uncertified_decisions > 100
    again = eljax.simulate(bandit, without._replace(fallback=doubtful), **sizes)
    assert again.uncertified_decisions == 0
    assert again.provenance["exact_reruns"] == 16


def _doubtful_update(update, state, arm, reward):
    state = update(state, arm, reward)
    return state._replace(error=jnp.full_like(state.error, jnp.inf))


def test_the_state_does_not_grow_with_the_horizon():
    policy = el_f(G2, 3.0)
    assert engine.tile_lanes(policy, 2, 100, np.dtype("float32")) == engine.tile_lanes(
        policy, 2, 1_000_000, np.dtype("float32")
    )
