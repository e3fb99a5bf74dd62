"""Figures of tail estimates: survival curves, exponent fits, the levels of splitting."""

import os
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

from eljax.plots.drawing import COLOURS, MARKERS, axes_for, write
from eljax.tails.estimates import TailCurve, TailEstimate
from eljax.tails.exponent import ExponentFit


def survival_curves(
    curves: TailCurve | Mapping[str, TailCurve],
    *,
    ax: Axes | None = None,
    path: str | os.PathLike | None = None,
) -> Axes:
    """P[R(T) > x] against x on two log axes, with 95% intervals; hollow points are not to be trusted.

    `curves` is one curve of `eljax.tails.curve`, or several by the names the legend shall show. Estimates without a
    number (no hit, or useless weights) are drawn as upper ends of their interval, pointing down. ValueError or OSError
    names the argument that is at fault.

    >>> one = TailEstimate(-2.0, 0.1, -2.2, -1.8, "importance", 100, 50.0, setting={"threshold": 3.5})
    >>> survival_curves(TailCurve((one,))).get_yscale()
    'log'
    """
    named, (axes,) = _named("curves", curves, TailCurve), axes_for(ax, 1, path)
    for (label, curve), (colour, marker) in zip(named.items(), _styles(), strict=False):
        order = np.argsort(curve.thresholds)
        estimates = [curve.estimates[i] for i in order]
        shown = [one for one in estimates if np.isfinite(one.log_prob)]
        x = [one.setting["threshold"] for one in shown]
        middle, low, high = (np.exp([getattr(e, k) for e in shown]) for k in ("log_prob", "log_lower", "log_upper"))
        axes.errorbar(
            x, middle, yerr=[middle - np.minimum(low, middle), np.maximum(high, middle) - middle], color=colour,
            linewidth=1.2, elinewidth=1, capsize=2, label=label,
        )  # fmt: skip
        faces = [colour if one.trusted else "white" for one in shown]
        axes.scatter(x, middle, s=22, marker=marker, c=faces, edgecolors=colour, zorder=3)
        bounds = [e for e in estimates if not np.isfinite(e.log_prob) and np.isfinite(e.log_upper)]
        if bounds:
            tops = np.exp([e.log_upper for e in bounds])
            axes.scatter([e.setting["threshold"] for e in bounds], tops, s=30, marker=r"$\downarrow$", color=colour)
    axes.set(xscale="log", yscale="log", xlabel="x (pseudo-regret)", ylabel="P[R(T) > x]")
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.xaxis.set_minor_formatter(LogFormatter())
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(fontsize="small", frameon=False)
    write(axes, path)
    return axes


def exponent_fit(
    fits: ExponentFit | Mapping[str, ExponentFit],
    *,
    ax: Axes | None = None,
    path: str | os.PathLike | None = None,
) -> Axes:
    """−log P (less ½ log n where that was taken off) against n, with the fitted lines; arguments as above.

    >>> from eljax.tails import fit_exponent
    >>> exponent_fit(fit_exponent([10.0, 20.0, 30.0], [-5.0, -10.2, -15.0])).get_xlabel()
    'n (forced pulls of an arm when the event is decided)'
    """
    named, (axes,) = _named("fits", fits, ExponentFit), axes_for(ax, 1, path)
    for (label, fit), (colour, marker) in zip(named.items(), _styles(), strict=False):
        line = np.array([fit.n.min(), fit.n.max()])
        text = f"{label}: slope {fit.slope:.4g} ± {fit.standard_error:.1g}"
        axes.plot(line, fit.intercept + fit.slope * line, color=colour, linewidth=1.2, label=text)
        given = fit.intercept + fit.slope * fit.n - fit.residuals
        axes.errorbar(fit.n, given, yerr=fit.errors, color=colour, fmt=marker, ms=4, capsize=2)
    what = "−log P − ½ log n" if all(fit.prefactor for fit in named.values()) else "−log P"
    axes.set(xlabel="n (forced pulls of an arm when the event is decided)", ylabel=f"{what} (nats)")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(fontsize="small", frameon=False)
    write(axes, path)
    return axes


def splitting_levels(
    estimates: TailEstimate | Mapping[str, TailEstimate],
    *,
    ax: Axes | None = None,
    path: str | os.PathLike | None = None,
) -> Axes:
    """Splitting, level by level: the share of particles that reached each level from the one before, log axis.

    Shares near ¼ to ½ are what levels are chosen for; one far below says that the score jumps there.

    >>> one = TailEstimate(-2.0, 0.1, -2.2, -1.8, "splitting", 100, 50.0, shares=(0.5, 0.27))
    >>> splitting_levels(one).get_xlabel()
    'level (the last one is the event)'
    """
    named, (axes,) = _named("estimates", estimates, TailEstimate), axes_for(ax, 1, path)
    if not all(one.shares for one in named.values()):
        raise ValueError("estimates must be of method 'splitting', with the shares of their levels")
    for (label, one), (colour, marker) in zip(named.items(), _styles(), strict=False):
        levels = np.arange(1, len(one.shares) + 1)
        text = f"{label}: P = {one.probability:.2g} ± {one.relative_error:.0%}"
        axes.plot(levels, one.shares, color=colour, marker=marker, ms=4, linewidth=1.2, label=text)
    axes.set(
        yscale="log",
        ylim=(None, 1.0),
        xlabel="level (the last one is the event)",
        ylabel="share that got there from the level before",
    )
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(fontsize="small", frameon=False)
    write(axes, path)
    return axes


def _named(name: str, given: Any, kind: type) -> dict[str, Any]:
    if isinstance(given, kind):
        label = getattr(given, "setting", None) or (given.estimates[0].setting if kind is TailCurve else {})
        given = {str(label.get("policy", "fit")): given}
    good = isinstance(given, Mapping) and len(given) > 0 and all(isinstance(one, kind) for one in given.values())
    if not good:
        raise ValueError(f"{name} must be a {kind.__name__}, or a dict of at least one by name, got {given!r:.80}")
    return {str(label): one for label, one in given.items()}


def _styles() -> Iterator[tuple[str, str]]:
    """Colours with a marker each, so that points differ in grey, too."""
    return zip(cycle(COLOURS), cycle(MARKERS[1:]), strict=False)
