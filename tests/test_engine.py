"""The engine's promises: reproducible run by run, one compile per family, memory free of T, loud on bad input."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import eljax
from eljax import engine
from eljax.policies import el_f, g_forcing

G2 = eljax.log_squared()
BANDIT = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.exponential(0.4), eljax.beta(0.3, 0.6)])
SIZES = {"horizon": 60, "seed": 2**40 + 17}


TAIL = {"horizon": 30, "threshold": 2.2, "method": "importance", "runs": 2_000}


@pytest.fixture(scope="module")
def full():
    return eljax.simulate(BANDIT, el_f(G2), runs=1_024, **SIZES)


@pytest.mark.parametrize("runs", [1, 7, 300])
def test_a_run_is_the_same_in_every_company(full, runs):
    few = eljax.simulate(BANDIT, el_f(G2), runs=runs, **SIZES)
    for name in ("pulls", "forced_pulls", "regret"):
        np.testing.assert_array_equal(getattr(few, name), getattr(full, name)[:runs])


def test_batch_size_changes_nothing(full):
    for batch_size in (1, 100, 5_000):
        again = eljax.simulate(BANDIT, el_f(G2), runs=1_024, batch_size=batch_size, **SIZES)
        np.testing.assert_array_equal(again.regret, full.regret)


def test_eight_host_devices_give_the_same_bits(full, tmp_path):
    script = f"""
import jax
jax.config.update("jax_enable_x64", {jax.config.jax_enable_x64})
import eljax
assert jax.device_count() == 8
arms = [eljax.gaussian(0.5, 1.0), eljax.exponential(0.4), eljax.beta(0.3, 0.6)]
policy = eljax.policies.el_f(eljax.log_squared())
eljax.simulate(eljax.Bandit(arms), policy, runs=1_024, horizon=60, seed=2**40 + 17).save({str(tmp_path / "r.npz")!r})
coins = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.5)])
eljax.tails.estimate(coins, eljax.policies.ucb(0.5), **{TAIL}).save({str(tmp_path / "e.json")!r})
"""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | {"XLA_FLAGS": flags})
    spread = eljax.Result.load(tmp_path / "r.npz")
    for name in ("pulls", "forced_pulls", "regret"):
        np.testing.assert_array_equal(getattr(spread, name), getattr(full, name))
    coins = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.5)])
    here = eljax.tails.estimate(coins, eljax.policies.ucb(0.5), **TAIL)
    assert here.ess > 10
    assert eljax.tails.TailEstimate.load(tmp_path / "e.json").log_prob == here.log_prob


def test_the_rewards_are_those_the_bandit_regenerates():
    """Two arms, each forced; the means the policy saw are those of `Bandit.rewards`."""
    bandit = eljax.Bandit([eljax.gaussian(0.0, 1.0), eljax.gaussian(0.0, 1.0)])
    runs, horizon = 40, 30
    result = eljax.simulate(bandit, g_forcing(G2), horizon=horizon, runs=runs, seed=9)
    for r in range(runs):
        rewards = [bandit.rewards(seed=9, run=r, arm=i, pulls=horizon) for i in range(2)]
        count = [0, 0]
        for t in range(1, horizon + 1):
            if min(count) < max(np.log(t) ** 2 / 2, 0.5):
                arm = int(np.argmin(count))
            else:
                arm = int(np.argmax([x[:n].mean() for x, n in zip(rewards, count, strict=True)]))
            count[arm] += 1
        assert result.pulls[r].tolist() == count


def test_hyperparameters_seeds_and_means_do_not_compile_again(compilations):
    def go(radius, mean, seed, runs):
        bandit = eljax.Bandit([eljax.gaussian(mean, 1.0), eljax.gaussian(0.0, 2.0 * mean)])
        eljax.simulate(bandit, el_f(eljax.log_schedule(radius + 1), radius), horizon=25, runs=runs, seed=seed)

    go(3.0, 0.5, 0, 16)
    before = len(compilations)
    for case in ((0.0, 0.5, 0, 16), (8, 0.25, 1, 16), (np.float32(2.0), 1.5, 2**63, 99)):
        go(*case)
    assert len(compilations) == before


def test_checkpoints():
    result = eljax.simulate(BANDIT, g_forcing(G2), runs=20, horizon=50, checkpoints=[1, 3, 17, 40])
    every = eljax.simulate(BANDIT, g_forcing(G2), runs=20, horizon=50, checkpoints=np.arange(1, 51))
    np.testing.assert_array_equal(result.checkpoints, [1, 3, 17, 40])
    np.testing.assert_array_equal(result.regret, every.regret[:, [0, 2, 16, 39]])
    np.testing.assert_array_equal(result.pulls, every.pulls)
    assert (result.pulls.sum(axis=1) == 50).all()
    default = eljax.simulate(BANDIT, g_forcing(G2), runs=20, horizon=50)
    assert default.checkpoints[0] == 1
    assert default.checkpoints[-1] == 50
    np.testing.assert_array_equal(default.regret, every.regret[:, default.checkpoints - 1])


def test_regret_never_falls_and_is_exactly_zero_when_all_arms_tie():
    every = eljax.simulate(BANDIT, el_f(G2), runs=20, horizon=50, checkpoints=range(1, 51))
    assert (np.diff(every.regret, axis=1) >= 0).all()
    equal = eljax.Bandit([eljax.gaussian(1e-9, 1.0), eljax.dirac(1e-9)])
    assert (eljax.simulate(equal, el_f(G2), runs=20, horizon=50).regret == 0).all()


def test_dtypes():
    for dtype in ("float32", np.float64):
        result = eljax.simulate(BANDIT, el_f(G2), runs=64, horizon=40, dtype=dtype)
        assert result.provenance["dtype"] == np.dtype(dtype).name
        assert result.regret.dtype == np.float64
        assert result.uncertified_decisions == 0
        assert result.provenance["exact_reruns"] <= 3
        assert result.max_index_error <= (1e-6 if dtype == np.float64 else 1e-4)
    assert eljax.simulate(BANDIT, g_forcing(G2), runs=1, horizon=5).provenance["dtype"] == (
        "float64" if jax.config.jax_enable_x64 else "float32"
    )


def test_float32_and_float64_meet_the_same_rewards():
    pulls = [eljax.simulate(BANDIT, el_f(G2), runs=256, horizon=60, dtype=d).pulls for d in ("float32", "float64")]
    assert (pulls[0] == pulls[1]).all(axis=1).mean() >= 0.97


def test_seeds_use_all_their_64_bits():
    first = [eljax.simulate(BANDIT, g_forcing(G2), runs=50, horizon=40, seed=s).pulls for s in (5, 2**32 + 5)]
    assert (first[0] != first[1]).any()


@pytest.mark.parametrize("policy", [g_forcing(G2), el_f(G2, 3.0)], ids=["g_forcing", "el_f"])
def test_the_program_keeps_no_history_it_does_not_need(policy, monkeypatch):
    """Memory of the compiled tile grows with the horizon by the list of rounds alone, not by runs times rounds."""
    programs = []
    build = engine._compiled
    monkeypatch.setattr(engine, "_compiled", lambda *key: programs.append(build(*key)) or programs[-1])
    for horizon in (100, 2_100):
        eljax.simulate(BANDIT, policy, runs=1, horizon=horizon, checkpoints=[horizon])
    sizes = [
        sum(getattr(p.memory_analysis(), f"{kind}_size_in_bytes") for kind in ("temp", "output")) for p in programs
    ]
    lanes = programs[0].memory_analysis().output_size_in_bytes // 100
    assert sizes[1] - sizes[0] <= 2_000 * 4 * 16  # a few numbers per round
    assert lanes * 2_000 > 2_000 * 4 * 16  # one number per run and round would be more


def test_provenance_tells_where_a_result_came_from(full):
    told = full.provenance
    assert told["seed"] == SIZES["seed"]
    assert told["policy"] == "el_f(schedule=log_squared(), radius=3.0)"
    assert str(el_f(G2, index="exact")) == "el_f(schedule=log_squared(), radius=3.0, index=exact)"
    assert told["bandit"][0] == "gaussian(mean=0.5, sigma=1.0)"
    assert set(told["versions"]) >= {"eljax", "jax", "numpy"}


def test_importing_changes_no_jax_configuration():
    script = "import jax; before = dict(jax.config.values); import eljax; assert dict(jax.config.values) == before"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_policy_of_plain_functions_runs():
    ready = g_forcing(G2)
    plain = ready._replace(update=lambda state, arm, reward: ready.update(state, arm, reward))
    sizes = {"horizon": 20, "runs": 4}
    np.testing.assert_array_equal(
        eljax.simulate(BANDIT, plain, **sizes).pulls, eljax.simulate(BANDIT, ready, **sizes).pulls
    )


def test_indices_that_are_nan_are_reported():
    ready = g_forcing(G2)
    broken = ready._replace(update=lambda state, arm, reward: ready.update(state, arm, reward * np.nan))
    assert eljax.simulate(BANDIT, broken, horizon=20, runs=4).uncertified_decisions > 0


def bandit():
    return eljax.Bandit([eljax.gaussian(0.0, 1.0), eljax.gaussian(1.0, 1.0)])


BAD = [
    ("bandit", {"bandit": [0.5, 0.2]}),
    ("bandit", {"bandit": None}),
    ("policy", {"policy": el_f}),
    ("policy", {"policy": "el_f"}),
    ("horizon", {"horizon": 0}),
    ("horizon", {"horizon": -5}),
    ("horizon", {"horizon": 10.0}),
    ("horizon", {"horizon": "10"}),
    ("horizon", {"horizon": True}),
    ("horizon", {"horizon": None}),
    ("horizon", {"horizon": 2**31}),
    ("runs", {"runs": 0}),
    ("runs", {"runs": -1}),
    ("runs", {"runs": 1.5}),
    ("runs", {"runs": [3]}),
    ("runs", {"runs": 2**32}),
    ("seed", {"seed": -1}),
    ("seed", {"seed": 2**64}),
    ("seed", {"seed": 0.5}),
    ("seed", {"seed": "zero"}),
    ("seed", {"seed": jax.random.key(0)}),
    ("checkpoints", {"checkpoints": []}),
    ("checkpoints", {"checkpoints": [0, 5]}),
    ("checkpoints", {"checkpoints": [5, 5]}),
    ("checkpoints", {"checkpoints": [7, 3]}),
    ("checkpoints", {"checkpoints": [5, 11]}),
    ("checkpoints", {"checkpoints": [1.0, 2.0]}),
    ("checkpoints", {"checkpoints": 5}),
    ("checkpoints", {"checkpoints": [[1, 2]]}),
    ("dtype", {"dtype": "float16"}),
    ("dtype", {"dtype": int}),
    ("dtype", {"dtype": "double precision"}),
    ("dtype", {"dtype": complex}),
    ("checkpoints", {"checkpoints": [[1], [2, 3]]}),
    ("checkpoints", {"checkpoints": np.array([5, 3], np.uint8)}),
    ("batch_size", {"batch_size": 0}),
    ("batch_size", {"batch_size": 2.5}),
    ("batch_size", {"batch_size": -8}),
    ("schedule", {"policy": el_f(lambda t, k: -t)}),
    ("schedule", {"policy": el_f(lambda t, k: 5.0 - t)}),
    ("schedule", {"policy": g_forcing(lambda t, k: np.nan * t)}),
    ("schedule", {"policy": g_forcing(lambda t, k: np.ones(2))}),
    ("schedule", {"policy": eljax.policies.el_ucb(lambda t, k: 0.0 * t)}),
    ("schedule", {"policy": g_forcing(lambda t: t)}),
    ("schedule", {"policy": g_forcing(lambda t, k: "often")}),
    ("radius", {"policy": el_f(G2, np.array([1.0, 2.0]))}),
    ("radius", {"policy": el_f(G2, lambda t, k: -1.0 + 0.0 * t)}),
    ("radius", {"policy": el_f(G2, lambda t, k: t * np.inf)}),
]


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_bad_input_is_named_before_anything_is_compiled(name, bad):
    arguments = {"bandit": bandit(), "policy": g_forcing(G2), "horizon": 10, "runs": 4} | bad
    before = engine._compiled.cache_info()
    with pytest.raises(ValueError, match=rf"^{name}.* must be .*, got "):
        eljax.simulate(arguments.pop("bandit"), arguments.pop("policy"), **arguments)
    assert engine._compiled.cache_info() == before
