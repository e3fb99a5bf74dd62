"""Tail estimates against exact values: the dynamic programme's, and published-precision ones for Gaussian arms."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import eljax
from eljax import policies, tails
from eljax.tails import importance, monte_carlo, paths, splitting, tilts
from experiments import gaussian_tails

G2 = eljax.log_squared()
RADIUS_0 = policies.g_forcing(G2)
BERNOULLI = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.5)])
GAUSSIAN = eljax.Bandit([eljax.gaussian(1.0, 1.0), eljax.gaussian(0.0, 1.0)])
LIMIT = 3.5  # standard errors: a correct estimate is beyond with probability 5e-4; about ten are looked at here

FAMILIES = {  # arm, mean of its tilt, the law in scipy from an arm of the family
    "gaussian": (eljax.gaussian(1.0, 2.0), -0.5, lambda a: stats.norm(a["mean"], a["sigma"])),
    "exponential": (eljax.exponential(3.0), 1.2, lambda a: stats.expon(scale=a["mean"])),
    "gamma": (eljax.gamma(2.5, 4.0), 6.0, lambda a: stats.gamma(a["shape"], scale=a["scale"])),
    "pareto": (eljax.pareto(2.5, 1.5), 1.9, lambda a: stats.pareto(a["shape"], scale=a["scale"])),
    "beta": (eljax.beta(3.0, 2.0, 50.0), 21.0, lambda a: stats.beta(a["a"], a["b"], scale=a["scale"])),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_ratios_of_densities_are_scipys(name):
    arm, mean, law = FAMILIES[name]
    tilt = tilts.to_mean(arm, mean)
    assert tilt.arm.mean == pytest.approx(mean, rel=1e-9)
    p, q = law(arm.parameters), law(tilt.arm.parameters)
    x = p.ppf(np.linspace(0.01, 0.99, 25))
    assert ratio_at(tilt, arm, x) == pytest.approx(q.logpdf(x) - p.logpdf(x), rel=1e-9, abs=1e-11)


def ratio_at(tilt, arm, x):
    """log dQ/dP from the coefficients, in plain numpy."""
    centre, scale, unit = tilts.standard(arm)
    u = (x - centre) / scale
    with np.errstate(invalid="ignore", divide="ignore"):
        values = [np.ones_like(x), u, u**2, np.log(x), np.log1p(-unit * x)]
    return sum(c * v for c, v in zip(tilt.ratio, values, strict=True) if c != 0) + np.zeros_like(x)


def test_gaussian_tilts_of_mean_and_spread():
    arm = eljax.gaussian(1.0, 2.0)
    tilt = tilts.to_index(arm, level=0.25, radius=0.18 * 20, pulls=20.0)  # a width of 0.6 standard deviations
    m, s = tilt.arm.parameters["mean"], tilt.arm.parameters["sigma"]
    assert m + 0.6 * s == pytest.approx(0.25)
    x = np.linspace(-6, 6, 9)
    truth = stats.norm(m, s).logpdf(x) - stats.norm(1.0, 2.0).logpdf(x)
    assert ratio_at(tilt, arm, x) == pytest.approx(truth, rel=1e-12)
    # Of all N(0.25 − 0.6 s', s'²) none is nearer in relative entropy.
    near = s * np.array([0.99, 1.01])
    kl = lambda s: np.log(2 / s) + (s**2 + (0.25 - 0.6 * s - 1) ** 2) / 8 - 0.5  # noqa: E731
    assert (kl(near) > kl(s)).all()


@pytest.mark.parametrize("mean", [0.1, 0.48, 0.5000001, 0.9])
def test_tilted_uniform_and_laplace(mean):
    """Mean, variance, quantile and density of laws of their own, by numerical integration on a grid."""
    for arm, grid in (
        (eljax.uniform(0.0, 1.0), np.linspace(0, 1, 200_001)),
        (eljax.laplace(0.5, 0.2), np.linspace(-20, 21, 2_000_001)),
    ):
        tilt = tilts.to_mean(arm, mean)
        density = np.exp(ratio_at(tilt, arm, grid))
        density *= 1.0 if arm.family == "uniform" else np.exp(-np.abs(grid - 0.5) / 0.2) / 0.4
        integral = lambda f, grid=grid, density=density: np.trapezoid(f * density, grid)  # noqa: E731
        assert integral(1) == pytest.approx(1, abs=1e-6)
        assert integral(grid) == pytest.approx(mean, rel=1e-6)
        assert tilt.arm.mean == pytest.approx(mean, rel=1e-9)
        assert integral((grid - mean) ** 2) == pytest.approx(tilt.arm.variance, rel=1e-5)
        p, below = np.array([1e-3, 0.2, 0.5]), integrate.cumulative_trapezoid(density, grid, initial=0)
        for upper in (False, True):
            mass = np.interp(tilt.arm.quantile(p, upper), grid, below)
            assert mass == pytest.approx(1 - p if upper else p, abs=1e-6)


def test_tilts_of_finite_laws_are_exponential():
    arm = eljax.discrete([-1.0, 0.0, 0.5, 3.0], [0.1, 0.4, 0.3, 0.2])
    tilt = tilts.to_mean(arm, -0.3)
    values, probs = tilt.arm.atoms
    assert values @ probs == pytest.approx(-0.3)
    assert ratio_at(tilt, arm, values) == pytest.approx(np.log(probs / arm.atoms[1]), abs=1e-9)


def within(found, truth, truth_error=0.0):
    return abs(found.probability / truth - 1) <= LIMIT * np.hypot(found.relative_error, truth_error)


@pytest.mark.parametrize("method", ["monte_carlo", "importance"])
@pytest.mark.parametrize(("radius", "share", "truth"), [(0, 0.5, 8.256216435410e-3), (3, 0.5, 2.455117483527e-3)])
def test_bernoulli_arms_at_40_rounds(method, radius, share, truth):
    policy = RADIUS_0 if radius == 0 else policies.el_f(G2, float(radius))
    threshold = (share * 40 + 0.5) * BERNOULLI.gaps[1]
    tilts = {"tilts": "fitted"} if method == "importance" and radius > 0 else {}
    found = tails.estimate(BERNOULLI, policy, horizon=40, threshold=threshold, method=method, runs=20_000, **tilts)
    assert found.relative_error < 0.2
    assert within(found, truth)
    assert found.log_lower < found.log_prob < found.log_upper


@pytest.mark.parametrize(("horizon", "truth", "error"), [(300, 7.93e-5, 0.003), (1_000, 2.309e-6, 0.003)])
def test_gaussian_arms_radius_0(horizon, truth, error):
    found = tails.estimate(GAUSSIAN, RADIUS_0, horizon=horizon, threshold=horizon / 2, method="importance", runs=6_000)
    assert found.relative_error < 0.1
    assert found.trusted
    assert within(found, truth, error)


def test_three_arms_need_the_mixture():
    """Means .5/.25/0, T = 1,000, x = 200: lowering the best arm to the worst alone gives 6e-3, the truth is .127."""
    bandit = eljax.Bandit([eljax.gaussian(m, 1.0) for m in (0.5, 0.25, 0.0)])
    arguments = {"horizon": 1_000, "threshold": 200.0, "runs": 3_000}
    weighted, plain = (tails.estimate(bandit, RADIUS_0, method=m, **arguments) for m in ("importance", "monte_carlo"))
    assert within(plain, 0.127, 0.01)
    assert within(weighted, 0.127, 0.01)
    assert weighted.relative_error < 0.1


def test_a_near_optimal_arm_is_lowered_too():
    """Means .5/.45/0, T = 1,000, x = 250: only the third arm can cost that much; both better ones must look worse."""
    bandit = eljax.Bandit([eljax.gaussian(m, 1.0) for m in (0.5, 0.45, 0.0)])
    found = tails.estimate(bandit, RADIUS_0, horizon=1_000, threshold=250.0, method="importance", runs=3_000)
    assert within(found, 1.16e-3, 0.01)
    assert found.relative_error < 0.15


def importance_replications(groups, size):
    components = importance.mixture(BERNOULLI, RADIUS_0, 40, 20.5 * 0.4)
    watched = paths.watch(BERNOULLI, importance.tilted_arms(components))
    counts = np.array([size // len(components)] * len(components))
    samples = []
    for k, component in enumerate(components):
        found = paths.decide(
            eljax.Bandit([tilt.arm for tilt in component.tilts]), RADIUS_0, horizon=40, threshold=20.5 * 0.4,
            gaps=BERNOULLI.gaps, seed=5, run_numbers=np.arange(counts[k] * groups) + 10**6 * k, watched=watched,
        )  # fmt: skip
        samples.append(found)
    out = []
    for g in range(groups):
        hit = [(found.hit[g::groups], found) for found in samples]
        mine = [
            importance.Sample(counts[k], found.pulls[g::groups][h], found.sums[g::groups][h])
            for k, (h, found) in enumerate(hit)
        ]
        out.append(importance.combine(importance.log_weights(components, watched, mine), counts))
    return out


def monte_carlo_replications(groups, size):
    hit = paths.decide(
        BERNOULLI, RADIUS_0, horizon=40, threshold=20.5 * 0.4, gaps=BERNOULLI.gaps, seed=6,
        run_numbers=np.arange(groups * size),
    ).hit  # fmt: skip
    return [monte_carlo.from_hits(int(hit[g::groups].sum()), size) for g in range(groups)]


def splitting_replications(groups, size):
    logs, shares, *_ = splitting.replicate(
        BERNOULLI, RADIUS_0, horizon=40, threshold=20.5 * 0.4, seed=7, replications=groups * 8, per=size
    )
    return [splitting.combine(logs[g::groups], shares, size * 8) for g in range(groups)]


@pytest.mark.parametrize(
    ("replications", "size", "width"),
    [(monte_carlo_replications, 10_000, 1.25), (importance_replications, 500, 1.25), (splitting_replications, 64, 1.5)],
)
def test_200_replications_are_unbiased_and_their_intervals_cover(replications, size, width):
    """The exact P = 8.256e-3: the mean at 3.5 standard errors, errors as stated, and coverage.

    Of 200 intervals at 95% fewer than 88% cover with probability 5e-5; the three together are wrong once in 600. Plain
    runs hit 80 times on average (exact intervals over-cover at few hits). The bias of dividing groups of 8 replications
    of splitting is nil: probabilities are averaged, not their logarithms.
    """
    truth, groups = 8.256216435410e-3, 200
    answers = replications(groups, size)
    values = np.array([answer.probability for answer in answers])
    assert abs(values.mean() - truth) <= LIMIT * values.std() / np.sqrt(groups)
    stated = np.array([answer.relative_error for answer in answers]) * values
    assert 1 / width < np.median(stated) / values.std() < width
    assert np.mean([answer.log_lower <= np.log(truth) <= answer.log_upper for answer in answers]) > 0.88


def test_splitting_on_bernoulli_arms():
    """The score is that of Gaussian rewards: any score will do."""
    policy = policies.el_f(G2, 3.0)
    found = tails.estimate(BERNOULLI, policy, horizon=40, threshold=20.5 * 0.4, method="splitting", runs=8_000)
    assert within(found, 2.455117483527e-3)
    assert found.relative_error < 0.25
    assert found.trusted == (found.relative_error * np.sqrt(16) <= 0.3)


def test_a_level_entered_too_late_is_the_end():
    """UCB with a small bonus, T = 10: a copy that enters a level in the last round must not play an eleventh.

    Exact by an independent enumeration: .10125.
    """
    bandit, policy = eljax.Bandit([eljax.bernoulli(0.7), eljax.bernoulli(0.5)]), policies.ucb(0.5)
    event = {"horizon": 10, "threshold": 7.5 * bandit.gaps[1]}
    assert tails.exact(bandit, policy, **event).probability == pytest.approx(0.101250, abs=1e-9)
    found = splitting.replicate(bandit, policy, **event, seed=3, replications=400, per=50)
    values = np.exp(found.logs)
    assert abs(values.mean() - 0.10125) < LIMIT * values.std() / 20


def test_splitting_needs_no_variance_and_ends_when_the_event_is_impossible():
    heavy = eljax.Bandit([eljax.pareto(1.5, 1.5), eljax.pareto(1.5, 1.0)])
    gap = heavy.gaps[1]
    arguments = {"horizon": 60, "threshold": 40.5 * gap, "seed": 3}
    plain, split = (tails.estimate(heavy, RADIUS_0, method=m, runs=r, **arguments) for m, r in
                    (("monte_carlo", 20_000), ("splitting", 8_000)))  # fmt: skip
    assert within(split, plain.probability, plain.relative_error)
    sure = eljax.Bandit([eljax.dirac(1.0), eljax.dirac(0.0)])
    never = tails.estimate(sure, RADIUS_0, horizon=40, threshold=30.5, method="splitting", runs=320)
    assert never.probability == 0
    assert "no particle" in never.reason


def test_no_hit_is_stated_and_impossible_is_zero():
    never = tails.estimate(GAUSSIAN, RADIUS_0, horizon=50, threshold=50.0)
    assert (never.log_prob, never.relative_error) == (-np.inf, 0.0)
    assert "cannot happen" in never.reason
    assert tails.estimate(GAUSSIAN, RADIUS_0, horizon=50, threshold=-1.0).probability == 1.0
    rare = monte_carlo.from_hits(0, 1_000)
    assert rare.probability == 0
    assert np.exp(rare.log_upper) == pytest.approx(1 - 0.025 ** (1 / 1_000))
    assert "none of 1,000 runs" in rare.reason


def test_useless_weights_are_said():
    counts = np.array([50, 450])
    even = importance.combine([np.zeros(5), np.zeros(45)], counts)
    assert even.probability == pytest.approx(0.1)
    assert even.ess == pytest.approx(50)
    assert np.isnan(importance.combine([np.zeros(5), np.append(np.zeros(44), 8.0)], counts).log_prob)
    uneven = importance.combine([np.zeros(5), np.append(np.zeros(44), 2.7)], counts)
    assert any("one run has" in doubt for doubt in uneven.doubts)
    assert "do not trust: " in str(uneven)


def test_auto_says_why():
    often = tails.estimate(BERNOULLI, RADIUS_0, horizon=40, threshold=5.5 * 0.4, runs=20_000)
    assert often.method == "monte_carlo"
    assert "plain simulation is enough" in often.reason
    seldom = tails.estimate(BERNOULLI, RADIUS_0, horizon=40, threshold=32.5 * 0.4, runs=3_000)
    assert seldom.method == "importance"
    assert "too rare" in seldom.reason
    assert within(seldom, 2.815562947087e-3)


BAD = {
    "bandit must be": {"bandit": 3},
    "policy must be": {"policy": 3},
    "horizon must be": {"horizon": 0},
    "threshold must be": {"threshold": np.inf},
    "method must be one of": {"method": "magic"},
    "method must be": {"method": ["importance"]},
    "runs must be": {"runs": 5},
    "seed must be": {"seed": -1},
    "arm must be .*splitting": {
        "bandit": eljax.Bandit([eljax.student_t(3.0, 1.0, 1.0), eljax.gaussian(0.0, 1.0)]),
        "method": "importance",
    },
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(message):
    good = {"bandit": GAUSSIAN, "policy": RADIUS_0, "horizon": 50, "threshold": 10.0} | BAD[message]
    with pytest.raises(ValueError, match=message):
        tails.estimate(good.pop("bandit"), good.pop("policy"), **good)


@pytest.mark.parametrize("prefactor", [True, False])
def test_fit_exponent_is_weighted_least_squares(prefactor):
    n = np.array([16.3, 23.9, 33.0, 42.4, 53.9, 66.3])
    errors = np.array([0.01, 0.02, 0.01, 0.05, 0.02, 0.1])
    noise = errors * np.random.default_rng(3).normal(size=6)
    logs = -(0.7 + 0.5 * n + (0.5 * np.log(n) if prefactor else 0) + noise)
    found = tails.fit_exponent(n, logs, errors, prefactor=prefactor)
    values = -logs - (0.5 * np.log(n) if prefactor else 0)
    (slope, intercept), covariance = np.polyfit(n, values, 1, w=1 / errors, cov="unscaled")
    assert (found.slope, found.intercept) == pytest.approx((slope, intercept), rel=1e-10)
    assert found.standard_error >= np.sqrt(covariance[0, 0]) * (1 - 1e-9)
    assert abs(found.slope - 0.5) < 4 * found.standard_error
    assert found.residuals == pytest.approx(slope * n + intercept - values)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("schedule_values", ([1, 2], [-1, -2])),
        ("schedule_values", ([1, 1, 2], [-1, -1, -2])),
        ("schedule_values", ([0, 1, 2], [-1, -1, -2])),
        ("log_probs", ([1, 2, 3], [-1, -2, -np.inf])),
        ("log_probs", ([1, 2, 3], [-1, -2, -3, -4])),
        ("relative_errors", ([1, 2, 3], [-1, -2, -3], [0.1, 0.0, 0.1])),
    ],
)
def test_bad_fits_are_named(name, arguments):
    with pytest.raises(ValueError, match=f"{name} must be"):
        tails.fit_exponent(*arguments)


def test_importance_sampling_and_splitting_agree_where_nothing_is_known():
    bandit = eljax.Bandit([eljax.exponential(2.0), eljax.exponential(1.0)])
    event = {"horizon": 300, "threshold": 150.5}
    weighted, split = (
        tails.estimate(bandit, RADIUS_0, **event, method=method, runs=4_800) for method in ("importance", "splitting")
    )
    assert weighted.probability < 0.01
    assert max(weighted.relative_error, split.relative_error) < 0.3
    assert within(weighted, split.probability, split.relative_error)


def test_known_gaussian_tails(tmp_path, monkeypatch):
    """The experiment at toy size: the known value within 3.5 standard errors, and a cost for every method."""
    for name, few in (("KNOWN", {(300, 0.0): (7.93e-5, 0.003)}), ("OTHERS", []), ("EVENTS", [(300, 0.0)])):
        monkeypatch.setattr(gaussian_tails, name, few)
    assert gaussian_tails.main(["--runs", "1000", "--out", str(tmp_path)]) == 0
    row = pd.read_csv(tmp_path / "table.csv").iloc[0]
    assert row.known == 7.93e-5
    assert abs(row["standard errors off"]) < LIMIT
    methods = pd.read_csv(tmp_path / "methods.csv")
    assert list(methods.method) == list(gaussian_tails.METHODS)
    assert (methods.seconds > 0).all()
    assert (tmp_path / "gaussian_tails.png").exists()
