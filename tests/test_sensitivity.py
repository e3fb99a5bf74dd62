"""Likelihood-ratio derivatives against exact ones, identities of scale-free policies, and densities by scipy."""

import jax
import numpy as np
import pytest
from scipy import stats

import eljax
from eljax import policies, sensitivity, tails
from eljax.tails import tilts

G2 = eljax.log_squared()


def coins(p):
    return eljax.Bandit([eljax.bernoulli(x) for x in p])


def test_against_the_dynamic_programme():
    """Six numbers within 4 standard errors of exact ones: a false alarm in 2,600."""
    policy = policies.g_forcing(G2)
    p, options = np.array([0.8, 0.5]), {"horizon": 25, "threshold": 1.95}  # 6.5 pulls, for moved gaps too
    regret = sensitivity.expected_regret(coins(p), policy, horizon=25, runs=16_000, seed=1)
    tail = sensitivity.tail(coins(p), policy, **options, runs=16_000, seed=1)
    here = tails.exact(coins(p), policy, **options)
    assert abs(regret.value - here.expected_regret) < 4 * regret.standard_error
    assert abs(tail.value - here.probability) < 4 * tail.standard_error
    assert regret.runs == 16_000
    for i in range(2):
        step = 1e-4 * np.eye(2)[i]
        up, down = (tails.exact(coins(p + s), policy, **options) for s in (step, -step))
        for found, truth in (
            (regret, (up.expected_regret - down.expected_regret) / 2e-4),
            (tail, (up.probability - down.probability) / 2e-4),
        ):
            error = found.gradient_errors[i]["p"]
            assert error < 0.06 * abs(truth)
            assert abs(found.gradient[i]["p"] - truth) < 4 * error


def test_identities_of_a_policy_that_knows_neither_location_nor_scale():
    """E[R] is unchanged by a shift of both means and proportional to a factor on means and spreads (Euler).

    4 standard errors of either sum, bounded by the sum of theirs: a false alarm in less than 10,000.
    """
    theta = [(0.5, 1.0), (-0.2, 0.7)]
    bandit = eljax.Bandit([eljax.gaussian(*x) for x in theta])
    found = sensitivity.expected_regret(bandit, policies.g_forcing(G2), horizon=20, runs=40_000, seed=2)
    gradient, errors = ([(x["mean"], x["sigma"]) for x in arms] for arms in (found.gradient, found.gradient_errors))
    shift, bound = np.sum(gradient, 0)[0], 4 * np.sum(errors, 0)[0]
    assert abs(shift) < bound < 0.4
    assert (
        abs(np.sum(np.multiply(theta, gradient)) - found.value) < 4 * np.sum(np.abs(np.multiply(theta, errors))) < 0.5
    )
    assert gradient[0][0] > 5 * errors[0][0]  # and not because all of it is 0


DENSITIES = {
    "gaussian": (eljax.gaussian(0.3, 2.0), lambda q: stats.norm(q["mean"], q["sigma"])),
    "exponential": (eljax.exponential(0.7), lambda q: stats.expon(scale=q["mean"])),
    "gamma": (eljax.gamma(2.0, 0.5), lambda q: stats.gamma(q["shape"], scale=q["scale"])),
    "pareto": (eljax.pareto(3.0, 0.4), lambda q: stats.pareto(q["shape"], scale=q["scale"])),
    "beta": (eljax.beta(2.0, 1.5, scale=1.8), lambda q: stats.beta(q["a"], q["b"], scale=q["scale"])),
    "bernoulli": (eljax.bernoulli(0.3), lambda q: stats.bernoulli(q["p"])),
}


@pytest.mark.parametrize("family", sensitivity.SCORES)
def test_scores_are_derivatives_of_log_densities(family):
    arm, law = DENSITIES[family]
    q = {name: float(x) for name, x in arm.parameters.items()}
    x = law(q).rvs(7, random_state=np.random.default_rng(0))
    with jax.enable_x64(True):
        sums = [np.sum(s) for s in tilts.statistics(np.asarray(x, np.float64), *tilts.standard(arm), powers=True)]
    log_density = lambda q: getattr(law(q), "logpdf" if family != "bernoulli" else "logpmf")(x).sum()  # noqa: E731
    for name, score in sensitivity.SCORES[family](7, *sums, tilts.standard(arm)[1], q).items():
        step = 1e-5 * q[name]
        up, down = (log_density({**q, name: q[name] + s}) for s in (step, -step))
        assert score == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-8)


def test_arms_without_scores_are_left_out():
    bandit = eljax.Bandit([eljax.bernoulli(0.7), eljax.dirac(0.5), eljax.bernoulli(0.0)])
    found = sensitivity.tail(bandit, policies.g_forcing(G2), horizon=12, threshold=1.55, runs=100)
    assert [list(x) for x in found.gradient] == [list(x) for x in found.gradient_errors] == [["p"], [], []]


GOOD = {"bandit": coins([0.7, 0.5]), "policy": policies.g_forcing(G2), "horizon": 10, "threshold": 1.1, "runs": 100}
BAD = {
    "bandit must be an eljax.Bandit": {"bandit": [0.7, 0.5]},
    "bandit must be one with a single best arm": {"bandit": coins([0.5, 0.5])},
    "policy must be": {"policy": "g_forcing"},
    "horizon must be": {"horizon": 0},
    "threshold must be": {"threshold": np.nan},
    "runs must be": {"runs": 9},
    "seed must be": {"seed": -1},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(message):
    with pytest.raises(ValueError, match=message):
        sensitivity.tail(**{**GOOD, **BAD[message]})
