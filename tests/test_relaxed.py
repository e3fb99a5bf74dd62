"""The relaxed simulation: gradients against finite differences, and its limit against the hard simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eljax
from eljax import relaxed

X64 = jax.config.jax_enable_x64
needs_x64 = pytest.mark.skipif(not X64, reason="finite differences need float64")
GAUSSIAN = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
MIXED = eljax.Bandit([eljax.gaussian(0.8, 0.5), eljax.pareto(3.0, 0.4)])
G2 = eljax.log_squared()


def regret(values, index, bandit=MIXED):
    schedule = eljax.log_power(values["scale"], values["power"])
    options = {"temperature": values["temperature"], "parameters": values["arms"], "index": index}
    return relaxed.expected_regret(bandit, schedule, values["radius"], horizon=40, runs=6, seed=3, **options)


@needs_x64
@pytest.mark.parametrize("index", relaxed.INDICES)
def test_gradients_are_finite_differences(index):
    """Of every parameter, at a relative step of 1e-5: the kinks, at whole pulls, are further away with this seed."""
    values = {"scale": 1.0, "power": 2.0, "radius": 3.0, "temperature": 0.1, "arms": relaxed.parameters(MIXED)}
    function = jax.jit(jax.value_and_grad(lambda v: regret(v, index)))
    leaves, tree = jax.tree.flatten(values)
    assert len(leaves) == 8
    at = lambda step: float(function(jax.tree.unflatten(tree, list(leaves + step)))[0])  # noqa: E731
    steps = 1e-5 * np.diag(leaves)
    quotients = [(at(step) - at(-step)) / (2 * step.sum()) for step in steps]
    np.testing.assert_allclose(jax.tree.leaves(function(values)[1]), quotients, rtol=1e-5)


@needs_x64
@pytest.mark.parametrize(("radius", "policy"), [(0.0, eljax.policies.g_forcing(G2)), (3.0, eljax.policies.el_f(G2))])
def test_pulls_go_to_those_of_the_hard_simulation(radius, policy):
    """Run by run, on the same rewards."""
    hard = eljax.simulate(GAUSSIAN, policy, horizon=60, runs=16, seed=5).pulls
    options = {"horizon": 60, "runs": 16, "seed": 5, "index": "exact"}
    soft = [relaxed.pulls(GAUSSIAN, G2, radius, temperature=t, **options) for t in (1e-1, 1e-2, 1e-3, 1e-5)]
    np.testing.assert_allclose([n.sum(1) for n in soft], 60, rtol=1e-12)
    away = [np.abs(n - hard).sum(1).mean() for n in soft]
    assert np.all(np.diff(away) < 0)
    assert away[1] < away[0] / 2
    np.testing.assert_allclose(soft[-1], hard, atol=1e-3)


@needs_x64
def test_the_bracket_holds_the_index_in_its_middle():
    rewards = np.random.default_rng(0).exponential(size=(5, 200))
    first, zero = rewards[:, 0], np.zeros(5)
    state = relaxed._State(zero, zero.astype(np.int32) + 1, first, zero, first, first)
    push = lambda state, x: (relaxed._with(state, x), None)  # noqa: E731
    state, _ = jax.lax.scan(push, state, rewards[:, 1:].T)
    np.testing.assert_allclose(state.mean, rewards.mean(1), rtol=1e-12)
    np.testing.assert_allclose(state.square / 200, rewards.var(1), rtol=1e-12)
    index = eljax.el_index(rewards, 3.0)
    middle = relaxed._bracket(state, jnp.asarray(3.0))
    np.testing.assert_allclose(middle - state.mean, index - state.mean, rtol=0.15)
    np.testing.assert_allclose(relaxed._bracket(state, jnp.asarray(0.0)), state.mean, rtol=1e-14)


@needs_x64
def test_scale_free():
    both = [eljax.Bandit([eljax.gaussian(a * m + b, a) for m in (0.5, 0.0)]) for a, b in ((1.0, 0.0), (1e-6, 3.0))]
    options = {"temperature": 0.1, "horizon": 60, "runs": 16, "index": "exact"}
    one, other = (relaxed.pulls(bandit, G2, **options) for bandit in both)
    np.testing.assert_allclose(one, other, rtol=1e-7)


def test_memory_of_long_runs_is_that_of_square_root_many_rounds():
    """Keeping the six numbers of an arm at every round would take eight times as much, and their residuals more."""
    loss = lambda c: relaxed.expected_regret(GAUSSIAN, G2, c, temperature=0.1, horizon=10_000, runs=4)  # noqa: E731
    used = jax.jit(jax.grad(loss)).lower(3.0).compile().memory_analysis().temp_size_in_bytes
    assert used < 10_000 * 4 * 2 * 6 * np.dtype(float).itemsize / 8


def test_derivatives_stay_finite_at_radius_zero_and_for_constant_arms():
    bandit = eljax.Bandit([eljax.dirac(1.0), eljax.gaussian(0.5, 1.0)])
    loss = lambda c, t: relaxed.expected_regret(bandit, G2, c, temperature=t, horizon=20, runs=2)  # noqa: E731
    assert np.isfinite(jax.jit(jax.grad(loss, (0, 1)))(0.0, 0.1)).all()


GOOD = {"bandit": GAUSSIAN, "schedule": G2, "radius": 3.0, "temperature": 0.1, "horizon": 20, "runs": 2}
BAD = {
    "bandit must be": {"bandit": [0.5, 0.0]},
    "schedule must be": {"schedule": 3.0},
    r"schedule\(t=": {"schedule": lambda t, num_arms: -t},
    "radius must be a finite number >= 0": {"radius": -1.0},
    "radius must be a number": {"radius": eljax.loglog_radius(3.0)},
    "radius must be one number": {"radius": np.ones(2)},
    "temperature must be": {"temperature": 0.0},
    "horizon must be": {"horizon": 2},
    r"horizon must be a whole number in \[3, 1000\]": {"horizon": 1_001, "index": "exact"},
    "runs must be": {"runs": 0},
    "seed must be": {"seed": -1},
    "index must be": {"index": "streaming"},
    "parameters must be": {"parameters": [{}]},
    r"parameters\[1\] of gaussian\(mean=0.0, sigma=1.0\) must be one of mean, sigma": {"parameters": [{}, {"p": 1.0}]},
    "must be empty": {"bandit": eljax.Bandit([eljax.bernoulli(0.5)] * 2), "parameters": [{"p": 0.5}, {}]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(message):
    with pytest.raises(ValueError, match=message):
        relaxed.expected_regret(**{**GOOD, **BAD[message]})
