"""Figures: files are made, Axes come back, odd results draw without a warning, inputs stay as they were."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eljax import plots
from eljax.results import Result

PNG = b"\x89PNG\r\n\x1a\n"


def make(runs=20, rounds=(2, 5, 50), gap=1.0, worst=0.5, seed=0):
    rng = np.random.default_rng(seed)
    rounds = np.array(rounds)
    bad = (rng.random((runs, rounds[-1])) < rng.uniform(0, worst, (runs, 1))).cumsum(1)[:, rounds - 1]
    pulls = np.stack([rounds - bad, bad], axis=-1)
    return Result.from_pulls(pulls, rounds, np.zeros((runs, 2), int), [0.0, gap], provenance={"policy": "p"})


ODD = {
    "ordinary": make(),
    "one run": make(runs=1),
    "one checkpoint": make(rounds=(7,)),
    "first round": make(rounds=(1,)),
    "no regret": make(gap=0.0),
    "some runs without regret": make(worst=0.05),
    "constant": Result.from_pulls([[[1, 1], [2, 1]]] * 5, [2, 3], [[1, 1]] * 5, [0.0, 0.5]),
    "huge": make(gap=1e300),
    "tiny": make(gap=1e-300),
    "mixture": {"a": make(), "b": make(gap=0.0), "c": make(runs=1)},
    "many": {f"policy {i}": make(gap=i + 1.0, seed=i) for i in range(9)},
}


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("name", ODD)
def test_every_result_can_be_drawn(tmp_path, name):
    axes = plots.regret_curves(ODD[name], path=tmp_path / "c.png")
    pair = plots.regret_distribution(ODD[name], path=tmp_path / "d.png")
    assert isinstance(axes, Axes)
    assert [type(a) for a in pair] == [Axes, Axes]
    assert (tmp_path / "c.png").read_bytes().startswith(PNG)
    assert (tmp_path / "d.png").read_bytes().startswith(PNG)
    assert axes.get_xscale() == "log"
    assert pair[1].get_yscale() == "log"
    assert all(a.get_xlabel() and a.get_ylabel() and a.get_legend() for a in (axes, *pair))


def test_curves_show_the_numbers():
    result = make()
    axes = plots.regret_curves({"EL-F": result})
    median, mean = axes.lines
    np.testing.assert_array_equal(mean.get_ydata(), result.mean())
    np.testing.assert_array_equal(median.get_ydata(), result.median())
    assert (mean.get_linestyle(), median.get_linestyle()) == ("-", "--")
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["EL-F", "mean", "median", "10–90% of runs"]
    assert len(plots.regret_curves(result, band=None).collections) == 0


def test_distribution_shows_the_numbers():
    result = make(runs=200)
    left, right = plots.regret_distribution(result)
    final = result.regret[:, -1]
    for x, share in zip(*left.lines[0].get_data(), strict=True):
        assert share == pytest.approx((final <= x).mean())
    x, above = right.lines[0].get_data()
    assert x[-1] == final.max()
    for at, share in zip(x[:-1], above[:-1], strict=True):
        assert share == pytest.approx((final > at).mean())


def test_a_large_sample_keeps_its_tail():
    rounds = np.array([10**6])
    bad = np.sort(np.random.default_rng(0).integers(1, 10**6, 50_000))
    pulls = np.stack([rounds - bad, bad], axis=-1)[:, None]
    result = Result.from_pulls(pulls, rounds, np.zeros((50_000, 2), int), [0.0, 1.0])
    _, right = plots.regret_distribution(result)
    x, above = right.lines[0].get_data()
    assert x.size <= plots.MOST_POINTS + 2
    assert x[-1] == bad[-1]
    assert above[-1] <= 2 / 50_000


def test_results_and_mapping_are_not_changed():
    results = {"a": make(), "b": make(seed=1)}
    before = {name: make(seed=i) for i, name in enumerate(results)}
    plots.regret_curves(results)
    plots.regret_distribution(results)
    assert results == before


def test_own_axes_and_other_formats(tmp_path):
    figure = Figure()
    one, *pair = figure.subplots(1, 3)
    assert plots.regret_curves(make(), ax=one, path=tmp_path / "f.svg") is one
    assert plots.regret_distribution(make(), ax=pair, path=tmp_path / "bare") == tuple(pair)
    assert b"<svg" in (tmp_path / "f.svg").read_bytes()
    assert (tmp_path / "bare").read_bytes().startswith(PNG)


def test_no_pyplot_and_no_display_is_needed(tmp_path):
    """Figures that pyplot never sees cannot leak, and the user's backend is untouched."""
    code = (
        "import sys; from eljax import plots; from eljax.results import Result\n"
        "r = Result.from_pulls([[[1, 1], [3, 1]]], [2, 4], [[1, 1]], [0.0, 0.5])\n"
        f"plots.regret_curves(r, path={str(tmp_path / 'c.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": "", "MPLCONFIGDIR": str(tmp_path)})


@pytest.mark.parametrize("draw", [plots.regret_curves, plots.regret_distribution])
@pytest.mark.parametrize("results", [None, {}, [make()], {"a": 3}, "r.npz"])
def test_bad_results(draw, results):
    with pytest.raises(ValueError, match=r"^results must be"):
        draw(results)


@pytest.mark.parametrize("band", [(0.9, 0.1), (0, 2), 0.5, "ab", (0.1, 0.5, 0.9), (0.1, float("nan"))])
def test_bad_band(band):
    with pytest.raises(ValueError, match=r"^band must be"):
        plots.regret_curves(make(), band=band)


def test_bad_axes_and_paths(tmp_path):
    for ax in (3, [Figure().subplots()]):
        with pytest.raises(ValueError, match=r"^ax must be"):
            plots.regret_curves(make(), ax=ax)
    for ax in (Figure().subplots(), [1, 2], Figure().subplots(1, 3)):
        with pytest.raises(ValueError, match=r"^ax must be"):
            plots.regret_distribution(make(), ax=ax)
    with pytest.raises(FileNotFoundError, match=r"^path must lie in an existing folder"):
        plots.regret_curves(make(), path=tmp_path / "no" / "c.png")
    with pytest.raises(ValueError, match=r"^path must end in a picture format"):
        plots.regret_curves(make(), path=tmp_path / "c.xyz")
