"""Figures of sweeps: they show the numbers, draw odd sweeps without a warning, and say what is wrong."""

import warnings

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from eljax import comparisons, plots

PNG = b"\x89PNG\r\n\x1a\n"
T = [1, 10, 100]


def sweep(radii=(0.0, 1.0, 3.0), schedules=("g1", "g2"), bandits=("a", "b"), runs=30, scale=1.0, seed=0):
    shape = (len(bandits), len(schedules), len(radii), runs, len(T))
    regret = scale * np.random.default_rng(seed).exponential(size=shape).cumsum(-1)
    dims = ("bandit", "schedule", "radius", "run", "checkpoint")
    names = {"bandit": list(bandits), "schedule": list(schedules), "radius": list(radii), "checkpoint": T}
    return xr.Dataset({"regret": (dims, regret)}, names)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


ODD = {
    "ordinary": sweep(),
    "one run": sweep(runs=1),
    "one of each": sweep(radii=(2.0,), schedules=("g",), bandits=("a",)),
    "words": sweep(radii=("0", "1", "loglog t + 3")),
    "no regret": sweep(scale=0.0),
    "huge": sweep(scale=1e200),
}


@pytest.mark.parametrize("name", ODD)
def test_every_sweep_can_be_drawn(tmp_path, name):
    data = ODD[name]
    shape = data.sizes["schedule"], data.sizes["bandit"]
    assert plots.ablation_curve(data, path=tmp_path / "a.png").shape == shape
    assert plots.heat_map(data, "radius", "schedule", path=tmp_path / "h.png").shape == (1, shape[1])
    assert plots.regret_facets(data, path=tmp_path / "f.png").shape == shape
    assert all((tmp_path / f"{letter}.png").read_bytes().startswith(PNG) for letter in "ahf")


def test_the_ablation_curve_shows_the_numbers():
    data = sweep()
    panels = plots.ablation_curve(data, at=10)
    axes = panels[1, 0]
    assert axes.get_title() == "a, schedule g2"
    assert (panels[1, 0].get_xlabel(), panels[0, 0].get_ylabel()) == ("radius", "pseudo-regret (units of the reward)")
    x = data.regret.sel(bandit="a", schedule="g2", checkpoint=10).values
    lines = [bar.lines[0] for bar in axes.containers]
    for line, expected in zip(lines, (x.mean(-1), np.median(x, -1), comparisons.cvar(x, 0.95)), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [0, 1, 3])
        np.testing.assert_allclose(line.get_ydata(), expected)
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 3  # told apart in grey
    (bar,) = axes.containers[1].lines[2]
    ends = [segment[:, 1] for segment in bar.get_segments()]
    np.testing.assert_allclose(ends, [comparisons.quantile_interval(row, 0.5) for row in x])
    assert [t.get_text() for t in panels[0, 0].figure.legends[0].get_texts()] == ["mean", "median", "CVaR 95%"]


def test_one_grid_among_policies_by_name():
    data = sweep(schedules=("g1",)).isel(schedule=0).rename(radius="policy")
    data = data.assign_coords(policy=["forcing", "el, radius=1", "el, radius=3"], radius=("policy", [np.nan, 1.0, 3.0]))
    axes = plots.ablation_curve(data.isel(policy=[1, 2]).swap_dims(policy="radius"))[0, 0]
    np.testing.assert_array_equal(axes.containers[0].lines[0].get_xdata(), [1, 3])


def test_the_heat_map_shows_the_numbers():
    data = sweep()
    axes = plots.heat_map(data, "radius", "schedule", statistic="median")[0, 1]
    expected = np.median(data.regret.sel(bandit="b", checkpoint=100).values, -1)
    np.testing.assert_allclose(axes.images[0].get_array(), expected)
    assert len(axes.texts) == expected.size
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0", "1", "3"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("radius", "schedule", "b")
    colorbar = [a for a in axes.figure.axes if a.get_label() == "<colorbar>"]
    assert colorbar[0].get_ylabel() == "median pseudo-regret (units of the reward)"


def test_the_facets_show_the_numbers():
    data = sweep()
    axes = plots.regret_facets(data)[0, 1]
    cell = data.regret.sel(bandit="b", schedule="g1", radius=1.0).transpose("run", "checkpoint").values
    dashed, solid = axes.lines[2:4]
    np.testing.assert_allclose(solid.get_ydata(), cell.mean(0))
    np.testing.assert_allclose(dashed.get_ydata(), np.median(cell, 0))
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert len({line.get_marker() for line in axes.lines}) == 3
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("data", lambda data, path: plots.ablation_curve(3)),
        ("data", lambda data, path: plots.regret_facets(sweep(radii=range(13)))),
        ("x", lambda data, path: plots.ablation_curve(data, "radios")),
        ("x", lambda data, path: plots.heat_map(data, "run", "radius")),
        ("y", lambda data, path: plots.heat_map(data, "radius", "radius")),
        ("statistic", lambda data, path: plots.heat_map(data, "radius", "schedule", statistic="mode")),
        ("at", lambda data, path: plots.ablation_curve(data, at=3)),
        ("path", lambda data, path: plots.regret_facets(data, path=path / "c.xyz")),
    ],
)
def test_bad_arguments(tmp_path, name, draw):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        draw(sweep(), tmp_path)


def test_figures_are_unknown_to_pyplot():
    assert type(plots.regret_facets(sweep())[0, 0].figure) is Figure
