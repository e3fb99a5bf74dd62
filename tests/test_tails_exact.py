"""The dynamic programme for exact regret tails, against published-precision values and against enumeration."""

import itertools

import numpy as np
import pytest
from scipy import optimize, special

import eljax
from eljax import policies, tails
from eljax.tails.dynamic_programme import _levels, pull_distribution

G2 = eljax.log_squared()
BERNOULLI = [  # p, T, radius, P[N₂ > T/2], P[N₂ > .8 T], E[R]: an independent dynamic programme
    ((0.9, 0.5), 40, 0.0, 8.256216435410e-3, 2.815562947087e-3, 2.952659379404),
    ((0.9, 0.5), 40, 3.0, 2.455117483527e-3, 1.090774433887e-4, 2.980980803005),
    ((0.9, 0.5), 80, 0.0, 2.096414571763e-3, 6.583109252095e-4, 4.122486251577),
    ((0.95, 0.3), 80, 3.0, 3.652630727454e-9, None, 6.500987311988),
]


@pytest.mark.parametrize(("p", "horizon", "radius", "half", "most", "expected"), BERNOULLI)
def test_bernoulli_arms(p, horizon, radius, half, most, expected):
    bandit = eljax.Bandit([eljax.bernoulli(q) for q in p])
    gap = bandit.gaps[1]
    for share, truth in ((0.5, half), (0.8, most)):
        if truth is not None:
            found = tails.exact(
                bandit, policies.el_f(G2, radius), horizon=horizon, threshold=(share * horizon + 0.5) * gap
            )
            assert found.probability == pytest.approx(truth, rel=1e-10)
            assert found.expected_regret == pytest.approx(expected, rel=1e-10)
            assert (found.relative_error, found.method) == (0.0, "exact")
            assert found.log_lower == found.log_upper == found.log_prob


def enumerated(bandit, choose, horizon):
    """P[pulls] over all sequences of rewards, one by one; choose(t, rewards per arm) -> arm."""
    out = {}

    def walk(rewards, probability):
        if (t := 1 + sum(map(len, rewards))) > horizon:
            pulls = tuple(map(len, rewards))
            out[pulls] = out.get(pulls, 0.0) + probability
            return
        arm = choose(t, rewards)
        for value, p in zip(*bandit.arms[arm].atoms, strict=True):
            walk([[*r, value] if i == arm else r for i, r in enumerate(rewards)], probability * p)

    walk([[] for _ in bandit.arms], 1.0)
    return out


def by_mean(t, rewards):
    """g-forcing with g(t) = (log t)²/K in plain Python; rewards are small whole numbers, so means are exact."""
    counts = [len(r) for r in rewards]
    if min(counts) < max(np.log(t) ** 2 / len(counts), 1e-9):
        return int(np.argmin(counts))
    return int(np.argmax([np.mean(r) for r in rewards]))


def by_width(t, rewards):
    """UCB with σ = 1."""
    width = [np.inf if not r else np.mean(r) + np.sqrt(2 * np.log(t) / len(r)) for r in rewards]
    return next(i for i, x in enumerate(width) if x >= max(width) - 1e-12)


def by_kl(t, rewards):
    """Bernoulli KL-UCB, the index by bisection."""

    def index(r):
        if not r:
            return np.inf
        p, excess = np.mean(r), lambda q: len(r) * special.rel_entr([p, 1 - p], [q, 1 - q]).sum() - np.log(t)
        return 1.0 if p == 1 or excess(1 - 1e-15) < 0 else optimize.brentq(excess, p, 1 - 1e-15, xtol=1e-13)

    each = [index(r) for r in rewards]
    return next(i for i, x in enumerate(each) if x >= max(each) - 1e-9)


THREE = eljax.Bandit([eljax.bernoulli(0.7), eljax.discrete([-1, 0, 2], [0.2, 0.5, 0.3]), eljax.dirac(0.5)])


COINS = eljax.Bandit([eljax.bernoulli(0.6), eljax.bernoulli(0.5), eljax.bernoulli(0.3)])


@pytest.mark.parametrize(
    ("bandit", "policy", "choose"),
    [
        (THREE, policies.g_forcing(G2), by_mean),
        (THREE, policies.ucb(1.0), by_width),
        (COINS, policies.kl_ucb("bernoulli"), by_kl),
    ],
    ids=["g_forcing", "ucb", "kl_ucb"],
)
def test_three_arms_by_enumeration(bandit, policy, choose):
    horizon = 9
    truth = enumerated(bandit, choose, horizon)
    assert sum(truth.values()) == pytest.approx(1)
    pulls, probabilities, underflow = pull_distribution(bandit, policy, horizon)
    found = {tuple(map(int, n)): p for n, p in zip(pulls, probabilities, strict=True)}
    assert not underflow
    assert found.keys() == truth.keys()
    np.testing.assert_allclose([found[n] for n in truth], list(truth.values()), rtol=1e-12)
    regret = {n: float(np.dot(n, bandit.gaps)) for n in truth}
    threshold = (min(regret.values()) + max(regret.values())) / 2 + 0.01
    tail = sum(p for n, p in truth.items() if regret[n] > threshold)
    assert 0 < tail < 1 - 1e-9
    answer = tails.exact(bandit, policy, horizon=horizon, threshold=threshold)
    assert answer.probability == pytest.approx(tail, rel=1e-12)
    assert answer.expected_regret == pytest.approx(sum(p * regret[n] for n, p in truth.items()), rel=1e-12)


def test_a_moving_radius_and_the_trap_of_the_naive_index():
    """Section 3: P[N₂ = T − 1] = 1 − ε, and R = N₁ · gap is at most one pull off it."""
    epsilon, horizon = 0.2, 30
    bandit = eljax.Bandit([eljax.two_point([0.0, 2 / epsilon], [1 - epsilon, epsilon]), eljax.dirac(1.0)])
    found = tails.exact(bandit, policies.el_ucb(G2), horizon=horizon, threshold=horizon - 1.5)
    assert found.probability == pytest.approx(1 - epsilon, rel=1e-12)


def test_events_that_cannot_or_must_happen():
    bandit = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.5)])
    never, always = (tails.exact(bandit, policies.g_forcing(G2), horizon=12, threshold=x) for x in (100.0, 0.1))
    assert (never.probability, never.log_prob, never.reason) == (0.0, -np.inf, "the event cannot happen")
    tiny = eljax.Bandit([eljax.two_point([0.0, 1.0], [1e-300, 1.0]), eljax.bernoulli(1e-30)])
    small = tails.exact(tiny, policies.g_forcing(G2), horizon=80, threshold=60.5 * tiny.gaps[1])
    assert (small.log_prob, small.reason) == (-np.inf, "smaller than any float64, if not impossible")
    assert always.probability == pytest.approx(1, abs=1e-14)


BAD = {
    "bandit must be": {"bandit": [0.9, 0.5]},
    r"bandit.arms\[1\] must be": {"bandit": eljax.Bandit([eljax.bernoulli(0.9), eljax.gaussian(0.0, 1.0)])},
    "policy must be a policy": {"policy": "el_f"},
    "horizon must be a whole number": {"horizon": 0},
    "horizon must be such that": {"horizon": 100_000},
    "threshold must be": {"threshold": np.nan},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(message):
    good = {"bandit": THREE, "policy": policies.g_forcing(G2), "horizon": 10, "threshold": 1.0}
    good |= BAD[message]
    with pytest.raises(ValueError, match=message):
        tails.exact(good.pop("bandit"), good.pop("policy"), **good)


def test_cells_are_all_multisets():
    for n, level in enumerate(_levels(3, 5)):
        wanted = sorted(c for c in itertools.product(range(n + 1), repeat=3) if sum(c) == n)
        assert sorted(map(tuple, level.counts)) == wanted
