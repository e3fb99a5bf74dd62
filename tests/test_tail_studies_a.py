"""The experiments on exponents, bounds and radii of regret tails, at toy size, against values from outside them."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special

import eljax
from eljax import policies
from experiments import gaussian_exponent, lower_bound, optimism_tail

G2 = eljax.log_squared()


def table_of(script, out, *options):
    """The table that a script writes, once its figure is known to be there too."""
    name = script.__name__.rpartition(".")[2]
    assert script.main([*options, "--out", str(out)]) == 0
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return pd.read_csv(out / "table.csv")


def test_gaussian_exponent(tmp_path, monkeypatch, capsys):
    """Between two horizons of independent codes: P = 7.93e-5 at 300, 2.309e-6 at 1,000 (±.3%), Δ = σ = 1, c = 1/2."""
    monkeypatch.setattr(gaussian_exponent, "horizons", lambda first, last: [300, 550, 1_000])
    options = ["--runs", "3000", "--horizon", "1000", "--shares", "0.5", "--schedules", "g2"]
    table = table_of(gaussian_exponent, tmp_path, *options)
    points = pd.read_csv(tmp_path / "estimates.csv").set_index(["Δ/σ", "T"])
    for horizon, truth in ((300, 7.93e-5), (1_000, 2.309e-6)):
        one = points.loc[1.0, horizon]
        assert one.trusted
        assert abs(np.exp(one.log_prob) / truth - 1) < 3.5 * np.hypot(one.relative_error, 0.003)
        assert one.n == pytest.approx(np.log(horizon / 2) ** 2 / 2)
    assert list(zip(table["Δ"], table["σ"], strict=True)) == [(0.5, 1), (0.5, 2), (1, 1), (1, 2)]
    same, other = table.iloc[0], table.iloc[3]  # Δ/σ = 1/2 twice
    assert same[["slope", "ratio"]].equals(other[["slope", "ratio"]])
    # Which is the truth: in another unit the same estimate, bit by bit.
    found = {
        scale: eljax.tails.estimate(
            eljax.Bandit([eljax.gaussian(0.5 * scale, scale), eljax.gaussian(0.0, scale)]),
            policies.g_forcing(G2),
            horizon=300,
            threshold=150.5 * 0.5 * scale,
            method="importance",
            runs=3_000,
        ).log_prob
        for scale in (1.0, 2.0)
    }
    assert found[1.0] == found[2.0] == pytest.approx(points.loc[0.5, 300].log_prob, rel=1e-12)
    # Two runs of the script are one.
    monkeypatch.setattr(eljax.tails, "estimate", None)
    pd.testing.assert_frame_equal(table_of(gaussian_exponent, tmp_path, *options), table)
    assert "(loaded)" in capsys.readouterr().out


def test_exponents_use_trusted_estimates_alone():
    def estimate(log_prob, *doubts):
        return eljax.tails.TailEstimate(log_prob, 0.01, log_prob, log_prob, "importance", 10, 100.0, doubts=doubts)

    points = {t: estimate(-0.5 * np.log(0.5 * t) ** 2 / 2) for t in (500, 1_000, 2_000)}
    wrong = points | {4_000: estimate(-1.0, "few hits"), 8_000: estimate(np.nan)}
    with_prefactor, plain = gaussian_exponent.fit("g2", 1.0, "0.5", wrong)
    assert plain.slope == pytest.approx(0.5, rel=1e-5)
    assert with_prefactor.slope < plain.slope
    assert gaussian_exponent.fit("g2", 1.0, "0.5", {500: points[500], 1_000: points[1_000]}) is None


def test_lower_bound(tmp_path):
    """Both bounds are below a plain estimate, and the likelihood ratios they rest on turn Q(E) back into it."""
    options = ["--runs", "8000", "--horizon", "50", "--policies", "g-forcing g2"]
    (row,) = table_of(lower_bound, tmp_path, *options).to_dict("records")
    event = {"horizon": 50, "threshold": 25.5, "method": "monte_carlo", "seed": 5}
    plain = eljax.tails.estimate(lower_bound.BANDIT, policies.g_forcing(G2), runs=20_000, **event)
    with np.load(tmp_path / "g_forcing_g2__q__0.25.npz") as side:
        weights = np.where(side["hit"], np.exp(-side["ratio"]), 0)
    error = np.hypot(weights.std() / np.sqrt(len(weights)) / weights.mean(), plain.relative_error)
    assert abs(weights.mean() / plain.probability - 1) < 3.5 * error
    assert row["below"] == "yes"
    assert row["first"] < plain.log_lower
    assert row["second"] < plain.log_upper
    assert 0 < row["excess"] < 3


def test_bounds_of_worked_samples():
    hit, pulls, ratio = np.array([True, True, False, True]), np.array([3, 5, 9, 8]), np.array([1.0, 2.0, 7.0, 9.0])
    side = lower_bound.Side(hit, pulls, ratio)
    assert lower_bound.second_bound(5, side)[0] == pytest.approx(np.log(2 / 4) - 1.5)
    assert lower_bound.first_bound(0.5, side)[0] == pytest.approx(-(0.5 * 25 / 4 + np.log(2)) / 0.75)
    many = lower_bound.Side(*(np.tile(x, 50) for x in side))  # m = 3, 5, 8: log ¼ − 1, log ½ − 1.5, log ¾ − 4
    assert lower_bound.best_cut(many) == (pytest.approx(np.log(2 / 4) - 1.5), 5)
    assert lower_bound.best_cut(lower_bound.Side(~hit & hit, pulls, ratio)) == (-np.inf, 0)


def test_optimism_tail(tmp_path):
    """Bernoulli arms: exact probabilities (an independent programme), and I by Cramér's theorem at radius 0."""
    options = ["--horizon", "40", "--laws", "bernoulli, exact", "--radii", "0", "3"]
    table = table_of(optimism_tail, tmp_path, *options).set_index("C")
    assert np.exp(-table["−log P"].to_numpy()) == pytest.approx([8.256216435410e-3, 2.455117483527e-3], rel=1e-9)
    n = np.log(20) ** 2 / 2
    kl = 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)
    assert table.loc[0, "I"] == pytest.approx(n * kl, rel=1e-5)
    u, radius = 0.5 + np.sqrt(2 * 3 * 0.25 / 20), 3.0
    assert table.loc[3, "u"] == pytest.approx(u)

    def cost(multiplier):  # sup over θ, of the definition
        logs = np.log1p(-multiplier * (np.array([0.0, 1.0]) - u)) if multiplier * (1 - u) < 1 else None
        exponent = lambda power: special.logsumexp(power * logs, b=[0.1, 0.9])  # noqa: E731
        found = optimize.minimize_scalar(lambda p: n * exponent(p) - p * radius, bounds=(0, 1e4), method="bounded")
        return -found.fun

    best = optimize.minimize_scalar(cost, bounds=(1e-3, (1 - 1e-9) / (1 - u)), method="bounded")
    assert table.loc[3, "I"] <= best.fun * (1 + 1e-4)
    np.testing.assert_allclose(table["residual"], table["−log P"] - table["I"] - 0.5 * np.log(n), atol=1e-6)
