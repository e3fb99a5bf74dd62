"""The contract every policy keeps, one table for all of them (tests/policy_table.py).

Compilation is nearly all of the time: two programs for each policy, one run alone and many by vmap, serve all tests.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from policy_table import TABLE, replay, rounds

from eljax.types import Decision, Policy, describe

K, T = 3, 40
RUNS = 4
MANY = 400  # where a check is in law


@pytest.fixture(params=TABLE, scope="module")
def name(request):
    return request.param


@pytest.fixture(scope="module")
def entry(name):
    return TABLE[name]


@pytest.fixture(scope="module")
def rewards(entry):
    return draw(entry, RUNS, 7)


def draw(entry, count, seed):
    means = np.array([0.2, 0.5, 0.0])[:, None]
    x = np.random.default_rng(seed).normal(means, 1.0, (count, K, T))
    return jnp.asarray(1 / (1 + np.exp(-x)) if entry.unit else x, jnp.result_type(float))


@pytest.fixture(scope="module")
def play():
    return jax.jit(rounds)


@pytest.fixture(scope="module")
def pulled(entry):
    """The arms pulled [lanes, T], of rewards [n, K, T] and seeds [n]; as many lanes as the checks in law need."""
    lanes = MANY if entry.random or entry.in_turn else RUNS
    run = jax.jit(jax.vmap(replay, (None, 0, 0)))
    return lambda policy, rewards, seeds: run(policy, np.resize(rewards, (lanes, K, T)), np.resize(seeds, lanes))[0]


def test_it_is_a_pytree_of_numbers(entry):
    policy = entry.make()
    leaves, treedef = jax.tree.flatten(policy)
    assert all(np.issubdtype(np.asarray(leaf).dtype, np.number) for leaf in leaves)
    assert isinstance(jax.tree.unflatten(treedef, leaves), Policy)
    assert jax.tree.structure(policy) == jax.tree.structure(entry.varied())


def test_its_name_tells_its_hyperparameters(name, entry):
    shown, other = describe(entry.make()), describe(entry.varied())
    assert shown.startswith(f"{name.split()[0]}(")
    assert shown == str(entry.make())
    assert (shown != other) == bool(jax.tree.leaves(entry.make()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_states_keep_their_dtypes_and_shapes(entry, dtype):
    with jax.enable_x64(dtype == "float64"):
        policy, dtype = entry.make(), jnp.dtype(dtype)

        def step():
            state = policy.init(K, T, dtype)
            decision, after = policy.select(jax.random.key(0), jnp.asarray(1, jnp.int32), state)
            return state, decision, policy.update(after, decision.arm, jnp.asarray(0.3, dtype))

        state, decision, after = jax.eval_shape(step)
        assert jax.tree.map(lambda x: (x.shape, x.dtype), state) == jax.tree.map(lambda x: (x.shape, x.dtype), after)
        floats = [x for x in jax.tree.leaves((state, decision)) if jnp.issubdtype(x.dtype, jnp.floating)]
        assert {x.dtype for x in floats} == {dtype}
        assert isinstance(decision, Decision)
        assert (decision.arm.shape, decision.arm.dtype) == ((), jnp.int32)
        assert (decision.index.shape, decision.index_error.shape) == ((K,), (K,))
        assert decision.forced.dtype == bool
        assert all(x.ndim == 0 or x.shape[0] == K for x in jax.tree.leaves(state)), "per-arm leaves lead with K"


def test_jit_equals_eager_and_vmap_equals_a_loop(entry, play, pulled, rewards):
    policy = entry.make()
    alone = [play(policy, x) for x in rewards]
    np.testing.assert_array_equal(pulled(policy, rewards, 0)[:RUNS], jnp.stack([arms for arms, *_ in alone]))
    arms, _, states = alone[0]
    at = lambda t: jax.tree.map(lambda x: x[t - 1], states)  # noqa: E731
    jax.tree.map(np.testing.assert_array_equal, policy.init(K, T, rewards.dtype), at(1))
    state = at(T // 2)
    for t in (T // 2, T // 2 + 1):
        key = jax.random.fold_in(jax.random.key(0), t)
        decision, state = policy.select(key, jnp.asarray(t, jnp.int32), state)
        assert decision.arm == arms[t - 1]
        reward = rewards[0, decision.arm, (arms[: t - 1] == decision.arm).sum()]
        state = policy.update(state, decision.arm, reward)


def test_other_hyperparameters_do_not_compile_again(entry, play, rewards, compilations):
    policies = entry.make(), entry.varied()
    play(policies[0], rewards[0])
    before = len(compilations)
    play(policies[1], rewards[0])
    assert len(compilations) == before


def test_every_arm_is_pulled_first_in_order(entry, play, rewards):
    arms, forced, _ = play(entry.make(), rewards[0])
    first = np.tile(np.arange(K), entry.opening)
    np.testing.assert_array_equal(arms[: len(first)], first)
    assert (np.asarray(forced)[: len(first)] == entry.forces).all()
    assert len(arms) == T
    assert ((arms >= 0) & (arms < K)).all()


def test_permuting_the_arms_permutes_the_choices(entry, play, pulled, rewards):
    """Up to ties: after the first pull of each arm the rewards differ, so only the opening order is by number."""
    order = np.array([2, 0, 1])
    policy = entry.make()
    if entry.random or entry.in_turn:
        # In law, over the seeds or over the rewards: 3 differences of mean counts at 4.5 standard errors, 2e-5 per
        # policy. In turn: up to the one round that separates the first arm from the last.
        first, second = (rewards[:1], rewards[:1]) if entry.random else (draw(entry, MANY, 1), draw(entry, MANY, 2))
        seeds = np.arange(2 * MANY) if entry.random else np.zeros(2 * MANY, int)
        pulls = counts(pulled(policy, first, seeds[:MANY]), np.arange(K))
        permuted = counts(pulled(policy, second[:, order], seeds[MANY:]), order)
        error = np.sqrt((pulls.var(0) + permuted.var(0)) / MANY)
        assert (np.abs(pulls.mean(0) - permuted.mean(0)) <= 4.5 * error + (1 if entry.in_turn else 0.5)).all()
        return
    for x in rewards:
        pulls = np.bincount(play(policy, x)[0], minlength=K)
        permuted = np.bincount(play(policy, x[order])[0], minlength=K)
        # Forced rounds go to the least-sampled arm of lowest number, so counts may differ by one in flight.
        assert np.abs(permuted - pulls[order]).max() <= 1


def counts(arms, order):
    """Pulls [lanes, K] of each arm by the number it had before arms were put in this order."""
    return (np.asarray(arms)[:, :, None] == np.argsort(order)).sum(1)


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_scaling_the_rewards_changes_nothing(entry, play, rewards, scale):
    policy = entry.make()
    same = [(play(policy, x)[0] == play(policy, x * scale)[0]).all() for x in rewards]
    assert all(same) == entry.scale_free


def test_shifting_the_rewards_changes_nothing(entry, play, rewards):
    policy = entry.make()
    shift = 1024.0 if rewards.dtype == jnp.float64 else 2.0
    same = [(play(policy, x)[0] == play(policy, x + shift)[0]).all() for x in rewards]
    assert all(same) == entry.shift_free


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
def test_equal_constant_arms_are_shared_by_the_tie_rule(entry, play, value):
    """All indices tie, so every unforced round goes to arm 0; with a width that knows the scale, arms take turns."""
    if entry.unit and not 0 <= value <= 1:
        value = 0.5
    arms, forced, _ = play(entry.make(), jnp.full((K, T), value, jnp.result_type(float)))
    if entry.equal == "first":
        assert (np.asarray(arms)[~np.asarray(forced)] == 0).all()
    elif entry.equal == "turns":
        np.testing.assert_array_equal(arms, np.arange(T) % K)
