"""How low a better arm must be for a policy with a bonus: closed forms."""

import math

import numpy as np
import pytest

import eljax
from eljax import policies
from eljax.tails import starving

PAIR = eljax.Bandit([eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)])


def test_one_terrible_reward_for_ucb():
    """mean + √(2 log t/n) is that of arm 2; its least cost n (1 − u)²/2 is at n = 1."""
    t = 400
    found = starving.tilted(policies.ucb(1.0), PAIR, 1, t)
    want = [math.sqrt(2 * math.log(t + n)) * (t**-0.5 - n**-0.5) for n in (1, 2, 4)]
    np.testing.assert_allclose([row[0].arm.mean for row in found], want, rtol=1e-9)
    assert all(row[1].arm == PAIR.arms[1] for row in found)


def test_dozens_of_bad_rewards_where_they_are_bounded():
    """R-UCB with φ = 25 on rewards in [0, 1]: √(25/n) is at most what separates 0 from arm 2's index from n = 46 on."""
    bandit = eljax.Bandit([eljax.beta(3.0, 2.0), eljax.beta(2.0, 3.0)])
    found = starving.tilted(policies.r_ucb(_constant), bandit, 1, 400)
    index = 0.4 + math.sqrt(25 / 400)
    means = [row[0].arm.mean for row in found]
    n = [25 / (index - mean) ** 2 for mean in means]
    assert all(value > 46 for value in n)
    assert n == pytest.approx(np.round(n), rel=1e-6)  # whole numbers of pulls


def _constant(t, num_arms):
    return 25.0 + 0 * t


def test_policies_that_cannot_be_asked():
    for policy in (policies.g_forcing(eljax.log_squared()), policies.el_f(eljax.log_squared())):
        assert starving.tilted(policy, PAIR, 1, 50) == []
    rows = starving.tilted(policies.rds("sqrt_log"), PAIR, 1, 50)
    # N(−s b, s²) with s = (−b + √(b² + 4 (1 + b²)))/(2 (1 + b²)): b = 1 gives N(−½, ¼)
    assert rows[0][0].arm == eljax.gaussian(0.0, 1.0)
    assert (rows[2][0].arm.mean, rows[2][0].arm.variance) == pytest.approx((-0.5, 0.25))
