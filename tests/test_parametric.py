"""Derivatives of rewards and means in the parameters of a law, against the arms made anew with other parameters."""

import jax
import numpy as np
import pytest

import eljax
from eljax import arms
from eljax.arms import parametric

X64 = jax.config.jax_enable_x64
ARMS = [
    eljax.gaussian(0.3, 2.0),
    eljax.laplace(-1.0, 0.3),
    eljax.uniform(0.1, 1.5),
    eljax.exponential(0.7),
    eljax.pareto(3.0, 0.4),
    eljax.gamma(2.0, 0.5),
    eljax.beta(2.0, 1.5, scale=1.8),
    eljax.student_t(4.0, 0.6, 0.5),
    eljax.bernoulli(0.3),
]
P, UPPER = np.array([1e-6, 0.02, 0.3, 0.49]), np.array([False, True])


@pytest.mark.skipif(not X64, reason="finite differences need float64")
@pytest.mark.parametrize("arm", ARMS[:-1], ids=lambda arm: arm.family)
def test_rewards_and_means(arm):
    bandit = eljax.Bandit([eljax.gaussian(0.0, 1.0), arm])
    law = bandit.law(np.float64)
    start = parametric.parameters(bandit.arms)
    assert start[1].keys() == parametric.LEAVES[arm.family].keys()

    def both(values):
        moved, means = parametric.moved(law, bandit.arms, values)
        draw = lambda p, upper: arms.reward(moved, np.int32(1), p, upper)  # noqa: E731
        return jax.vmap(jax.vmap(draw, (0, None)), (None, 0))(P, UPPER), means

    (rewards, means), slopes = both(start), jax.jacfwd(both)(start)
    np.testing.assert_allclose(rewards, arm.quantile(P, UPPER[:, None]), rtol=1e-13)
    np.testing.assert_allclose(means, bandit.means, rtol=1e-15)
    for name, value in start[1].items():
        step = 1e-5 * abs(value)
        up, down = (getattr(eljax, arm.family)(**{**arm.parameters, name: value + s}) for s in (step, -step))
        quotient = (up.quantile(P, UPPER[:, None]) - down.quantile(P, UPPER[:, None])) / (2 * step)
        np.testing.assert_allclose(slopes[0][1][name], quotient, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(slopes[1][1][name], [0, (up.mean - down.mean) / (2 * step)], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.family)
def test_formulas_of_the_means(arm):
    assert parametric.MEANS[arm.family](**arm.parameters) == pytest.approx(arm.mean, rel=1e-15)
