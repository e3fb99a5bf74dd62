"""Policies that keep past rewards: against loops in plain NumPy, exact probabilities and brute-force optimisation."""

import functools
import importlib
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from policy_table import replay
from scipy import optimize, stats

import eljax
from eljax import numerics, random
from eljax.policies import _history, _means

# The package's attributes of these names are the constructors.
KL = importlib.import_module("eljax.policies.empirical_kl_ucb")
DTYPE = jnp.result_type(float)
EPS = float(jnp.finfo(DTYPE).eps)


# Policies in law: plain loops, one run at a time, with NumPy's own Dirichlet sampler.


def play_dirichlet(draw, num_arms, horizon, bonus_point, rng):
    """RDS and BDS. `bonus_point`(leader's mean, challenger's rewards) is B."""
    rewards, leader, queue, pulls = [[] for _ in range(num_arms)], None, [], []
    for t in range(horizon):
        if t < num_arms:
            queue = [t]
        if not queue:
            most = max(map(len, rewards))
            tied = [k for k in range(num_arms) if len(rewards[k]) == most]
            tied = [k for k in tied if sum(rewards[k]) == max(sum(rewards[j]) for j in tied)]
            leader = leader if leader in tied else rng.choice(tied)
            best = sum(rewards[leader]) / len(rewards[leader])
            for k in range(num_arms):
                x = np.array(rewards[k])
                w = rng.dirichlet(np.ones(len(x) + 1))
                if k != leader and (sum(x) / len(x) >= best or w[:-1] @ x + w[-1] * bonus_point(best, x) >= best):
                    queue.append(k)
            queue = list(rng.permutation(queue)) or [leader]
        pulls.append(queue.pop(0))
        rewards[pulls[-1]].append(draw(pulls[-1], rng))
    return np.bincount(pulls, minlength=num_arms)


def play_npts(draw, num_arms, horizon, bound, rng):
    histories, pulls = [[bound] for _ in range(num_arms)], []
    for t in range(horizon):
        index = [rng.dirichlet(np.ones(len(h))) @ h for h in histories]
        pulls.append(t if t < num_arms else int(np.argmax(index)))
        histories[pulls[-1]].append(draw(pulls[-1], rng))
    return np.bincount(pulls, minlength=num_arms)


def robust(rho):
    return lambda best, x: best + rho(len(x)) * np.maximum(best - x, 0).mean()


GAUSSIAN = [eljax.gaussian(m, 1.0) for m in (0.6, 0.0, 0.4)], lambda k, rng: rng.normal((0.6, 0.0, 0.4)[k], 1.0)
BERNOULLI = [eljax.bernoulli(p) for p in (0.7, 0.5, 0.5)], lambda k, rng: float(rng.random() < (0.7, 0.5, 0.5)[k])
BETA = [eljax.beta(a, 2.0) for a in (2.0, 3.0, 1.0)], lambda k, rng: rng.beta((2.0, 3.0, 1.0)[k], 2.0)
IN_LAW = {
    "rds sqrt_log": (eljax.policies.rds("sqrt_log"), GAUSSIAN, robust(lambda n: math.sqrt(math.log(1 + n)))),
    "rds log": (eljax.policies.rds("log"), BERNOULLI, robust(lambda n: math.log(1 + n))),
    "bds": (eljax.policies.bds(1.0), BERNOULLI, lambda best, x: 1.0),
    "npts": (eljax.policies.npts(1.0), BETA, None),
}


@pytest.mark.parametrize("name", IN_LAW)
def test_pulls_have_the_law_of_a_plain_loop(name):
    """Means at 4.5 standard errors and two-sample Kolmogorov tests, three arms each: false alarms 1e-4 in all four."""
    policy, (arms, draw), bonus_point = IN_LAW[name]
    horizon, runs = 60, 700
    loop = play_npts if bonus_point is None else play_dirichlet
    rng = np.random.default_rng(11)
    ours = eljax.simulate(eljax.Bandit(arms), policy, horizon=horizon, runs=2048, seed=5).pulls
    theirs = np.array([loop(draw, 3, horizon, bonus_point or 1.0, rng) for _ in range(runs)])
    error = np.sqrt(ours.var(0) / len(ours) + theirs.var(0) / runs)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) <= 4.5 * error).all()
    assert min(stats.ks_2samp(ours[:, k], theirs[:, k]).pvalue for k in range(3)) > 1e-6


# Single decisions: exact probabilities.


def state_after(policy, rewards, horizon=40):
    """The state after the given rewards of each arm, arm by arm."""
    state = policy.init(len(rewards), horizon, DTYPE)
    for arm, values in enumerate(rewards):
        for value in values:
            state = policy.update(state, jnp.asarray(arm, jnp.int32), jnp.asarray(value, DTYPE))
    return state


def choices(policy, state, runs, t=20):
    keys = jax.random.split(jax.random.key(3), runs)
    one = lambda key: policy.select(key, jnp.asarray(t, jnp.int32), state)[0].arm  # noqa: E731
    return np.asarray(jax.jit(jax.vmap(one))(keys))


@pytest.mark.parametrize(
    ("policy", "bonus"),
    [
        (eljax.policies.rds("sqrt_log"), math.sqrt(math.log(4)) * 0.3),  # ρ_3 · mean of .2, .3, .4
        (eljax.policies.rds("log"), math.log(4) * 0.3),
        (eljax.policies.bds(1.5), 0.5),
    ],
    ids=str,
)
def test_the_challenger_wins_with_its_exact_probability(policy, bonus):
    """Leader's mean 1, challenger's rewards d_i below it: P[Σ d_i e_i ≤ b e] = Π b/(b + d_i). 4.5 errors: 7e-6 each."""
    state = state_after(policy, [[0.8, 0.7, 0.6], [1.0, 0.5, 1.5, 1.0]])
    probability, runs = np.prod([bonus / (bonus + d) for d in (0.2, 0.3, 0.4)]), 20_000
    won = (choices(policy, state, runs) == 0).mean()
    assert abs(won - probability) <= 4.5 * math.sqrt(probability * (1 - probability) / runs)


def test_npts_weighs_rewards_and_bound():
    """One reward each, 0 and 1/2: indices uniform on [0, 1] and [1/2, 1], so that arm 0 wins with probability 1/4."""
    policy = eljax.policies.npts(1.0)
    won = (choices(policy, state_after(policy, [[0.0], [0.5]]), 20_000) == 0).mean()
    assert abs(won - 0.25) <= 4.5 * math.sqrt(0.25 * 0.75 / 20_000)


def test_rounds_pull_their_winners_once_in_random_order():
    """Equal constant arms: every round all but its leader win. After 9 pulls all three have 3, and the leader stays."""
    policy, rewards, runs = eljax.policies.rds("log"), jnp.ones((3, 12), DTYPE), 1_200
    arms = np.asarray(jax.jit(jax.vmap(replay, (None, None, 0)))(policy, rewards, jnp.arange(runs))[0])
    assert (arms[:, :3] == [0, 1, 2]).all()
    assert (arms[:, 3] != arms[:, 4]).all()
    pairs = np.unique(arms[:, 3] * 3 + arms[:, 4], return_counts=True)[1]
    assert stats.chisquare(pairs).pvalue > 1e-6  # six ordered pairs: leader and order at random
    assert len(pairs) == 6
    counts = np.stack([np.bincount(row[:9], minlength=3) for row in arms])
    np.testing.assert_array_equal(counts, 3)
    assert (arms[:, 9] + arms[:, 10] == arms[:, 7] + arms[:, 8]).all()  # the previous leader leads a tie


def test_a_single_arm_is_pulled_all_the_time():
    for policy in (eljax.policies.rds("log"), eljax.policies.npts(1.0), eljax.policies.empirical_kl_ucb(1.0)):
        assert (replay(policy, jnp.full((1, 5), 0.5, DTYPE))[0] == 0).all()


def test_a_run_is_the_same_alone_and_among_others():
    """Which sums are taken apart hangs on all lanes of a tile; the order of their terms does not."""
    bandit = eljax.Bandit([eljax.gaussian(0.1, 1.0), eljax.gaussian(0.0, 1.0), eljax.gaussian(0.0, 1.0)])
    policy = eljax.policies.rds("log")
    many = eljax.simulate(bandit, policy, horizon=300, runs=64).pulls
    np.testing.assert_array_equal(eljax.simulate(bandit, policy, horizon=300, runs=2).pulls, many[:2])


# Sums over a history.


def moments(pair, first, second, parameters):
    centre, numbered = parameters
    of = lambda x, i: (x - centre, numbered * i * x)  # noqa: E731
    return of(first, pair * 2), of(second, pair * 2 + 1)


def centred(history, count, centre, skip):
    return _history.sums(moments, history, count, (centre, jnp.ones_like(centre)), skip=skip)


SUMS, BATCHED_SUMS, NESTED_SUMS = jax.jit(centred), jax.jit(jax.vmap(centred)), jax.jit(jax.vmap(jax.vmap(centred)))


@pytest.mark.parametrize("skip", [None, 0, 1, 2])
def test_sums_are_those_of_a_loop_whatever_the_batch(skip):
    rng = np.random.default_rng(2)
    lanes, num_arms, most = 12, 3, 1500
    edges = [0, 1, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257, 300, 511, 1025, 1500]
    count = rng.choice(edges, (lanes, num_arms)).astype(np.int32)
    count[:6] = np.minimum(count[:6], 65)
    history = np.zeros((lanes, *_history.init(num_arms, most, DTYPE).shape))
    for lane, arm in np.ndindex(lanes, num_arms):
        history[lane, arm, : count[lane, arm]] = rng.normal(size=count[lane, arm])
    history = np.asarray(jnp.asarray(history, DTYPE), np.float64)  # as the policy sees them
    centre = rng.normal(size=(lanes, num_arms))
    centre = np.asarray(jnp.asarray(centre, DTYPE), np.float64)

    leader = None if skip is None else jnp.full(lanes, skip, jnp.int32)
    arguments = (jnp.asarray(history, DTYPE), jnp.asarray(count), jnp.asarray(centre, DTYPE), leader)
    batch = BATCHED_SUMS(*arguments)
    nested = NESTED_SUMS(*jax.tree.map(lambda x: x.reshape(3, 4, *x.shape[1:]), arguments))
    alone = [SUMS(*jax.tree.map(lambda x, lane=lane: x[lane], arguments)) for lane in range(lanes)]
    for got, again, single in zip(batch, nested, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(got, again.reshape(got.shape))
        np.testing.assert_allclose(got, np.stack(single), rtol=8 * EPS, atol=64 * EPS * float(jnp.abs(got).max()))
    # `pair` numbers the pairs of one arm without gaps or repetitions within a block, so pair sums are checked by value.
    for lane, arm in np.ndindex(lanes, num_arms):
        n, x = count[lane, arm], history[lane, arm]
        expected = 0 if arm == skip else (x[:n] - centre[lane, arm]).sum()
        scale = np.abs(x[:n] - centre[lane, arm]).sum() + 1
        assert abs(float(batch[0][lane, arm]) - expected) <= 16 * EPS * scale


def test_every_reward_meets_its_own_random_number():
    """Sums of e and of e² over constant rewards: exponential numbers, distinct in every place (4.5 errors: 3e-5)."""
    n, lanes = 1000, 40
    history = jnp.ones((lanes, 2, 1024), DTYPE)
    keys = jax.random.key_data(jax.random.split(jax.random.key(8), lanes))

    def drawn(pair, first, second, parameters):
        e = _history.weights(parameters, pair, first.dtype)
        return tuple((x, x * x) for x in e)

    def one(history, data):
        count = jnp.full(2, n, jnp.int32)
        return _history.sums(drawn, history, count, _history.arm_keys(data, jnp.arange(2, dtype=jnp.uint32)))

    total, square = (np.asarray(x, np.float64).ravel() for x in jax.vmap(one)(history, keys))
    assert len(np.unique(total)) == 2 * lanes
    assert abs(total.mean() / n - 1) <= 4.5 / math.sqrt(n * 2 * lanes)
    assert abs(square.mean() / n - 2) <= 4.5 * math.sqrt(20 / (n * 2 * lanes))
    # A repeated number would widen the sums: variance n, known to √(2/79).
    assert abs(total.var(ddof=1) / n - 1) <= 4.5 * math.sqrt(2 / (2 * lanes - 1))
    pairs = jnp.arange(20_000, dtype=jnp.int32)
    words = random.KeyData(jnp.asarray(1, jnp.uint32), jnp.asarray(2, jnp.uint32))
    sample = np.concatenate(_history.weights(words, pairs, DTYPE))
    assert stats.kstest(sample, "expon").pvalue > 1e-5
    extremes = _history.exponential(jnp.asarray([0, 2**32 - 1], jnp.uint32), DTYPE)
    assert float(extremes[0]) == pytest.approx(32 * math.log(2))
    assert 0 <= float(extremes[1]) < 1e-9


def test_few_long_sums_are_taken_apart():
    """With what waiting for others and being taken apart cost, the work is within a quarter of the least possible."""
    rng = np.random.default_rng(3)
    cases = [np.full(64, 5000), np.r_[np.full(63, 40), 5000], rng.geometric(0.01, 200), np.zeros(64, int)]
    for count in (*cases, rng.integers(0, 300, 64), np.r_[np.full(32, 30), np.full(32, 3000)]):
        end = int(_history._apart_from(jnp.asarray(count, jnp.int32)[:, None], 5120))
        work = lambda end, count=count: np.where(end >= count, end, count + _history.APART).sum()  # noqa: E731
        assert work(end) <= 1.25 * min(work(e) for e in range(0, 5120 + 64, 64))
    assert int(_history._apart_from(jnp.asarray(cases[1], jnp.int32)[:, None], 5120)) == 64


# Empirical KL-UCB.


@functools.cache
def solver():
    """Of histories [R, K, H]: the indices, found from two starts."""

    def solve(history, count, bound, radius):
        seen = jnp.arange(history.shape[1])[None] < count[:, None]
        first = history[:, 0]
        total = jnp.sum(jnp.where(seen, history - first[:, None], 0), 1)
        largest = jnp.max(jnp.where(seen, jnp.abs(history), 0), 1)
        means = _means.MeanState(count, largest, first, numerics.RunningSum(total, jnp.zeros_like(total)))
        state = KL.EmpiricalKLState(means, history, jnp.full_like(total, KL._lowest(DTYPE)))
        index, pole = KL.indices(state, bound, radius)
        return index, KL.indices(state._replace(log_pole=pole + 1), bound, radius)[0]

    return jax.jit(jax.vmap(solve))


def brute_force(x, bound, c):
    """min over ν ≥ B of ν − e^−c · geometric mean of (ν − x), on a grid of log(ν − B) and then by Brent's method."""
    gap = bound - x
    if (gap <= 0).all():
        return bound
    unit = gap.mean()
    value = lambda y: bound - unit * (math.exp(-c + np.log(gap / unit + math.exp(y)).mean()) - math.exp(y))  # noqa: E731
    grid = np.linspace(-80, 20, 801)
    values = [value(y) for y in grid]
    i = int(np.argmin(values))
    found = optimize.minimize_scalar(value, bounds=(grid[max(i - 1, 0)], grid[min(i + 1, 800)]), method="bounded")
    return min(found.fun, values[i])


SAMPLES = {
    "beta": lambda rng, n: rng.beta(2, 3, n),
    "arcsine": lambda rng, n: rng.beta(0.1, 0.1, n),
    "bernoulli": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "rarely below the bound": lambda rng, n: (rng.random(n) < 0.99).astype(float),
    "constant": lambda rng, n: np.full(n, 0.4),
    "far outliers": lambda rng, n: rng.beta(2, 3, n) - 1e3 * (rng.random(n) < 0.01),
    "at the bound": lambda rng, n: np.ones(n),
}


def test_kl_indices_are_those_of_brute_force():
    """Random sizes, radii and bounds, from two starts each; compared in units of the largest number involved."""
    rng = np.random.default_rng(4)
    cases, length = [], 1024
    for make in SAMPLES.values():
        for extra in (0.0, 1e-3, 0.5, 10.0):
            n = int(np.exp(rng.uniform(0, np.log(1000))))
            cases.append((make(rng, n), 1 + extra, np.exp(rng.uniform(-7, 3))))
    history = np.zeros((len(cases), 1, length))
    for row, (x, _, _) in zip(history, cases, strict=True):
        row[0, : len(x)] = x
    count = jnp.asarray([[len(x)] for x, _, _ in cases], jnp.int32)
    history, bound, radius = (
        jnp.asarray(x, DTYPE) for x in (history, [b for _, b, _ in cases], [c for *_, c in cases])
    )
    index, again = (np.asarray(x, np.float64)[:, 0] for x in solver()(history, count, bound, radius))
    for i, (x, _, _) in enumerate(cases):
        seen, top = np.asarray(history[i, 0, : len(x)], np.float64), float(bound[i])
        expected = brute_force(seen, top, float(radius[i]) / len(x))
        tolerance = max(8 * EPS, 1e-11) * max(np.abs(seen).max(), top)  # 1e-11: Brent's method
        assert abs(index[i] - expected) <= tolerance, (i, len(x))
        assert abs(again[i] - expected) <= tolerance, (i, len(x))
        el = float(eljax.el_index(history[i, 0], radius[i], jnp.arange(length) < len(x)))
        assert el <= index[i] + tolerance


def test_kl_indices_in_closed_form():
    """One reward: B − (B − x) e^−c. Binary rewards up to the bound: the Bernoulli index, kl(p, q) = c."""
    history = jnp.zeros((3, 1, 64), DTYPE).at[0, 0, 0].set(0.25).at[1, 0, :30].set(1.0).at[2, 0, 0].set(1.0)
    count, radius = jnp.asarray([[1], [40], [1]], jnp.int32), jnp.asarray([2.0, 3.0, 2.0], DTYPE)
    index = np.asarray(solver()(history, count, jnp.ones(3, DTYPE), radius)[0])[:, 0]
    kl = lambda q: 0.75 * math.log(0.75 / q) + 0.25 * math.log(0.25 / (1 - q)) - 3 / 40  # noqa: E731
    expected = [1 - 0.75 * math.exp(-2), optimize.brentq(kl, 0.75, 1 - 1e-12, xtol=1e-15), 1.0]
    np.testing.assert_allclose(index, expected, rtol=max(4 * EPS, 1e-14))


def test_kl_index_moves_with_the_unit_of_rewards_and_bound():
    rng = np.random.default_rng(5)
    x = jnp.asarray(rng.beta(2, 3, (1, 1, 64)), DTYPE)
    count, radius = jnp.asarray([[50]], jnp.int32), jnp.asarray([2.0], DTYPE)

    def index(scale, shift):
        return float(solver()(x * scale + shift, count, jnp.full(1, scale + shift, DTYPE), radius)[0][0, 0])

    for scale in (2.0**-60, 2.0**60):
        assert index(scale, 0.0) == pytest.approx(scale * index(1.0, 0.0), rel=4 * EPS)
    assert index(1.0, 8.0) == pytest.approx(8 + index(1.0, 0.0), rel=8 * EPS)


def test_empirical_kl_ucb_pulls_as_brute_force_does():
    rng, horizon = np.random.default_rng(6), 60
    rewards = np.asarray(jnp.asarray(rng.beta([[2.0], [3.0], [1.0]], 2.0, (3, horizon)), DTYPE), np.float64)
    pulls, sample = [], [[], [], []]
    for t in range(1, horizon + 1):
        index = [brute_force(np.array(x), 1.0, math.log(t) / len(x)) if x else math.inf for x in sample]
        pulls.append(int(np.argmax(index)))
        sample[pulls[-1]].append(rewards[pulls[-1], len(sample[pulls[-1]])])
    np.testing.assert_array_equal(replay(eljax.policies.empirical_kl_ucb(1.0), jnp.asarray(rewards, DTYPE))[0], pulls)


def test_rewards_beyond_the_bound_count_as_the_bound():
    policy = eljax.policies.empirical_kl_ucb(1.0)
    t = jnp.asarray(9, jnp.int32)
    beyond, at = (state_after(policy, [[0.2, x], [0.5, 0.5]]) for x in (7.0, 1.0))
    beyond, at = (policy.select(jax.random.key(0), t, state)[0].index for state in (beyond, at))
    np.testing.assert_array_equal(beyond, at)


# Arguments.


@pytest.mark.parametrize("rho", ["sqrt", "", None, 3, ["log"]])
def test_an_unknown_rho_is_named(rho):
    with pytest.raises(ValueError, match=r'rho must be "sqrt_log" or "log", got '):
        eljax.policies.rds(rho)


@pytest.mark.parametrize("make", [eljax.policies.bds, eljax.policies.npts, eljax.policies.empirical_kl_ucb])
@pytest.mark.parametrize("bound", [math.nan, math.inf, -math.inf, "1", None, True, np.array([1.0, math.nan])])
def test_a_bound_that_is_not_a_finite_number_is_named(make, bound):
    with pytest.raises(ValueError, match="bound must be a finite number, got "):
        make(bound)
