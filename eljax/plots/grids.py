"""Figures of sweeps: against one parameter, over two, and against time; one panel per bandit.

`data` is the `xarray.Dataset` of `eljax.sweep`, or its store as `xarray.open_zarr` gives it. Curves differ in marker
and line style, and heat maps in lightness, so that all can be read in grey.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from eljax import comparisons
from eljax.plots import drawing
from eljax.results import readable, writable

UNITS = "units of the reward"
REGRET = f"pseudo-regret ({UNITS})"
MOST_CURVES = 12  # in one panel
WIDE = 6.0  # largest over smallest value from which an axis is logarithmic
# Statistics of the regret x [R] of a cell; those of an ablation curve have a line style and a marker.
STATISTICS: Mapping[str, Callable[[np.ndarray], float]] = {
    "mean": np.mean,
    "median": np.median,
    "CVaR 95%": partial(comparisons.cvar, level=0.95),
}
LINES = {"mean": ("-", "o"), "median": ("--", "s"), "CVaR 95%": (":", "^")}


def ablation_curve(data: Any, x: str = "radius", *, at: int | None = None, path: Any = None) -> np.ndarray:
    """Mean, median and CVaR of the regret after round `at` (default the last checkpoint) against a parameter.

    Bars are 95% intervals (`eljax.comparisons`). Columns are bandits, rows the values of the other parameters. Of a
    sweep of policies by name, select those of one grid and make its parameter a dimension by
    `swap_dims(policy="radius")`. Returns the Axes [rows, columns].

    >>> import eljax
    >>> bandit = eljax.Bandit([eljax.bernoulli(0.6), eljax.bernoulli(0.4)])
    >>> scales = eljax.grid(eljax.policies.ucb, sigma=[0.25, 0.5])
    >>> data = eljax.sweep(bandit, scales, horizon=30, runs=16, progress=False)
    >>> ablation_curve(data, "sigma")[0, 0].get_xlabel()
    'sigma'
    """
    final = _final(data, at, path)
    _need_dim(final, "x", x)
    rows = _combinations(final, [dim for dim in _policy_dims(final) if dim != x])
    figure, panels = _panels(len(rows), final.bandit.size, (3.4, 2.9))
    positions, labels = _positions(final[x].values)
    for (axes, row), bandit in _places(panels, rows, final.bandit.values):
        for (name, statistic), colour in zip(STATISTICS.items(), drawing.COLOURS, strict=False):
            cells = [final.sel({**row, "bandit": bandit}).isel({x: i}).values for i in range(len(positions))]
            values = np.array([statistic(cell) for cell in cells])
            style, marker = LINES[name]
            look = {"color": colour, "linestyle": style, "marker": marker, "markersize": 4, "label": name}
            axes.errorbar(positions, values, _bars(name, values, cells), capsize=2, elinewidth=0.8, **look)
        _log_if_wide(axes)
        axes.grid(alpha=0.25, linewidth=0.6)
        if labels is not None:
            axes.set_xticks(positions, labels, rotation=30, ha="right")
    for axes in panels[-1]:
        axes.set_xlabel(x)
    for axes in panels[:, 0]:
        axes.set_ylabel(REGRET)
    _legend(figure, panels[0, 0].get_legend_handles_labels())
    drawing.write(panels[0, 0], path)
    return panels


def heat_map(
    data: Any, x: str, y: str, *, statistic: str = "mean", at: int | None = None, path: Any = None
) -> np.ndarray:
    """A statistic of the regret after round `at` over two parameters: "mean", "median" or "CVaR 95%".

    Each bandit has its own scale, for its own unit; each cell shows its number. Other parameters give rows of panels.
    Returns the Axes [rows, columns].
    """
    final = _final(data, at, path)
    _need_dim(final, "x", x)
    _need_dim(final, "y", y)
    if x == y:
        raise ValueError(f"y must be another dimension than x, got {y!r}")
    if statistic not in STATISTICS:
        raise ValueError(f"statistic must be one of {', '.join(STATISTICS)}, got {statistic!r}")
    rows = _combinations(final, [dim for dim in _policy_dims(final) if dim not in (x, y)])
    widths = 1.6 + 0.62 * final.sizes[x], 1.5 + 0.42 * final.sizes[y]
    figure, panels = _panels(len(rows), final.bandit.size, (max(widths[0], 3.4), max(widths[1], 2.4)))
    for (axes, row), bandit in _places(panels, rows, final.bandit.values):
        cells = final.sel({**row, "bandit": bandit}).transpose(y, x, "run").values
        values = np.apply_along_axis(STATISTICS[statistic], -1, cells)
        picture = axes.imshow(values, cmap="cividis", origin="lower", aspect="auto")
        for (i, j), value in np.ndenumerate(values):
            light = picture.norm(value) > 0.5
            axes.text(j, i, readable(value, 3), ha="center", va="center", color="black" if light else "white", size=8)
        for name, axis in ((x, axes.xaxis), (y, axes.yaxis)):
            axis.set_ticks(range(final.sizes[name]), [_text(label) for label in final[name].values])
            axis.set_label_text(name)
        figure.colorbar(picture, ax=axes, label=f"{statistic} {REGRET}")
    drawing.write(panels[0, 0], path)
    return panels


def regret_facets(data: Any, *, path: Any = None) -> np.ndarray:
    """Mean (solid) and median (dashed) regret against the round: a column per bandit, a curve per policy.

    With several parameters the last one gives the curves, the others the rows. Numbers are coloured from dark to light.
    ValueError where a panel would have more than 12 curves. Returns the Axes [rows, columns].
    """
    regret = _regret(data, path)
    *others, last = _policy_dims(regret)
    labels = regret[last].values
    if labels.size > MOST_CURVES:
        raise ValueError(f"data must have at most {MOST_CURVES} labels of {last}, select some: got {labels.size}")
    numbers = np.issubdtype(labels.dtype, np.number)
    shades = [colormaps["viridis"](0.9 * i / max(labels.size - 1, 1)) for i in range(labels.size)]
    looks = [(shade, "osD^vPX*<>ph"[i]) for i, shade in enumerate(shades)] if numbers else drawing.styles(labels.size)
    rows = _combinations(regret, others)
    figure, panels = _panels(len(rows), regret.bandit.size, (3.6, 2.9))
    for (axes, row), bandit in _places(panels, rows, regret.bandit.values):
        for label, (colour, marker) in zip(labels, looks, strict=True):
            cell = regret.sel({**row, last: label, "bandit": bandit}).transpose("run", "checkpoint").values
            t = regret.checkpoint.values
            look = {"color": colour, "marker": marker, "markersize": 3.5, "markevery": max(1, t.size // 6)}
            axes.plot(t, np.median(cell, 0), linestyle="--", linewidth=0.9, **look)
            axes.plot(t, cell.mean(0), linewidth=1.5, label=_text(label), **look)
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis)
        axes.grid(alpha=0.25, linewidth=0.6)
    for axes in panels[-1]:
        axes.set_xlabel("round t")
    for axes in panels[:, 0]:
        axes.set_ylabel(REGRET)
    handles, names = panels[0, 0].get_legend_handles_labels()
    kinds = [Line2D([], [], color="0.35", linestyle=style) for style in ("-", "--")]
    prefix = "" if last == "policy" else f"{last} "
    _legend(figure, (handles + kinds, [prefix + name for name in names] + ["mean", "median"]))
    drawing.write(panels[0, 0], path)
    return panels


def _regret(data: Any, path: Any) -> Any:
    if path is not None:
        writable(path)
    try:
        return data["regret"].sel()
    except (KeyError, TypeError, AttributeError):
        raise ValueError(f"data must be the Dataset of eljax.sweep, got {type(data).__name__}") from None


def _final(data: Any, at: int | None, path: Any) -> Any:
    _regret(data, path)
    return comparisons.regret_at(data, at)[0]


def _policy_dims(regret: Any) -> list[str]:
    return [dim for dim in regret.dims if dim not in ("bandit", "run", "checkpoint")]


def _need_dim(regret: Any, name: str, dim: Any) -> None:
    if dim not in _policy_dims(regret):
        raise ValueError(f"{name} must be one of {', '.join(_policy_dims(regret))}, got {dim!r}")


def _combinations(regret: Any, dims: list[str]) -> list[dict]:
    return [dict(zip(dims, labels, strict=True)) for labels in itertools.product(*(regret[dim].values for dim in dims))]


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(size[0] * columns + 0.4, size[1] * rows + 0.7), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _places(panels: np.ndarray, rows: list[dict], bandits: np.ndarray) -> Any:
    """((Axes, row), bandit) of every panel, with a title that says which it is."""
    for (i, row), (j, bandit) in itertools.product(enumerate(rows), enumerate(bandits)):
        names = [str(bandit), *(f"{dim} {_text(label)}" for dim, label in row.items())]
        panels[i, j].set_title(", ".join(names), size="medium")
        yield (panels[i, j], row), bandit


def _positions(values: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Where the values lie on an axis, and their labels where that does not show them."""
    if np.issubdtype(values.dtype, np.number):
        return values.astype(np.float64), None
    return np.arange(values.size, dtype=np.float64), [_text(value) for value in values]


def _bars(name: str, values: np.ndarray, cells: list[np.ndarray]) -> np.ndarray:
    """[2, n]: how far the interval of a statistic reaches below and above."""
    if name == "median":
        ends = [comparisons.quantile_interval(cell, 0.5) for cell in cells]
    else:
        ends = [comparisons.interval(cell, partial(STATISTICS[name], axis=-1)) for cell in cells]
    low, high = np.array(ends).T
    reach = np.stack([values - low, high - values])
    return np.where(np.isfinite(reach), np.maximum(reach, 0), 0)  # one run has no interval to show


def _log_if_wide(axes: Axes) -> None:
    values = np.concatenate([line.get_ydata() for line in axes.lines])
    positive = values[values > 0]
    if positive.size == values.size and positive.max() > WIDE * positive.min():
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis)


def _plain_ticks(axis: Any) -> None:
    """100 and, where less than a decade is shown, 50: not 10² and 5 × 10¹."""
    axis.set_major_formatter(LogFormatter())
    axis.set_minor_formatter(LogFormatter())


def _legend(figure: Figure, entries: tuple[list, list]) -> None:
    width = figure.get_size_inches()[0]
    lines = math.ceil(len(entries[0]) * 1.4 / width)
    columns = math.ceil(len(entries[0]) / lines)
    figure.legend(*entries, loc="outside upper center", ncols=columns, frameon=False, fontsize="small")


def _text(label: Any) -> str:
    return f"{label:g}" if isinstance(label, int | float | np.number) else str(label)
