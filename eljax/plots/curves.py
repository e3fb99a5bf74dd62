"""Regret against time, and the distribution of the final regret, of results by name."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatter

from eljax.plots import drawing
from eljax.results import Result

MOST_POINTS = 4_000  # a distribution of a million runs is drawn from this many of its points


def regret_curves(
    results: Result | Mapping[str, Result],
    *,
    ax: Axes | None = None,
    path: str | os.PathLike | None = None,
    band: tuple[float, float] | None = (0.1, 0.9),
) -> Axes:
    """Mean (solid), median (dashed) and the band between two quantiles of pseudo-regret against the round t, log axis.

    `results` is one Result, or several by the names the legend shall show. `path` also writes the figure (PNG, or the
    format its suffix names). ValueError or OSError names the argument that is at fault.

    >>> result = Result.from_pulls([[[1, 1], [3, 1]]], [2, 4], [[1, 1]], [0.0, 0.5], provenance={"policy": "a"})
    >>> regret_curves(result).get_xlabel()
    'round t'
    """
    named, (axes,) = _named(results), drawing.axes_for(ax, 1, path)
    low, high = _band(band)
    for (label, result), (colour, marker) in zip(named.items(), drawing.styles(len(named)), strict=True):
        t = result.checkpoints
        dot = marker or ("o" if t.size == 1 else "")  # a line through one point would not show
        style = {"color": colour, "marker": dot, "markersize": 4, "markevery": max(1, t.size // 8)}
        if band is not None:
            fill = {"facecolor": (colour, 0.1), "edgecolor": (colour, 0.4), "linewidth": 0.7}  # edges: bands overlap
            axes.fill_between(t, result.quantile(low), result.quantile(high), **fill)
        axes.plot(t, result.median(), linestyle="--", linewidth=1.2, **style)
        axes.plot(t, result.mean(), linewidth=1.8, label=label, **style)
    axes.set_xscale("log")
    # A few trapped runs can lift a band far above every mean: it is cut rather than flatten all the curves.
    curve_top = max(float(np.max(line.get_ydata())) for line in axes.lines)
    band_top = 0.0 if band is None else max(float(np.max(r.quantile(high))) for r in named.values())
    top = max(1.05 * curve_top, min(1.05 * band_top, 1.8 * curve_top)) or 1.0
    axes.set_ylim(-0.02 * top, top)  # from just below 0, so that a curve of zeros shows above the frame
    axes.set(xlabel="round t", ylabel="pseudo-regret")
    axes.grid(alpha=0.25, linewidth=0.6)
    kinds = [
        Line2D([], [], color="0.35", linewidth=1.8, label="mean"),
        Line2D([], [], color="0.35", linewidth=1.2, linestyle="--", label="median"),
    ]
    if band is not None:
        kinds.append(Patch(color="0.35", alpha=0.2, linewidth=0, label=f"{100 * low:g}–{100 * high:g}% of runs"))
    axes.legend(handles=axes.get_legend_handles_labels()[0] + kinds, fontsize="small", frameon=False, loc="upper left")
    drawing.write(axes, path)
    return axes


def regret_distribution(
    results: Result | Mapping[str, Result],
    *,
    ax: Sequence[Axes] | None = None,
    path: str | os.PathLike | None = None,
) -> tuple[Axes, Axes]:
    """Distribution over runs of the final pseudo-regret: P[R(T) ≤ x], and P[R(T) > x] on two log axes.

    Arguments as for `regret_curves`, but `ax` is a pair of Axes. Runs without regret have no place on a log axis: they
    are the height at which a curve enters from the left. Where no run has regret, the x axis is linear.
    """
    named, (left, right) = _named(results), drawing.axes_for(ax, 2, path)
    finals = {label: np.sort(result.regret[:, -1]) for label, result in named.items()}
    positive = np.concatenate([final[final > 0] for final in finals.values()])
    start = positive.min() / 1.5 if positive.size else 0.0
    end = positive.max() * 1.5 if positive.size else 1.0
    for (label, final), (colour, marker) in zip(finals.items(), drawing.styles(len(named)), strict=True):
        style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.6, "drawstyle": "steps-post"}
        style |= {"label": label, "markevery": 0.1}
        values, last = np.unique(final, return_index=True)
        at_most = np.append(last[1:], final.size)  # runs with regret <= value
        kept = _thinned(values.size)
        values, at_most = values[kept], at_most[kept]
        none = np.count_nonzero(final <= start)
        x = np.concatenate([[start], values[values > start], [end]])
        share = np.concatenate([[none], at_most[values > start], [final.size]]) / final.size
        left.plot(x, share, **style)
        # The survival function is 0 from the largest regret on, which a log axis cannot show: it stops there.
        above = 1 - share[:-1]
        above[-1:] = above[-2:-1] if above.size > 1 else above[-1:]
        right.plot(x[:-1][above > 0], above[above > 0], **style)
    for axes in (left, right):
        if positive.size:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(LogFormatter())
            axes.xaxis.set_minor_formatter(LogFormatter())  # 50, not 5 × 10¹, where less than a decade is shown
        axes.set_xlim(start, end)
        axes.set_xlabel("x (final pseudo-regret)")
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(fontsize="small", frameon=False)
    left.set(ylabel="share of runs with regret ≤ x", ylim=(0, 1.02))
    smallest = 1 / max(final.size for final in finals.values())
    right.set_yscale("log")
    right.set(ylabel="share of runs with regret > x", ylim=(min(smallest / 1.5, 0.08), 1.3))
    if not positive.size:
        right.text(0.5, 0.5, "no run has regret", transform=right.transAxes, ha="center", color="0.35")
    drawing.write(left, path)
    return left, right


def _named(results: Any) -> dict[str, Result]:
    if isinstance(results, Result):
        results = {str(results.provenance.get("policy", "policy")): results}
    good = isinstance(results, Mapping) and len(results) > 0 and all(isinstance(r, Result) for r in results.values())
    if not good:
        raise ValueError(f"results must be a Result, or a dict of at least one by name, got {results!r:.80}")
    return {str(label): result for label, result in results.items()}


def _band(band: Any) -> tuple[float, float]:
    if band is None:
        return 0.0, 1.0
    try:
        low, high = (float(q) for q in band)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not 0 <= low < high <= 1:
        raise ValueError(f"band must be None or two increasing numbers in [0, 1], got {band!r:.80}")
    return low, high


def _thinned(size: int) -> np.ndarray:
    """Indices of at most MOST_POINTS of sorted values: evenly spread, and log-spaced from the top to keep the tail."""
    if size <= MOST_POINTS:
        return np.arange(size)
    even = np.linspace(0, size - 1, MOST_POINTS // 2)
    tail = size - np.geomspace(1, size, MOST_POINTS // 2)
    return np.unique(np.concatenate([even, tail]).astype(np.int64))
