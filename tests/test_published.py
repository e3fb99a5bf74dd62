"""The comparisons with published numbers and across scales, at toy size; their arithmetic by hand."""

import jax
import numpy as np
import pandas as pd
import pytest

import eljax
from eljax import random
from eljax.results import Result
from eljax.types import Policy
from experiments import common, published, random_means, scale, table1, worst_case

PNG = b"\x89PNG"


def only(monkeypatch, module, *names):
    monkeypatch.setattr(module, "POLICIES", {name: module.POLICIES[name] for name in names})


def constant(pulls, gaps):
    """A result with these pulls [C, K], the same in two runs."""
    pulls = np.asarray([pulls, pulls])
    return Result.from_pulls(pulls, pulls[0].sum(1), pulls[:, -1] * 0, gaps)


# ----------------------------------------------------------------------------------------------------------- published


def test_every_published_row_can_be_simulated():
    for table in published.TABLES.values():
        for row in table.rows:
            policy = row.make()
            assert isinstance(policy, Policy)
            bandit = eljax.Bandit(row.arms)
            policy.validate(bandit.num_arms, table.horizon)
            assert bandit.num_arms >= 2


def test_published_writes_table_and_figure(tmp_path, monkeypatch, capsys):
    for name in ("authors", "bayesian"):
        table = published.TABLES[name]
        monkeypatch.setitem(published.TABLES, name, table._replace(rows=table.rows[1:2], horizon=50, runs=8))
    arguments = ["--tables", "authors", "bayesian", "--out", str(tmp_path)]
    assert published.main(arguments) == 0
    first = pd.read_csv(tmp_path / "table.csv")
    assert list(first.policy) == ["FE linear", "IMED"]
    assert list(first.runs) == [8, 8]
    assert np.isfinite(first.difference_in_se).all()
    assert (tmp_path / "published.png").read_bytes().startswith(PNG)
    assert "differ by more than 3.5 standard errors" in capsys.readouterr().out
    monkeypatch.setattr(eljax, "simulate", None)
    assert published.main(arguments) == 0
    assert capsys.readouterr().out.count("not recomputed") == 2
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "table.csv"), first)


def test_a_difference_in_standard_errors_of_both():
    """Ours 1 ± 1/√2 with two runs of 0 and 2 (sd √2, over √2 runs: 1); theirs 3 ± .6, printed to 1."""
    row = published.Row("any", "any", (), None, 3.0, 0.6)
    table = published.Table(100, 2, 1.0, [row])
    found = published.compare("any", table, row, 100, np.array([0.0, 2.0]))
    assert found["mean_se"] == pytest.approx(1.0)
    assert found["difference_in_se"] == pytest.approx((1 - 3) / np.sqrt(1 + 0.36 + 1 / 12))
    assert np.isnan(published.compare("any", table, row, 99, np.array([0.0, 2.0]))["difference_in_se"])
    unknown = published.compare("any", table, row._replace(error=np.nan), 100, np.array([0.0, 2.0]))
    assert unknown["difference_in_se"] == pytest.approx((1 - 3) / np.sqrt(1 + 1 + 1 / 12))


def test_published_standard_deviations_are_over_the_root_of_their_runs():
    (row,) = (r for r in published.TABLES["baudry"].rows if (r.instance, r.policy) == ("Bernoulli .5, .6", "TS"))
    assert row.error == pytest.approx(0.41295, rel=1e-4)  # 29.2 / √5,000


def test_a_random_instance_is_an_ordinary_one_with_those_means():
    """A policy that meets N(0, 1) and adds the means pulls as on the arms N(mean, 1), up to rounding at near ties."""
    policy, dtype = eljax.policies.ucb(1.0), "float64"
    sizes = {"horizon": 60, "runs": 3, "seed": 7, "dtype": dtype}
    result = eljax.simulate(random_means.standard_arms(4), random_means.on_random_means(policy), **sizes)
    with jax.enable_x64(True):
        for run, final in enumerate(random_means.regret(result)):
            key = jax.random.fold_in(jax.random.fold_in(random.seed_key(7), np.uint32(run)), random.POLICY_STREAM)
            key = jax.random.fold_in(jax.random.fold_in(key, 1), np.uint32(2**31))
            bandit = eljax.Bandit([eljax.gaussian(float(m), 1.0) for m in jax.random.normal(key, (4,), dtype)])
            again = eljax.simulate(bandit, policy, **sizes)
            np.testing.assert_array_equal(result.pulls[run], again.pulls[run])
            assert final == pytest.approx(again.regret[run, -1], rel=1e-12)
    assert str(random_means.on_random_means(policy)) == "random_means(policy=ucb(sigma=1.0))"


def test_random_means_are_standard_normal_numbers():
    """After one pull, of arm 0, regret is max − first: its mean is 1/√π for two arms (4 standard errors)."""
    policy = random_means.on_random_means(eljax.policies.ucb(1.0))
    final = random_means.regret(eljax.simulate(random_means.standard_arms(2), policy, horizon=1, runs=4_000))
    assert abs(final.mean() - 1 / np.sqrt(np.pi)) < 4 * final.std() / np.sqrt(4_000)


# --------------------------------------------------------------------------------------------------------------- scale


def test_scale_shows_who_has_a_unit(tmp_path, monkeypatch):
    only(monkeypatch, scale, "R-UCB g1", "EL-F g2, radius 3")
    sizes = ["--runs", "16", "--horizon", "200", "--instances", "beta_small_gap"]
    assert scale.main([*sizes, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "table.csv").set_index("policy")
    free, bound = table.loc["EL-F g2, radius 3"], table.loc["R-UCB g1"]
    assert free["same_pulls"] >= (1.0 if jax.config.jax_enable_x64 else 0.9)
    assert free["mean [0, 1]"] == pytest.approx(free["mean [0, 50]"], rel=1e-9 if jax.config.jax_enable_x64 else 0.2)
    assert bound["same_pulls"] < 1
    assert (tmp_path / "scale.png").read_bytes().startswith(PNG)


def test_same_pulls_looks_at_every_checkpoint():
    one = constant([[1, 1], [2, 2]], [0.0, 0.1])
    assert scale.same_pulls(one, constant([[1, 1], [2, 2]], [0.0, 5.0])) == 1
    assert scale.same_pulls(one, constant([[0, 2], [2, 2]], [0.0, 5.0])) == 0


# ---------------------------------------------------------------------------------------------------------- worst_case


def test_worst_case_in_units_of_the_scale(tmp_path):
    """UCB told the scale does not depend on it; R-UCB, which is not told, does."""
    sizes = ["--runs", "8", "--horizon", "100", "--families", "rare", "rare x 50"]
    names = ["--policies", "R-UCB g2", "UCB, told the scale"]
    assert worst_case.main([*sizes, *names, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "table.csv").set_index(["family", "policy"]).largest_mean
    told = [table[family, "UCB, told the scale"] for family in ("rare", "rare x 50")]
    assert told[0] == pytest.approx(told[1], rel=1e-9 if jax.config.jax_enable_x64 else 0.1)
    assert table["rare", "R-UCB g2"] != pytest.approx(table["rare x 50", "R-UCB g2"], rel=0.1)
    assert (tmp_path / "worst_case.png").read_bytes().startswith(PNG)


def test_families_have_the_gaps_they_are_named_by():
    for make, scaled, _, gaps in worst_case.FAMILIES.values():
        for gap in gaps:
            assert make(gap, scaled).gaps.tolist() == pytest.approx([0.0, gap * scaled], rel=1e-12)


def test_the_envelope_takes_the_largest_at_each_horizon():
    """Gap 1 pulled 1 then 2 times; gap 1/4 (rewards times 50) 1 then 12 times: 1 wins first, 3 in units at the end."""
    results = {1.0: constant([[3, 1], [18, 2]], [0.0, 50.0]), 0.25: constant([[3, 1], [8, 12]], [0.0, 12.5])}
    t, largest, error, gap = worst_case.envelope(results)
    assert t.tolist() == [4, 20]
    assert largest.tolist() == [1.0, 3.0]
    assert error.tolist() == [0.0, 0.0]
    assert gap.tolist() == [1.0, 0.25]
    assert worst_case.exponent(np.array([1.0, 10, 100, 1000]), np.array([99.0, 10, 100, 1000])) == pytest.approx(1.0)


# -------------------------------------------------------------------------------------------------------------- table1


def test_table1_measures_what_is_anytime_and_scale_free(tmp_path, monkeypatch):
    monkeypatch.setattr(table1, "STEP", 30)
    only(monkeypatch, table1, "EL-F g2, radius 0", "R-UCB g2", "FE sqrt")
    arguments = ["--runs", "32", "--horizon", "200", "--policies", *table1.POLICIES]
    assert table1.main([*arguments, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "table.csv").set_index("policy")
    assert table.anytime.tolist()[:2] == [1, 1]
    assert table.anytime["FE sqrt"] < 1
    assert table.scale_free["R-UCB g2"] < 1
    assert table.scale_free.drop("R-UCB g2").min() >= (1.0 if jax.config.jax_enable_x64 else 0.8)
    assert (tmp_path / "table1.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("name", list(table1.GROWTH))
def test_growth_is_recognised(name):
    t = np.array([300, 700, 1_500, 3_000, 6_000, 10_000])
    found, error = table1.best_growth(t, 2 + 3 * table1.GROWTH[name](t.astype(float)))
    assert (found, error) == (name, pytest.approx(0, abs=1e-9))


def test_every_policy_of_the_comparisons_can_be_made():
    for make, knows in table1.POLICIES.values():
        assert isinstance(make(), Policy)
        assert knows
    for make in worst_case.POLICIES.values():
        assert isinstance(make(1.0), Policy)
    assert set(worst_case.SHORT) <= set(worst_case.POLICIES)
    assert all(set(size) == set(worst_case.SIZE) for size in worst_case.SHORT.values())
    assert common.SCHEDULES.keys() == {"g1", "g2"}
