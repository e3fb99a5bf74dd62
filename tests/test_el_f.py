"""What the paper proves of EL-F, on simulated runs; exact values from a dynamic programme."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from policy_table import replay

import eljax
from eljax.policies import el_f, el_ucb, g_forcing

G2 = eljax.log_squared()
PLAY = jax.jit(jax.vmap(replay, (None, 0)))


@pytest.mark.parametrize("schedule", [eljax.log_loglog(), eljax.log_squared()])
def test_section_3_the_naive_index_is_trapped_and_el_f_escapes(schedule):
    """P₁ = (1 − ε)δ₀ + εδ_{2/ε}, P₂ = δ₁: a first draw of 0 gives arm 1 the index 0 for every radius."""
    epsilon, horizon, runs = 0.2, 300, 64
    bandit = eljax.Bandit([eljax.two_point([0.0, 2 / epsilon], [1 - epsilon, epsilon]), eljax.dirac(1.0)])
    first = np.array([bandit.rewards(seed=3, run=r, arm=0, pulls=1)[0] for r in range(runs)])
    unlucky = first == 0
    assert 40 < unlucky.sum() < 60
    naive = eljax.simulate(bandit, el_ucb(schedule), horizon=horizon, runs=runs, seed=3)
    assert (naive.pulls[unlucky, 1] == horizon - 1).all()
    assert (naive.pulls[~unlucky, 1] < horizon - 1).all()
    repaired = eljax.simulate(bandit, el_f(schedule, 3.0), horizon=horizon, runs=runs, seed=3)
    assert (repaired.pulls[:, 1] < horizon - 1).all()
    g = float(schedules_at(schedule, horizon))
    assert (repaired.pulls.min(axis=1) >= np.floor(g)).all()


def schedules_at(schedule, t):
    return schedule(jnp.asarray(float(t)), 2)


@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_lemma_4_2_coupling(radius):
    """Arm 2 deterministic and worse, same rewards: N₁ with radius C is never below N₁ with radius 0."""
    bandit, horizon, runs = eljax.Bandit([eljax.gaussian(0.3, 1.0), eljax.dirac(0.0)]), 300, 1_000
    sizes = {"horizon": horizon, "runs": runs, "seed": 11, "checkpoints": range(1, horizon + 1)}
    plain = eljax.simulate(bandit, el_f(G2, 0.0), **sizes)
    bonus = eljax.simulate(bandit, el_f(G2, radius), **sizes)
    # Regret is gap · N₂(t + 1), and N₁ = t − N₂: N₁ no smaller is regret no larger, at every round of every run.
    assert (bonus.regret <= plain.regret).all()
    assert (bonus.regret < plain.regret).any()


BERNOULLI = [  # p, radius, T, P[N₂ > T/2], P[N₂ > .8 T], E[R]: exact dynamic programme
    ((0.9, 0.5), 0.0, 40, 8.256216435410e-3, 2.815562947087e-3, 2.952659379404),
    ((0.9, 0.5), 0.0, 80, 2.096414571763e-3, 6.583109252095e-4, 4.122486251577),
    ((0.9, 0.5), 3.0, 40, 2.455117483527e-3, 1.090774433887e-4, 2.980980803005),
    ((0.95, 0.3), 3.0, 80, None, None, 6.500987311988),
]


@pytest.mark.parametrize(("p", "radius"), dict.fromkeys(row[:2] for row in BERNOULLI))
def test_exact_bernoulli_values(p, radius):
    """Ten checks at 3 standard errors: a correct code fails one with probability below 3% (the key is fixed)."""
    runs, bandit = 40_000, eljax.Bandit([eljax.bernoulli(q) for q in p])
    result = eljax.simulate(bandit, el_f(G2, radius), horizon=80, runs=runs, seed=2026, checkpoints=[40, 80])
    for *case, horizon, half, most, expected in BERNOULLI:
        if case != [p, radius]:
            continue
        column = [40, 80].index(horizon)
        assert abs(result.mean()[column] - expected) <= 3 * result.standard_error()[column]
        pulls = np.rint(result.regret[:, column] / bandit.gaps[1])
        for share, probability in ((0.5, half), (0.8, most)):
            if probability is not None:
                seen = (pulls > share * horizon).mean()
                assert abs(seen - probability) <= 3 * np.sqrt(probability * (1 - probability) / runs)


def test_radius_zero_is_g_forcing_run_by_run():
    for arms, sizes in (
        ([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0), eljax.exponential(0.4)], {"horizon": 200, "runs": 128}),
        ([eljax.bernoulli(0.5)] * 2, {"horizon": 80, "runs": 512, "checkpoints": [40, 80]}),  # compiled above
    ):
        solved, summed = (
            eljax.simulate(eljax.Bandit(arms), p, seed=5, **sizes) for p in (el_f(G2, 0.0), g_forcing(G2))
        )
        np.testing.assert_array_equal(solved.pulls, summed.pulls)
        np.testing.assert_array_equal(solved.regret, summed.regret)


def test_dirac_arms_by_hand():
    """Without noise the worse arm gets exactly its forced pulls, ⌈g(T)⌉: 43 at T = 10,000, 24 at 1,000 (g2, K = 2)."""
    bandit = eljax.Bandit([eljax.dirac(1.0), eljax.dirac(0.0)])
    result = eljax.simulate(bandit, g_forcing(G2), horizon=10_000, runs=1, checkpoints=[1, 2, 1_000, 10_000])
    np.testing.assert_array_equal(result.regret[0], [0, 1, 24, 43])
    small = eljax.simulate(bandit, el_f(G2, 3.0), horizon=1_000, runs=1)
    np.testing.assert_array_equal(small.pulls[0], [976, 24])
    # Arm 1 is pulled first by the tie rule; its own opening pull is forced, all others by index.
    assert small.forced_pulls[0, 1] == 24


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_scale_free(scale, shift):
    """X → aX + b leaves the arm sequence unchanged (float64; a not a power of two, so every bit of rounding moves)."""
    rng = np.random.default_rng(1)
    rewards = rng.exponential(1.0, (20, 2, 150)) * np.array([1.0, 1.3])[:, None]
    dtype = jnp.result_type(float)
    if dtype == jnp.float32:
        pytest.skip("a statement about float64")
    before = PLAY(el_f(G2, 3.0), jnp.asarray(rewards, dtype))
    after = PLAY(el_f(G2, 3.0), jnp.asarray(rewards * scale + shift * scale * 1e6, dtype))
    np.testing.assert_array_equal(before[0], after[0])


@pytest.mark.parametrize("radius", [-1.0, -1e-300, np.nan, np.inf, "3", None, True, [1.0, -2.0], np.array([1.0, -2.0])])
def test_bad_radii_are_named(radius):
    with pytest.raises(ValueError, match="radius must be"):
        el_f(G2, radius)


@pytest.mark.parametrize("index", ["fast", None, 3, np.array(["exact"])])
@pytest.mark.parametrize("make", [el_f, el_ucb])
def test_bad_indices_are_named(make, index):
    with pytest.raises(ValueError, match="index must be"):
        make(G2, index=index)


@pytest.mark.parametrize("schedule", [None, 3.0, "log"])
@pytest.mark.parametrize("make", [el_f, g_forcing, el_ucb])
def test_bad_schedules_are_named(make, schedule):
    with pytest.raises(ValueError, match="schedule must be"):
        make(schedule)
