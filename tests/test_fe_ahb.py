"""FE and AHB against plain loops written from their definitions, and against exact and published values."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from policy_table import replay
from scipy import stats

import eljax
from eljax.policies.ahb import log_mean_exp_gap

SEQUENCES = {
    "sqrt": lambda c, horizon: math.sqrt(horizon),
    "linear": lambda c, horizon: c,
    "exponential": lambda c, horizon: math.exp(c / math.log(horizon)),
}
play = jax.jit(replay)


def fe_loop(sequence, rewards, horizon):
    """Arms and forced flags by FE on rewards [K, T]; means must not tie."""
    num_arms, rounds = rewards.shape
    last, seen, pulled, threshold, c = [0] * num_arms, [[] for _ in range(num_arms)], set(), 0, 0
    arms, forced = [], []
    for t in range(1, rounds + 1):
        ages = [t - 1 - s for s in last]
        forced.append(max(ages) >= threshold)
        arm = ages.index(max(ages)) if forced[-1] else int(np.argmax([np.mean(x) for x in seen]))
        arms.append(arm)
        last[arm] = t
        seen[arm].append(rewards[arm, len(seen[arm])])
        pulled.add(arm)
        if len(pulled) == num_arms:
            pulled, threshold, c = set(), SEQUENCES[sequence](c, horizon), c + 1
    return np.array(arms), np.array(forced)


# ------------------------------------------------------------------------------------------------------------------ FE


@pytest.mark.parametrize(("sequence", "floor"), [("sqrt", 99), ("linear", 141), ("exponential", 65)])
def test_the_least_that_fe_explores(sequence, floor):
    """The least regrets 49.5, 70.5, 32.5 of the authors' own code on N(.5, 1), N(0, 1), T = 10,000, are these pulls."""
    bandit = eljax.Bandit([eljax.dirac(0.5), eljax.dirac(0.0)])
    result = eljax.simulate(bandit, eljax.policies.fe(sequence), horizon=10_000, runs=1, checkpoints=[10_000])
    assert result.pulls.tolist() == [[10_000 - floor, floor]]
    assert result.regret.item() == floor / 2


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("means", [(0.0, 1.0, 0.5), (0.1, 0.2, 0.3, 0.9, 0.4, 0.8, 0.7)])
def test_pulls_of_constant_arms(sequence, means):
    horizon = 1_500
    arms, forced = fe_loop(sequence, np.repeat(np.array(means)[:, None], horizon, 1), horizon)
    rewards = jnp.repeat(jnp.asarray(means, jnp.result_type(float))[:, None], horizon, 1)
    found = play(eljax.policies.fe(sequence), rewards)
    np.testing.assert_array_equal(found[0], arms)
    np.testing.assert_array_equal(found[1], forced)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_fe_is_the_plain_loop_on_random_rewards(sequence):
    """Round by round, with the horizon of the run and with another one given."""
    rewards = np.random.default_rng(3).normal([[0.3], [0.0], [0.2]], 1.0, (3, 400))
    given = jnp.asarray(rewards, jnp.result_type(float))
    rewards = np.asarray(given, np.float64)
    for horizon, policy in ((400, eljax.policies.fe(sequence)), (60_000, eljax.policies.fe(sequence, 60_000))):
        arms, forced = play(policy, given)
        expected_arms, expected_forced = fe_loop(sequence, rewards, horizon)
        np.testing.assert_array_equal(arms, expected_arms)
        np.testing.assert_array_equal(forced, expected_forced)


def test_fe_breaks_ties_at_random_among_the_tied():
    """Exactly those, whatever their number; each equally often (chi-squared, false alarm 1e-4 for each of two)."""
    tie = 8 * jnp.finfo(jnp.result_type(float)).eps  # within the library's rule
    values = jnp.asarray([0.5, 0.5 + tie, 0.25, 0.5 - tie, 0.4], jnp.result_type(float))
    for tied, x in (([0, 1, 3], values), ([2], -values)):
        arms, forced = play(eljax.policies.fe("exponential"), jnp.repeat(x[:, None], 3_000, 1))
        counts = np.bincount(arms[~forced], minlength=5)
        assert counts[tied].sum() == counts.sum() > 1_500
        assert len(tied) == 1 or stats.chisquare(counts[tied]).pvalue > 1e-4


def test_fe_takes_the_horizon_given():
    bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
    sizes = {"horizon": 300, "runs": 4}
    for sequence in ("sqrt", "exponential"):
        none, same, other = (eljax.policies.fe(sequence, horizon) for horizon in (None, 300, 10_000))
        results = [eljax.simulate(bandit, policy, **sizes) for policy in (none, same, other)]
        assert (results[0].pulls == results[1].pulls).all()
        assert (results[0].pulls != results[2].pulls).any()
    assert str(eljax.policies.fe("sqrt", 300)) == "fe(sequence=sqrt, horizon=300)"
    assert str(eljax.policies.fe("linear", 300)) == "fe(sequence=linear, horizon=None)"
    eljax.simulate(bandit, eljax.policies.fe("exponential"), horizon=1, runs=1)  # log 1 = 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("log",), 'sequence must be "sqrt" or "linear" or "exponential", got \'log\''),
        ((2,), "sequence must be"),
        (("sqrt", 1), "horizon must be a whole number >= 2, got 1"),
        (("exponential", 100.0), "horizon must be a whole number"),
    ],
)
def test_fe_names_bad_arguments(arguments, said):
    with pytest.raises(ValueError, match=said):
        eljax.policies.fe(*arguments)


# ----------------------------------------------------------------------------------------------------------------- AHB


def ahb_loop(rewards, uniforms):
    """Arms, and the weights q after the last round, by the definition with the estimates themselves, not about C."""
    num_arms, rounds = rewards.shape
    pulls, arms, sums, gaps, centre = [0] * num_arms, [], np.zeros(num_arms), 0.0, None
    eta, q = math.inf, np.full(num_arms, 1 / num_arms)
    for t in range(1, rounds + 1):
        gamma = min(0.5, math.sqrt(2.5 * num_arms * math.log(num_arms)) / math.sqrt(t))
        p = (1 - gamma) * q + gamma / num_arms
        arm = t - 1 if t <= num_arms else next(i for i in range(num_arms) if p[: i + 1].sum() > uniforms[t - 1])
        reward = rewards[arm, pulls[arm]]
        arms.append(arm)
        pulls[arm] += 1
        if t == num_arms:
            centre = np.mean([rewards[i, 0] for i in range(num_arms)])
        if t <= num_arms:
            continue
        estimate = np.full(num_arms, centre)
        estimate[arm] += (reward - centre) / p[arm]
        mixed = np.log(np.sum(q * np.exp(eta * (estimate - estimate.max())))) / eta if eta < math.inf else 0.0
        gaps += estimate.max() + mixed - np.sum(q * estimate)
        sums += estimate
        eta = math.log(num_arms) / gaps if gaps > 0 else math.inf
        leads = np.exp(eta * (sums - sums.max())) if gaps > 0 else (sums == sums.max()).astype(float)
        q = leads / leads.sum()
    return np.array(arms), q


@pytest.mark.parametrize("num_arms", [2, 4])
def test_ahb_is_the_plain_loop_on_the_same_draws(num_arms):
    rounds = 600
    rng = np.random.default_rng(8)
    rewards = 40 + 10 * rng.beta(2, np.linspace(2, 4, num_arms)[:, None], (num_arms, rounds))
    with jax.enable_x64(True):
        policy, key = eljax.policies.ahb(), jax.random.key(5)
        draw = jax.vmap(lambda t: jax.random.uniform(jax.random.fold_in(key, t), (), jnp.float64))
        uniforms = np.asarray(draw(jnp.arange(1, rounds + 1)))
        expected, weights = ahb_loop(rewards, uniforms)
        arms = np.asarray(play(policy, jnp.asarray(rewards), 5)[0])
        np.testing.assert_array_equal(arms, expected)

        def learn(state, step):
            return policy.update(state, *step), None

        met = rewards[arms, [(arms[:t] == arm).sum() for t, arm in enumerate(arms)]]
        steps = jnp.asarray(arms), jnp.asarray(met)
        state = jax.lax.scan(learn, policy.init(num_arms, rounds, jnp.dtype("float64")), steps)[0]
    np.testing.assert_allclose(np.exp(state.log_weight), weights, rtol=1e-9)
    assert len(set(arms[-100:].tolist())) > 1
    assert weights.argmax() == 0


@pytest.mark.parametrize("change", [(1 / 3, 0.0), (50.0, 0.0), (50.0, -2_000.0)])
def test_ahb_is_free_of_scale_and_offset(change):
    scale, offset = change
    rewards = np.random.default_rng(4).uniform(0, [[1.0], [0.8]], (2, 2_000))
    with jax.enable_x64(True):
        plain, changed = (play(eljax.policies.ahb(), jnp.asarray(x))[0] for x in (rewards, scale * rewards + offset))
    np.testing.assert_array_equal(plain, changed)


def test_ahb_learns_nothing_from_rounding():
    """Ten arms of 0.1 sum to less than 1; a centre rounded below them would be a reason to prefer what was pulled."""
    rewards = jnp.full((10, 3_000), 0.1, jnp.result_type(float))
    counts = np.bincount(play(eljax.policies.ahb(), rewards)[0])
    assert stats.chisquare(counts).pvalue > 1e-4


def test_ahb_with_one_arm():
    bandit = eljax.Bandit([eljax.uniform(0.0, 1.0)])
    assert eljax.simulate(bandit, eljax.policies.ahb(), horizon=20, runs=2).pulls.tolist() == [[20], [20]]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 2e-14), ("float32", 1e-5)])
def test_the_mixability_gap_to_rounding(dtype, tolerance):
    """Against 50 digits, at weights near 0 and 1 and exponents of both signs."""
    with jax.enable_x64(dtype == "float64"), mpmath.workdps(50):
        small = np.array([1e-12, 1e-3, 0.1, 0.4999]).astype(dtype)
        x = np.concatenate([np.geomspace(1e-6, 60, 25), -np.geomspace(1e-6, 60, 25)]).astype(dtype)
        for weight in small:
            r = mpmath.mpf(float(weight))
            log_r, log_rest = (np.dtype(dtype).type(float(mpmath.log(y))) for y in (r, 1 - r))
            rest = np.dtype(dtype).type(float(1 - r))
            for log_q, other, q in ((log_r, rest, r), (log_rest, weight, 1 - r)):
                found = np.asarray(log_mean_exp_gap(jnp.asarray(log_q), jnp.asarray(other), jnp.asarray(x)))
                truth = [mpmath.log(1 - q + q * mpmath.exp(mpmath.mpf(float(y)))) - q * mpmath.mpf(float(y)) for y in x]
                np.testing.assert_allclose(found, np.array(truth, float), rtol=tolerance * max(1, -float(log_q)))
