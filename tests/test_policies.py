"""The contract every policy keeps, one table for all of them (tests/policy_table.py)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from policy_table import TABLE, replay

from eljax.types import Decision, Policy, describe

K, T = 3, 40
SEEDS = range(4)


@pytest.fixture(params=TABLE, scope="module")
def name(request):
    return request.param


@pytest.fixture(scope="module")
def entry(name):
    return TABLE[name]


@pytest.fixture(scope="module")
def rewards(entry):
    return draw(entry, len(SEEDS), 7)


def draw(entry, count, seed):
    means = np.array([0.2, 0.5, 0.0])[:, None]
    x = np.random.default_rng(seed).normal(means, 1.0, (count, K, T))
    return jnp.asarray(1 / (1 + np.exp(-x)) if entry.unit else x, jnp.result_type(float))


@pytest.fixture(scope="module")
def play():
    return jax.jit(replay, static_argnames=())


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


def test_jit_equals_eager_and_vmap_equals_a_loop(entry, play, rewards):
    policy = entry.make()
    batched = jax.jit(jax.vmap(replay, (None, 0)))(policy, rewards)[0]
    looped = jnp.stack([play(policy, x)[0] for x in rewards])
    np.testing.assert_array_equal(batched, looped)
    state, pulls = policy.init(K, T, rewards.dtype), [0] * K
    for t in range(1, K + 3):  # the horizon of the state is T as above: buffers have the same shape
        key = jax.random.fold_in(jax.random.key(0), t)
        decision, state = policy.select(key, jnp.asarray(t, jnp.int32), state)
        arm = int(decision.arm)
        assert arm == looped[0, t - 1]
        state = policy.update(state, decision.arm, rewards[0, arm, pulls[arm]])
        pulls[arm] += 1


def test_other_hyperparameters_do_not_compile_again(entry):
    traces = []

    @jax.jit
    def first(policy, state):
        traces.append(1)
        return policy.select(jax.random.key(0), jnp.asarray(1, jnp.int32), state)[0].arm

    for policy in (entry.make(), entry.varied()):
        first(policy, policy.init(K, T, jnp.result_type(float)))
    assert len(traces) == 1


def test_every_arm_is_pulled_first_in_order(entry, play, rewards):
    arms, forced = play(entry.make(), rewards[0])
    first = np.tile(np.arange(K), entry.opening)
    np.testing.assert_array_equal(arms[: len(first)], first)
    assert (np.asarray(forced)[: len(first)] == entry.forces).all()
    assert len(arms) == T
    assert ((arms >= 0) & (arms < K)).all()


def test_permuting_the_arms_permutes_the_choices(entry, play, rewards):
    """Up to ties: after the first pull of each arm the rewards differ, so only the opening order is by number."""
    order = np.array([2, 0, 1])
    policy = entry.make()
    if entry.random:  # in law: 3 differences of mean counts at 4.5 standard errors, 2e-5 per policy
        many = jax.jit(jax.vmap(replay, (None, None, 0)))
        pulls, permuted = (
            (np.asarray(many(policy, rewards[0][rows], seeds)[0])[:, :, None] == np.argsort(rows)).sum(1)
            for rows, seeds in ((np.arange(K), jnp.arange(400)), (order, jnp.arange(400, 800)))
        )
        error = np.sqrt((pulls.var(0) + permuted.var(0)) / 400)
        assert (np.abs(pulls.mean(0) - permuted.mean(0)) <= 4.5 * error + 0.5).all()
        return
    if entry.in_turn:  # in law over the rewards, up to the one round that separates the first arm from the last
        many = jax.jit(jax.vmap(replay, (None, 0)))
        pulls, permuted = (
            (np.asarray(many(policy, draw(entry, 400, seed)[:, rows])[0])[:, :, None] == np.argsort(rows)).sum(1)
            for rows, seed in ((np.arange(K), 1), (order, 2))
        )
        error = np.sqrt((pulls.var(0) + permuted.var(0)) / 400)
        assert (np.abs(pulls.mean(0) - permuted.mean(0)) <= 4.5 * error + 1).all()
        return
    for x in rewards:
        pulls = np.bincount(play(policy, x)[0], minlength=K)
        permuted = np.bincount(play(policy, x[order])[0], minlength=K)
        # Forced rounds go to the least-sampled arm of lowest number, so counts may differ by one in flight.
        assert np.abs(permuted - pulls[order]).max() <= 1


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
    arms, forced = play(entry.make(), jnp.full((K, T), value, jnp.result_type(float)))
    if entry.equal == "first":
        assert (np.asarray(arms)[~np.asarray(forced)] == 0).all()
    elif entry.equal == "turns":
        np.testing.assert_array_equal(arms, np.arange(T) % K)
