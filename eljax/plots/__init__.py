"""Figures of results (regret curves, distributions), sweeps (ablations, heat maps, facets) and tails.

Functions return the Axes they drew into and keep no global state: without `ax` they make a plain `Figure`, which
works without a display, is never registered with pyplot, and is collected with its last reference. In a notebook show
it with `ax.figure` as the last line of a cell, or pass `ax=` of a pyplot figure.
"""

from eljax.plots.curves import MOST_POINTS, regret_curves, regret_distribution
from eljax.plots.drawing import COLOURS, MARKERS, styles
from eljax.plots.grids import ablation_curve, heat_map, regret_facets
from eljax.plots.tails import exponent_fit, splitting_levels, survival_curves

__all__ = [
    "COLOURS",
    "MARKERS",
    "MOST_POINTS",
    "ablation_curve",
    "exponent_fit",
    "heat_map",
    "regret_curves",
    "regret_distribution",
    "regret_facets",
    "splitting_levels",
    "styles",
    "survival_curves",
]
