"""Policies on means and variances, against plain NumPy loops, scipy, hand-worked values and published tables."""

import math
import statistics

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from policy_table import replay
from scipy import optimize, special, stats

import eljax
from eljax import policies
from eljax.policies import _draws, _variances

DTYPE = jnp.result_type(float)
EPS = float(jnp.finfo(DTYPE).eps)
K, T = 3, 80
G1, G2 = eljax.log_loglog(), eljax.log_squared()
PLAY = jax.jit(jax.vmap(replay, (None, 0)))


# --- Every index from the list of all rewards, as the papers print it ------------------------------------------------


def kl(family, p, q):
    if family == "gaussian":
        return (p - q) ** 2 / 2
    if family == "exponential":
        return p / q - 1 - math.log(p / q)
    return special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)


def kl_index(family, x, t, inflation=0.0, loglog=0.0):
    level = (1 + inflation) * math.log(t) + (loglog * math.log(math.log(t)) if math.log(t) > 1 else 0)
    p, width = x.mean(), 1.0
    while family != "bernoulli" and len(x) * kl(family, p, p + width) <= level:
        width = 2 * width
    end = 1.0 if family == "bernoulli" else p + width
    return optimize.brentq(lambda q: len(x) * kl(family, p, q) - level, p, end, xtol=1e-15)


def imed_index(family, x, best):
    return -(len(x) * kl(family, x.mean(), best) + math.log(len(x)))


def squared(t, arms=1):
    return max(math.log(t) ** 2 / arms, 0.5)


def tail_safe(x, t, arms, eta1=1.0, eta2=1.0, alpha=0.5):
    c1 = eta1 * (t / arms) ** alpha * math.sqrt(max(math.log(arms), 1))
    return x.mean() + min(c1 / len(x), eta2 * math.sqrt(squared(t)) / math.sqrt(len(x)))


def ism(x, t, arms):
    return x.mean() + x.std() * math.sqrt((t - 1) ** (2 / (len(x) - 2)) - 1)


def ucb_v(x, t, b):
    return x.mean() + math.sqrt(2 * x.var() * math.log(t) / len(x)) + 3 * b * math.log(t) / len(x)


LOOPS = {  # policy, index of (rewards of the arm, round, largest mean), pulls of each arm first, rewards in (0, 1)
    "r_ucb": (policies.r_ucb(G2), lambda x, t, best: x.mean() + math.sqrt(squared(t, K) / len(x)), 1, False),
    "ucb_v": (policies.ucb_v(0.7), lambda x, t, best: ucb_v(x, t, 0.7), 1, False),
    "ism_normal": (policies.ism_normal(), lambda x, t, best: ism(x, t, K), 3, False),
    "tail_safe_ucb": (policies.tail_safe_ucb(), lambda x, t, best: tail_safe(x, t, K), 1, False),
    "tail_safe_ucb .5, 2, .7": (
        policies.tail_safe_ucb(0.5, 2.0, 0.7),
        lambda x, t, best: tail_safe(x, t, K, 0.5, 2.0, 0.7),
        1,
        False,
    ),
}
for name in ("gaussian", "bernoulli", "exponential"):
    unit = name != "gaussian"
    LOOPS[f"kl_ucb {name}"] = (policies.kl_ucb(name), lambda x, t, best, f=name: kl_index(f, x, t), 1, unit)
    LOOPS[f"kl_ucb {name} .3, 2"] = (
        policies.kl_ucb(name, 0.3, loglog=2.0),
        lambda x, t, best, f=name: kl_index(f, x, t, 0.3, 2.0),
        1,
        unit,
    )
    LOOPS[f"imed {name}"] = (policies.imed(name), lambda x, t, best, f=name: imed_index(f, x, best), 1, unit)


@pytest.mark.parametrize("name", LOOPS)
def test_arms_are_those_of_a_plain_loop(name):
    policy, index, opening, unit = LOOPS[name]
    x = np.random.default_rng(11).normal(np.array([0.3, 0.6, 0.0])[:, None], 1.0, (4, K, T))
    x = np.asarray(1 / (1 + np.exp(-x)) if unit else x, DTYPE)
    got = np.asarray(PLAY(policy, jnp.asarray(x))[0])
    for run in range(4):
        pulls, arms = [0] * K, []
        for t in range(1, T + 1):
            seen = [np.asarray(x[run, i, : pulls[i]], np.float64) for i in range(K)]
            if min(pulls) < opening:
                arm = int(np.argmin(pulls))
            else:
                best = max(r.mean() for r in seen)
                arm = int(np.argmax([index(r, t, best) for r in seen]))
            pulls[arm] += 1
            arms.append(arm)
        np.testing.assert_array_equal(got[run], arms)
    assert len({tuple(pulled) for pulled in got}) > 1


@jax.jit
def observed(policy, state, arms, rewards):
    """The state after these pulls."""
    return jax.lax.scan(lambda state, pull: (policy.update(state, *pull), None), state, (arms, rewards))[0]


def state_of(policy, arms, rewards):
    state = policy.init(max(arms) + 1, len(arms), DTYPE)
    return observed(policy, state, jnp.asarray(arms, jnp.int32), jnp.asarray(rewards, DTYPE))


def decide(policy, arms, rewards, t):
    return policy.select(jax.random.key(0), jnp.asarray(t, jnp.int32), state_of(policy, arms, rewards))[0]


# --- Identities and hand-worked values -------------------------------------------------------------------------------


def test_gaussian_kl_ucb_is_ucb():
    x = jnp.asarray(np.random.default_rng(3).normal(0, 2, (2, K, T)), DTYPE)
    same = PLAY(policies.kl_ucb("gaussian", sigma=2.0), x)[0] == PLAY(policies.ucb(2.0), x)[0]
    assert same.all()
    index = decide(policies.kl_ucb("gaussian", 0.25, sigma=2.0), [0, 1, 1], [1.0, 0.0, 1.0], 10).index
    wanted = [1 + 2 * math.sqrt(2.5 * math.log(10)), 0.5 + 2 * math.sqrt(2.5 * math.log(10) / 2)]
    np.testing.assert_allclose(index, wanted, rtol=8 * EPS)


def test_tail_safe_ucb_without_its_first_width_is_r_ucb():
    x = jnp.asarray(np.random.default_rng(5).normal(0, 1, (2, K, T)), DTYPE)
    same = PLAY(policies.tail_safe_ucb(1e9, 1.0, schedule=G2), x)[0] == PLAY(policies.r_ucb(G2), x)[0]
    assert same.all()


def test_dirac_arms_pull_counts_of_r_ucb_follow_the_formula():
    """Rewards 1 and 0, φ = 4: while arm 0 has n pulls and arm 1 has m, arm 1 is pulled iff 2/√m > 1 + 2/√n."""
    arms = np.asarray(PLAY(policies.r_ucb(constant_four), jnp.asarray([[[1.0] * T, [0.0] * T]], DTYPE))[0])[0]
    pulls = [1, 1]
    for arm in arms[2:]:
        wanted = int(2 / math.sqrt(pulls[1]) > 1 + 2 / math.sqrt(pulls[0]))
        assert arm == wanted
        pulls[wanted] += 1
    assert pulls == [77, 3]  # by hand: 2/√m > 1 stops at m = 3 < 4 because of the width of arm 0


def constant_four(t, num_arms):
    return 4.0 + 0 * t


def test_ism_normal_by_hand():
    """0, 3, 6 and 1, 1, 1 at n = 6: the first has mean 3, variance 6 and index 3 + √6 √35; the other has index 1."""
    decision = decide(policies.ism_normal(), [0, 1] * 3, [0.0, 1.0, 3.0, 1.0, 6.0, 1.0], 7)
    np.testing.assert_allclose(decision.index, [3 + math.sqrt(6 * 35), 1.0], rtol=16 * EPS)
    assert (int(decision.arm), bool(decision.forced)) == (0, False)


def test_imed_by_hand():
    """Means 1/2 (2 pulls) and 1/4 (4 pulls): 2·0 + log 2 against 4·(¼ log ½ + ¾ log (¾/½)) + log 4."""
    decision = decide(policies.imed("bernoulli"), [0, 0, 1, 1, 1, 1], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0], 7)
    wanted = [math.log(2), 4 * (0.25 * math.log(0.5) + 0.75 * math.log(1.5)) + math.log(4)]
    np.testing.assert_allclose(-decision.index, wanted, rtol=8 * EPS)
    assert int(decision.arm) == 0


def test_imed_never_returns_to_a_failure_while_another_arm_is_perfect():
    decision = decide(policies.imed("bernoulli"), [0, 1, 1], [0.0, 1.0, 1.0], 4)
    assert (int(decision.arm), bool(decision.certified)) == (1, True)
    assert np.asarray(decision.index).tolist() == [-math.inf, pytest.approx(-math.log(2), rel=4 * EPS)]


@pytest.mark.parametrize("name", ["kl_ucb", "imed"])
@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "exponential"])
def test_the_order_of_equal_rewards_does_not_decide(name, family):
    """Arms 0 and 1 have the same rewards in another order; arm 2 is the leader, with 30 pulls."""
    policy, rng = getattr(policies, name)(family), np.random.default_rng(2)
    samples = [rng.uniform(0.1, 0.9, 7) for _ in range(400)]
    rewards = jnp.asarray([[*x, *rng.permutation(x), *[0.75] * 30] for x in samples], DTYPE)
    arms = jnp.asarray([0] * 7 + [1] * 7 + [2] * 30, jnp.int32)

    @jax.jit
    @jax.vmap
    def decisions(rewards):
        state = observed(policy, policy.init(3, 44, DTYPE), arms, rewards)
        return policy.select(jax.random.key(0), jnp.asarray(45, jnp.int32), state)[0]

    got = decisions(rewards)
    assert (got.arm == 0).mean() > 0.3
    assert (got.arm != 1).all()
    assert (got.index[:, 1] > got.index[:, 0]).any(), "rounding would have decided"


# --- Variances -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e6])
def test_variance_at_an_offset_of_many_standard_deviations(offset):
    """Against exact rational arithmetic; an offset loses only what it takes from the rewards themselves."""
    x = np.asarray(offset + np.random.default_rng(4).normal(0, 1.0, 500), DTYPE)

    def step(state, reward):
        return _variances.update(state, jnp.zeros((), jnp.int32), reward), None

    state = jax.jit(lambda x: jax.lax.scan(step, _variances.init(1, 500, DTYPE), x)[0])(jnp.asarray(x))
    exact = statistics.pvariance([float(v) for v in x])
    assert float(_variances.variance(state)[0]) == pytest.approx(exact, rel=16 * EPS)


def test_variance_of_equal_rewards_is_zero():
    state = state_of(policies.ucb_v(1.0), [0, 0, 1], [1e6 + 0.1, 1e6 + 0.1, 3.0])
    assert _variances.variance(state).tolist() == [0.0, 0.0]


# --- Thompson sampling: the laws of the draws ------------------------------------------------------------------------

DRAWS = 20_000
POSTERIORS = {
    "gaussian": [(1, 0.7), (5, -2.0), (40, 3.0)],
    "exponential": [(1, 0.7), (2, 1.0), (4, 2.0), (5, 0.1), (6, 5.0), (300, 3.0)],
    "bernoulli": [(0, 0), (3, 1), (9, 9), (40, 3), (2_000, 1_700)],
}


@pytest.mark.parametrize("family", POSTERIORS)
def test_draws_have_the_law_of_the_posterior(family):
    """Kolmogorov–Smirnov against scipy at 1e-4 per arm (1.4e-3 in all), rank correlations at 4.5 standard errors."""
    policy, cases = policies.thompson(family, **({"sigma": 2.0} if family == "gaussian" else {})), POSTERIORS[family]
    state = policy.init(len(cases), 10, DTYPE)
    count = jnp.asarray([n for n, _ in cases], jnp.int32)
    values = jnp.asarray([value for _, value in cases])
    if family == "bernoulli":
        state = state._replace(count=count, successes=values.astype(jnp.int32))
        laws = [stats.beta(1 + s, 1 + n - s) for n, s in cases]
    else:
        state = state._replace(count=count, centre=values.astype(DTYPE))
        scale = lambda n, mean: stats.invgamma(n, scale=n * mean)  # noqa: E731
        laws = [stats.norm(m, 2 / math.sqrt(n)) if family == "gaussian" else scale(n, m) for n, m in cases]
    keys = jax.random.split(jax.random.key(8), DRAWS)
    t = jnp.asarray(1, jnp.int32)
    decision = jax.jit(jax.vmap(lambda key: policy.select(key, t, state)[0]))(keys)
    index = np.asarray(decision.index)
    np.testing.assert_array_equal(decision.arm, index.argmax(1))
    for k, law in enumerate(laws):
        assert stats.kstest(index[:, k], law.cdf).pvalue > 1e-4, cases[k]
    correlation = stats.spearmanr(index).statistic[np.triu_indices(len(cases), 1)]
    assert np.abs(correlation).max() < 4.5 / math.sqrt(DRAWS)


def test_gamma_quantiles_are_scipys():
    """Errors in standard deviations of log G, at most 3e-6 (rounding in float32: 1e-5)."""
    shape = np.unique(np.r_[5:40, np.geomspace(40, 1e5, 40).round()])
    z, shape = np.meshgrid(np.linspace(-9.2, 9.2, 185), shape)
    tail = special.ndtr(-np.abs(z))
    wanted = np.log(np.where(z < 0, special.gammaincinv(shape, tail), special.gammainccinv(shape, tail)) / shape)
    got = np.asarray(_draws.log_quantile(jnp.asarray(z, DTYPE), jnp.asarray(shape, DTYPE)), np.float64)
    assert (np.abs(got - wanted) * np.sqrt(shape)).max() < (3e-6 if DTYPE == jnp.float64 else 1e-5)


def test_a_fractional_reward_is_a_success_with_its_probability():
    """Binomial(20,000, .3) successes, within 4.5 standard errors; 0 and 1 always count as what they are."""
    policy = policies.thompson("bernoulli")
    t, arm = jnp.asarray(1, jnp.int32), jnp.asarray(0, jnp.int32)

    def successes(key, reward):
        state = policy.select(key, t, policy.init(1, 1, DTYPE))[1]
        return policy.update(state, arm, reward).successes[0]

    keys = jax.random.split(jax.random.key(9), DRAWS)
    for reward, low, high in ((0.3, 0.3 - 4.5 * 0.00324, 0.3 + 4.5 * 0.00324), (0.0, 0, 0), (1.0, 1, 1)):
        share = np.mean(jax.jit(jax.vmap(successes, (0, None)))(keys, jnp.asarray(reward, DTYPE)))
        assert low <= share <= high


@pytest.mark.parametrize(("p", "upper"), [(2.0**-64, True), (2.0**-64, False), (0.5, True)])
def test_coins_are_strictly_between_rewards_0_and_1(monkeypatch, p, upper):
    monkeypatch.setattr(_draws.random, "tail_uniform", lambda *_: (jnp.asarray(p, DTYPE), jnp.asarray(upper)))
    assert 0 < float(_draws.uniform(None, None, DTYPE)) < 1


# --- Published numbers -----------------------------------------------------------------------------------------------

GAUSSIAN = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
BERNOULLI = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.8)])
EXPONENTIAL = eljax.Bandit([eljax.exponential(1.5), eljax.exponential(1.0)])


@pytest.mark.parametrize(
    ("bandit", "policy", "horizon", "mean", "error"),
    [  # mean ± standard error: authors' public code (2,000 runs), Baudry et al. 2020 (5,000 runs)
        (GAUSSIAN, policies.r_ucb(G2), 10_000, 65.82, 0.46),
        (GAUSSIAN, policies.kl_ucb("gaussian"), 10_000, 30.86, 0.34),
        (GAUSSIAN, policies.thompson("gaussian"), 10_000, 22.31, 0.38),
        (BERNOULLI, policies.thompson("bernoulli"), 20_000, 11.2, 10 / math.sqrt(5_000)),
        (EXPONENTIAL, policies.imed("exponential"), 20_000, 40.0, 78.4 / math.sqrt(5_000)),
    ],
    ids=lambda value: str(value) if isinstance(value, eljax.types.Policy) else "",
)
def test_published_mean_regret(bandit, policy, horizon, mean, error):
    """Within 4 standard errors of both (6e-5 each)."""
    result = eljax.simulate(bandit, policy, horizon=horizon, runs=512, checkpoints=[horizon])
    assert abs(result.mean()[-1] - mean) < 4 * math.hypot(error, result.standard_error()[-1])


# --- Bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: policies.r_ucb(3.0), "schedule must be a function"),
        (lambda: policies.ucb_v(0.0), "reward_range must be a finite number > 0.0, got 0.0"),
        (lambda: policies.ucb_v("wide"), "reward_range must be"),
        (lambda: policies.kl_ucb("poisson"), 'family must be one of "gaussian", "bernoulli", "exponential", got'),
        (lambda: policies.kl_ucb(None), "family must be"),
        (lambda: policies.kl_ucb("gaussian", -0.1), "inflation must be a finite number >= 0.0, got -0.1"),
        (lambda: policies.kl_ucb("gaussian", math.nan), "inflation must be"),
        (lambda: policies.kl_ucb("bernoulli", loglog=-1.0), "loglog must be"),
        (lambda: policies.kl_ucb("gaussian", sigma=0.0), "sigma must be a finite number > 0.0"),
        (lambda: policies.kl_ucb("bernoulli", sigma=2.0), "sigma must be left at 1.0 for the bernoulli family"),
        (lambda: policies.imed("normal"), "family must be"),
        (lambda: policies.imed("gaussian", sigma=-1.0), "sigma must be"),
        (lambda: policies.imed("exponential", sigma=2.0), "sigma must be left at 1.0"),
        (lambda: policies.thompson(1), "family must be"),
        (lambda: policies.thompson("gaussian", sigma=math.inf), "sigma must be"),
        (lambda: policies.thompson("bernoulli", sigma="1"), "sigma must be left at 1.0"),
        (lambda: policies.tail_safe_ucb(0.0), "eta1 must be a finite number > 0.0"),
        (lambda: policies.tail_safe_ucb(1.0, -1.0), "eta2 must be"),
        (lambda: policies.tail_safe_ucb(alpha=1.5), r"alpha must be a finite number in \[0.0, 1.0\], got 1.5"),
        (lambda: policies.tail_safe_ucb(alpha=-0.5), "alpha must be"),
        (lambda: policies.tail_safe_ucb(schedule=2.0), "schedule must be a function"),
        (lambda: policies.r_ucb(decreasing).validate(2, 100), "non-decreasing"),
        (lambda: policies.tail_safe_ucb(schedule=decreasing).validate(2, 100), "non-decreasing"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_ism_normal_takes_no_argument():
    with pytest.raises(TypeError):
        policies.ism_normal(1.0)


def decreasing(t, num_arms):
    return 1000.0 / t
