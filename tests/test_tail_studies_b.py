"""Tails of KL-UCB, of non-Gaussian arms and of several policies at toy size, against simulations written in NumPy."""

import math

import numpy as np
import pandas as pd
import pytest

from experiments import fan_glynn, tail_bound, tail_comparison

RUNS, HORIZON = 60_000, 122


def pulls_of_worse(rewards, choose, horizon, runs=RUNS, seed=1):
    """[R]: how often arm 2 is pulled in T rounds; `choose`(t, counts [R, 2], means [R, 2]) says whether it is."""
    rng, every = np.random.default_rng(seed), np.arange(runs)
    counts, sums = np.zeros((runs, 2), int), np.zeros((runs, 2))
    for t in range(1, horizon + 1):
        means = sums / np.maximum(counts, 1)
        arm = np.full(runs, t - 1) if t <= 2 else choose(t, counts, means).astype(int)
        sums[every, arm] += np.where(arm == 0, rewards[0](rng, runs), rewards[1](rng, runs))
        counts[every, arm] += 1
    return counts[:, 1]


def gaussian(mean):
    return lambda rng, size: rng.normal(mean, 1.0, size)


def ucb(t, counts, means):
    index = means + np.sqrt(2 * math.log(t) / counts)
    return index[:, 1] > index[:, 0]


def g_forcing(t, counts, means):
    forced = counts.min(1) < math.log(t) ** 2 / 2
    return np.where(forced, counts[:, 1] < counts[:, 0], means[:, 1] > means[:, 0])


def agree(table, pulls, least_hits=50):
    """Whether −log P of a table, its columns x and se, is that of the simulated pulls within four standard errors.

    False alarms: 6e-5 for each estimate. Returns how many had hits enough to compare.
    """
    compared = 0
    for row in table.itertuples():
        hits = int((pulls > row.x).sum())
        if hits >= least_hits:
            error = math.hypot(row.se, hits**-0.5)
            assert abs(row.value + math.log(hits / len(pulls))) < 4 * error, row
            compared += 1
    return compared


def run(script, out, *options):
    name = script.__name__.rpartition(".")[2]
    assert script.main([*options, "--out", str(out)]) == 0
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return pd.read_csv(out / "table.csv")


@pytest.fixture(scope="module")
def pulls_of_ucb():
    return pulls_of_worse((gaussian(1.0), gaussian(0.0)), ucb, HORIZON)


def test_fan_glynn(tmp_path, capsys, pulls_of_ucb):
    options = ["--horizon", f"{HORIZON}", "--runs", "3000", "--sigmas", "1", "--inflations", "0"]
    table = run(fan_glynn, tmp_path, *options)
    assert list(table.x) == [30.5]
    assert agree(table.rename(columns={"−log P": "value"}), pulls_of_ucb) == 1
    run(fan_glynn, tmp_path, *options)
    assert capsys.readouterr().out.count("(loaded)") == 1


@pytest.mark.parametrize(("sigma", "inflation"), [(1.0, 0.0), (math.sqrt(2), 1.0)])
def test_first_passage(sigma, inflation):
    """Against random walks; far out it is the power law with exponent (1 + b)/σ²."""
    x, n = 30.0, np.arange(1, 31)
    walks = np.random.default_rng(0).normal(1.0, sigma, (RUNS, 30)).cumsum(1)
    hits = (walks < math.sqrt(2 * (1 + inflation) * math.log(x)) * (n / math.sqrt(x) - np.sqrt(n))).any(1).sum()
    assert abs(fan_glynn.passage(x, sigma, inflation) + math.log(hits / RUNS)) < 4 * hits**-0.5
    assert fan_glynn.far_out(sigma, inflation).exponent == pytest.approx((1 + inflation) / sigma**2, rel=0.03)


def test_tail_bound(tmp_path):
    table = run(tail_bound, tmp_path, "--laws", "exponential", "--radii", "0", "--horizon", "40", "--runs", "2000")
    pulls = pulls_of_worse(
        (lambda rng, n: rng.exponential(3.0, n), lambda rng, n: rng.exponential(1.0, n)), g_forcing, horizon=40
    )
    table = table.rename(columns={"x/Δ": "x", "−log P": "value"})
    assert agree(table[table["T"] == 40], pulls) == 3
    summary = pd.read_csv(tmp_path / "least.csv")
    assert summary["least ratio"][0] > summary["rate"][0]


def test_rates_of_non_gaussian_arms():
    """Exponential: m₂/m₁ − 1 − log(m₂/m₁); Beta(3, 2) at .4: by quadrature."""
    assert tail_bound.rate("exponential") == pytest.approx(1 / 3 - 1 + math.log(3))
    assert tail_bound.rate("beta") == pytest.approx(0.4842609615922)


def test_tail_comparison(tmp_path, pulls_of_ucb):
    options = ["--instances", "gaussian", "--policies", "UCB", "--horizon", f"{HORIZON}", "--runs", "2000"]
    table = run(tail_comparison, tmp_path, *options)
    table["value"] = -math.log(10) * table["log10 P"]
    table = table.rename(columns={"x/Δ": "x", "se of log P": "se"})
    assert agree(table[table.x > 10], pulls_of_ucb) >= 3  # down to there nearly all runs hit: no standard errors
    assert set(table.method) == {"monte_carlo", "importance"}
    (row,) = pd.read_csv(tmp_path / "agreement.csv").to_dict("records")
    assert abs(row["difference in se"]) < 4
