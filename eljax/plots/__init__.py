"""Figures: regret against time, its distribution, its tails.

Functions return the Axes they drew into and keep no global state: without `ax` they make a plain `Figure`, which
works without a display, is never registered with pyplot, and is collected with its last reference. In a notebook show
it with `ax.figure` as the last line of a cell, or pass `ax=` of a pyplot figure.
"""

from eljax.plots.frame import COLOURS, MARKERS, styles
from eljax.plots.regret import regret_curves, regret_distribution
from eljax.plots.tails import exponent_fit, splitting_levels, survival_curves

__all__ = [
    "COLOURS",
    "MARKERS",
    "exponent_fit",
    "regret_curves",
    "regret_distribution",
    "splitting_levels",
    "styles",
    "survival_curves",
]
