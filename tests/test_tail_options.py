"""What goes with tail estimates: fitted and given tilts, rates, warnings, second methods, files, figures."""

import json

import numpy as np
import pytest
from matplotlib.axes import Axes
from scipy import optimize, stats

import eljax
from eljax import plots, policies, tails
from eljax.tails import choose, cross_entropy, importance, paths, rate, tilts

G2 = eljax.log_squared()
RADIUS_0 = policies.g_forcing(G2)
BERNOULLI = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.5)])
EVENT = {"horizon": 40, "threshold": 20.5 * 0.4}
TRUTH = 8.256216435410e-3  # an independent dynamic programme


@pytest.mark.parametrize(
    ("arm", "law", "eta"),
    [
        (eljax.gaussian(1.0, 2.0), stats.norm(1.0, 2.0), [-0.7, -0.4]),
        (eljax.exponential(3.0), stats.expon(scale=3.0), [-0.8]),
        (eljax.gamma(2.5, 4.0), stats.gamma(2.5, scale=4.0), [-0.6]),
        (eljax.pareto(2.5, 1.5), stats.pareto(2.5, scale=1.5), [-1.2]),
        (eljax.beta(3.0, 2.0, 50.0), stats.beta(3.0, 2.0, scale=50.0), [-0.5, 0.7]),
        (eljax.laplace(0.5, 0.2), stats.laplace(0.5, 0.2), [-0.6]),
        (eljax.uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0), [-1.5]),
    ],
)
def test_normalisers_and_divergences_by_integration(arm, law, eta):
    tilt = tilts.natural(arm, np.array(eta))
    p = (np.arange(400_000) + 0.5) / 400_000
    x = law.ppf(p)
    centre, scale, unit = tilts.standard(arm)
    u = (x - centre) / scale
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.array([np.ones_like(x), u, u**2, np.log(x), np.log1p(-unit * x)])
    used = tilt.ratio != 0
    log_ratio = tilt.ratio[used] @ values[used]
    ratio = np.exp(log_ratio)
    assert ratio.mean() == pytest.approx(1, abs=2e-4)
    there, back = tilts.divergences(arm, tilt)
    assert there == pytest.approx((ratio * log_ratio).mean(), rel=1e-2)  # the grid ends short of the tails
    assert back == pytest.approx(-log_ratio.mean(), rel=1e-2)
    if arm.family not in ("uniform", "laplace"):
        again = tilts.to_law(arm, tilt.arm)
        assert again.ratio == pytest.approx(tilt.ratio, rel=1e-9, abs=1e-12)


def test_rate_function_without_a_radius_is_cramers():
    """n times the Legendre transform of the log moment generating function."""
    cramer = {
        eljax.gaussian(1.0, 2.0): (0.2, (0.8 / 2) ** 2 / 2),
        eljax.exponential(1.0): (0.5, 0.5 - 1 - np.log(0.5)),
        eljax.bernoulli(0.9): (0.5, 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)),
    }
    for arm, (level, one) in cramer.items():
        found = rate.rate_function(arm, level=level, radius=0.0, pulls=17.0)
        assert found.value == pytest.approx(17 * one, rel=1e-4)
        assert found.mean == pytest.approx(level, rel=1e-3)


def test_rate_function_of_a_radius_is_the_least_relative_entropy():
    """Of all laws Q on a coin's values whose EL index is below u: n KL(Q, P) at the least, by brute force."""
    p, level, radius, n = 0.9, 0.5, 3.0, 40.0
    kl = lambda q, p: q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))  # noqa: E731
    q = optimize.brentq(lambda q: n * kl(q, level) - radius, 1e-9, level)  # its index of radius C is u
    found = rate.rate_function(eljax.bernoulli(p), level=level, radius=radius, pulls=n)
    assert found.mean == pytest.approx(q, rel=1e-3)
    assert found.value == pytest.approx(n * kl(q, p), rel=1e-4)
    shifted = rate.rate_function(eljax.two_point([3.0, 7.0], [1 - p, p]), level=5.0, radius=radius, pulls=n)
    assert shifted.value == pytest.approx(found.value, rel=1e-9)


def test_cross_entropy_matches_moments():
    """With hardly a plain component the fit has the weighted mean of the rewards, and their spread if Gaussian."""
    rng = np.random.default_rng(0)
    for arm in (eljax.exponential(2.0), eljax.gaussian(0.0, 1.0)):
        bandit = eljax.Bandit([arm, eljax.dirac(0.0)])
        start = (tilts.to_mean(arm, arm.mean - 0.3), tilts.none(bandit.arms[1]))
        plain = importance.Component("plain", 1e-9, tuple(tilts.none(a) for a in bandit.arms))
        components = [plain, importance.Component("tilted", 1 - 1e-9, start)]
        watched = paths.watch(bandit, [0])
        pulls = rng.integers(3, 9, (50, 1))
        rewards = [rng.gamma(2.0, 0.4, n[0]) for n in pulls]
        u = [(x - watched.centres[0]) / watched.scales[0] for x in rewards]
        sums = np.array([[[x.sum(), (x**2).sum(), 0, 0]] for x in u])
        weights = rng.dirichlet(np.ones(50))
        _, fitted = cross_entropy._fitted(bandit, components, watched, weights, pulls, sums)
        total = weights @ pulls[:, 0]
        mean = sum(w * x.sum() for w, x in zip(weights, rewards, strict=True)) / total
        assert fitted.tilts[0].arm.mean == pytest.approx(mean, rel=1e-2)
        if arm.family == "gaussian":
            square = sum(w * (x**2).sum() for w, x in zip(weights, rewards, strict=True)) / total
            assert fitted.tilts[0].arm.variance == pytest.approx(square - mean**2, rel=3e-2)


def test_given_and_fitted_tilts_are_unbiased():
    wanted = {"a mean": [[0.6, None]], "a law": [[eljax.bernoulli(0.55), None], [0.7, 0.6]], "fitted": "fitted"}
    for name, choice in wanted.items():
        found = tails.estimate(BERNOULLI, RADIUS_0, **EVENT, method="importance", runs=8_000, tilts=choice)
        assert found.relative_error < 0.15, name
        assert abs(found.probability / TRUTH - 1) < 3.5 * found.relative_error, name


def test_bad_tilts_are_useless_and_said_to_be():
    """Rewards tilted the wrong way hit so seldom that nothing is known but what the plain runs say."""
    found = tails.estimate(BERNOULLI, RADIUS_0, **EVENT, method="importance", runs=2_000, tilts=[[0.99, 0.2]])
    assert not found.trusted
    assert np.isnan(found.log_prob) or found.doubts
    assert found.log_lower <= np.log(TRUTH) <= found.log_upper
    one = importance.combine([np.log([0.5]), np.log([1e-6, 0.2, 0.9])], np.array([100, 900]))
    assert np.isnan(one.probability)
    assert "useless" in one.reason
    heavy = np.log(np.random.default_rng(0).pareto(1.1, 3_000) + 1) - 9
    infinite = importance.combine([heavy[:300], heavy[300:]], np.array([1_000, 9_000]))
    assert "no finite variance" in infinite.reason + str(infinite.doubts)
    light = np.log(np.random.default_rng(0).uniform(size=3_000)) - 9
    assert importance.combine([light[:300], light[300:]], np.array([1_000, 9_000])).trusted


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("best", "tilts must be None"),
        (3, "tilts must be a list of components"),
        ([], "tilts must be a list of components"),
        ([[0.5]], "tilts must be a list of components"),
        ([["0.5", None]], "tilts must be a finite number"),
        ([[1.0, None]], "mean must be inside the support"),
        ([[eljax.gaussian(0.0, 1.0), None]], "tilt must be a tilt of"),
    ],
)
def test_bad_choices_of_tilts_are_named(wanted, message):
    with pytest.raises(ValueError, match=message):
        tails.estimate(BERNOULLI, RADIUS_0, **EVENT, method="importance", tilts=wanted)
    with pytest.raises(ValueError, match="tilts must be None unless"):
        tails.estimate(BERNOULLI, RADIUS_0, **EVENT, method="splitting", tilts=[[0.5, None]])


def test_down_to_1e_30_with_honest_errors():
    """Two Bernoulli arms, .9999 and .01: the better arm fails at once and stays down, or the other one is lucky."""
    bandit, policy = eljax.Bandit([eljax.bernoulli(0.9999), eljax.bernoulli(0.01)]), RADIUS_0
    event = {"horizon": 80, "threshold": 40.5 * bandit.gaps[1]}
    truth = tails.exact(bandit, policy, **event)
    assert truth.log_prob < np.log(1e-30)
    found = tails.estimate(bandit, policy, **event, method="importance", runs=20_000, tilts="fitted")
    assert found.relative_error < 0.3
    assert abs(np.exp(found.log_prob - truth.log_prob) - 1) < 3.5 * found.relative_error


@pytest.mark.parametrize("horizon", [20, 40])
def test_a_radius_that_asks_for_the_worst_possible_rewards(horizon):
    """Only failures keep the index of a good coin low for so few pulls: the rate function asks for a mean of 0.

    At 20 rounds the other coin has to be lucky, too: fitted tilts find out.
    """
    bandit, policy = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.1)]), policies.el_f(G2, 3.0)
    event = {"horizon": horizon, "threshold": (horizon // 2 + 0.5) * 0.8}
    exact = tails.exact(bandit, policies.el_f(G2, 3.0, index="exact"), **event)
    found = tails.estimate(bandit, policy, **event, method="importance", runs=4_000, tilts="fitted")
    assert found.relative_error < 0.2
    assert abs(np.exp(found.log_prob - exact.log_prob) - 1) < 3.5 * found.relative_error


@pytest.mark.parametrize("unit", [1e-170, 1e170])
def test_estimates_do_not_depend_on_the_unit(unit):
    """Variances of 1e±340 are none in float64; the same runs, the same weights."""
    event = {"horizon": 40, "method": "importance", "runs": 500}
    for arms in (
        lambda c: [eljax.gaussian(c, c), eljax.gaussian(0.0, c)],
        lambda c: [eljax.exponential(2 * c), eljax.exponential(c)],
        lambda c: [eljax.beta(3.0, 2.0, c), eljax.beta(2.0, 3.0, c)],
        lambda c: [eljax.two_point([0.0, c], [0.1, 0.9]), eljax.two_point([0.0, c], [0.5, 0.5])],
    ):
        one, other = eljax.Bandit(arms(1.0)), eljax.Bandit(arms(unit))
        plain = tails.estimate(one, policies.el_f(G2, 3.0), threshold=20.5 * one.gaps[1], **event)
        found = tails.estimate(other, policies.el_f(G2, 3.0), threshold=20.5 * other.gaps[1], **event)
        assert found.log_prob == pytest.approx(plain.log_prob, rel=1e-6, nan_ok=True)
        assert found.ess == pytest.approx(plain.ess, rel=1e-6)


def test_the_default_mixture_of_a_radius():
    """Gaussian arms, radius 3, T = 1,000: 1.95e-9 ± 2%, by another program."""
    bandit = eljax.Bandit([eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)])
    event = {"horizon": 1_000, "threshold": 500.0, "method": "importance", "runs": 6_000}
    found = tails.estimate(bandit, policies.el_f(G2, 3.0), **event)
    assert found.relative_error < 0.15
    assert abs(found.probability / 1.95e-9 - 1) < 3.5 * np.hypot(found.relative_error, 0.02)


def test_smallest_sizes():
    gaussian = eljax.Bandit([eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)])
    first = tails.estimate(gaussian, policies.el_f(eljax.log_loglog(), 3.0), horizon=1, threshold=0.5, method="auto")
    assert first.probability == 0.0  # round 1 pulls the better arm
    equal = eljax.Bandit([eljax.gaussian(0.0, 1.0)] * 2)
    assert "cannot happen" in tails.estimate(equal, RADIUS_0, horizon=9, threshold=0.0).reason
    some = tails.estimate(BERNOULLI, RADIUS_0, horizon=40, threshold=3.5 * 0.4, runs=60)
    assert (some.method, some.runs) == ("monte_carlo", 60)
    sure = tails.estimate(gaussian, RADIUS_0, horizon=9, threshold=0.0, method="splitting", runs=320)
    assert sure.probability == 1.0
    assert sure.log_lower < sure.log_upper == 0.0


def test_of_untrusted_estimates_the_one_with_the_smaller_error_is_given():
    def estimate(error, *doubts):
        return tails.TailEstimate(-3.0, error, -4.0, -2.0, "importance", 100, 50.0, doubts=doubts)

    useless = tails.TailEstimate(np.nan, np.nan, -np.inf, -1.0, "importance", 100, 1.0)
    assert choose._better(useless, estimate(0.3, "few")).relative_error == 0.3
    assert choose._better(estimate(0.1, "few"), estimate(0.4)).relative_error == 0.4
    assert choose._better(estimate(0.5, "few"), estimate(0.2, "few")).relative_error == 0.2
    nothing = tails.TailEstimate(-np.inf, np.nan, -np.inf, -1.0, "splitting", 100, 0.0)
    assert not nothing.trusted
    assert not choose._compared(estimate(0.01), estimate(0.01)).doubts
    far = tails.TailEstimate(-5.0, 0.1, -6.0, -4.5, "splitting", 100, 50.0)
    assert "particles says" in choose._compared(estimate(0.01), far).doubts[0]
    assert "plain runs say" in choose._against(estimate(0.01), far).doubts[0]


def test_auto_asks_a_second_method():
    bandit = eljax.Bandit([eljax.bernoulli(0.99), eljax.bernoulli(0.4)])
    event = {"horizon": 60, "threshold": 30.5 * bandit.gaps[1]}
    truth = tails.exact(bandit, RADIUS_0, **event)
    found = tails.estimate(bandit, RADIUS_0, **event, runs=12_000)
    assert found.method == "importance"
    assert "particles says" in found.reason
    assert abs(np.exp(found.log_prob - truth.log_prob) - 1) < 3.5 * found.relative_error


@pytest.mark.parametrize("policy", [policies.thompson("bernoulli"), policies.rds("sqrt_log")], ids=["thompson", "rds"])
def test_splitting_of_randomised_policies(policy):
    event = {"horizon": 40, "threshold": 12.5 * BERNOULLI.gaps[1]}
    plain = tails.estimate(BERNOULLI, policy, **event, method="monte_carlo", runs=20_000)
    split = tails.estimate(BERNOULLI, policy, **event, method="splitting", runs=4_000)
    assert plain.ess > 50
    assert abs(split.probability / plain.probability - 1) < 3.5 * np.hypot(plain.relative_error, split.relative_error)
    assert np.prod(split.shares) == pytest.approx(split.probability, rel=0.5)


def test_power_law_fit_is_weighted_least_squares():
    x = np.geomspace(20, 2e4, 8)
    errors = np.geomspace(0.01, 0.05, 8)
    values = 1.3 + 1.1 * np.log(x) + 0.7 * np.sqrt(np.log(x)) + errors * np.random.default_rng(1).normal(size=8)
    found = tails.fit_power_law(x, -values, errors)
    fit, covariance = optimize.curve_fit(
        lambda x, a, b, c: a + b * np.log(x) + c * np.sqrt(np.log(x)), x, values, sigma=errors, absolute_sigma=True
    )
    assert (found.intercept, found.exponent, found.root) == pytest.approx(fit, rel=1e-6)
    assert found.standard_error >= np.sqrt(covariance[1, 1]) * (1 - 1e-6)
    straight = tails.fit_power_law(x, -(2 + 1.5 * np.log(x)), root=False)
    assert (straight.exponent, straight.root) == (pytest.approx(1.5), 0.0)
    for bad in ({"thresholds": [0.5, 2, 3, 4]}, {"thresholds": [2, 3, 4]}, {"log_probs": [-1, -2, np.nan, -3]}):
        arguments = {"thresholds": [2.0, 3, 4, 5], "log_probs": [-1.0, -2, -3, -4]} | bad
        with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
            tails.fit_power_law(**arguments)


@pytest.fixture(scope="module")
def curve():
    event = {"horizon": 40, "runs": 1_000, "method": "importance"}
    return tails.curve(BERNOULLI, RADIUS_0, thresholds=[4.2, 8.2, 10.2, 17.0], **event)


def test_curves_are_labelled_and_survive_a_round_trip(curve, tmp_path):
    hit = curve.log_probs[np.isfinite(curve.log_probs)]
    assert len(hit) >= 2
    assert (np.diff(hit) < 0).all()
    curve.save(tmp_path / "c.json")
    again = tails.TailCurve.load(tmp_path / "c.json")
    np.testing.assert_equal(again.estimates[0].setting, curve.estimates[0].setting)
    np.testing.assert_array_equal(again.log_probs, curve.log_probs)
    data = curve.to_xarray()
    assert data.sizes == {"threshold": 4}
    assert json.loads(data.attrs["bandit"]) == ["bernoulli(p=0.9)", "bernoulli(p=0.5)"]
    curve.estimates[0].save(tmp_path / "e.json")
    assert tails.TailEstimate.load(tmp_path / "e.json") == again.estimates[0]
    with pytest.raises(ValueError, match="holds 4 estimates"):
        tails.TailEstimate.load(tmp_path / "c.json")


@pytest.mark.parametrize(
    "damage", [lambda t: t[:50], lambda t: "[]", lambda t: t.replace('"version": 1', '"version": 2')]
)
def test_damaged_files_are_refused(curve, tmp_path, damage):
    path = tmp_path / "c.json"
    curve.save(path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(ValueError, match="is not an intact file"):
        tails.TailCurve.load(path)
    with pytest.raises(FileNotFoundError, match="path must be a file"):
        tails.TailCurve.load(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match="path must lie in"):
        curve.save(tmp_path / "no" / "c.json")


def test_figures_of_tails(curve, tmp_path):
    nothing = tails.TailEstimate(np.nan, np.nan, -np.inf, -7.0, "importance", 9, 1.0, setting={"threshold": 18.0})
    split = tails.TailEstimate(-3.0, 0.1, -3.2, -2.8, "splitting", 9, 9.0, doubts=("few",), shares=(0.3, 0.2))
    fit = tails.fit_exponent([10.0, 20.0, 30.0], [-5.0, -10.1, -15.0], [0.1, 0.1, 0.2])
    drawn = [
        plots.survival_curves({"a": curve, "b": tails.TailCurve((*curve.estimates, nothing))}, path=tmp_path / "s.png"),
        plots.exponent_fit({"c = .5": fit}, path=tmp_path / "f.png"),
        plots.splitting_levels(split, path=tmp_path / "l.png"),
    ]
    for axes in drawn:
        assert isinstance(axes, Axes)
        assert axes.get_xlabel() and axes.get_ylabel() and axes.get_legend()  # noqa: PT018
    assert len(list(tmp_path.glob("*.png"))) == 3
    for draw, name in ((plots.survival_curves, "curves"), (plots.exponent_fit, "fits")):
        with pytest.raises(ValueError, match=f"{name} must be"):
            draw({})
    with pytest.raises(ValueError, match="estimates must be of method 'splitting'"):
        plots.splitting_levels(curve.estimates[0])
