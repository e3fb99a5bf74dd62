"""What all figures share: colours, the Axes they draw into, and writing them to a file."""

import os
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eljax.results import writable

# Okabe and Ito's palette without its yellow, which is too pale for lines: distinct under colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("", "o", "s", "^", "D", "v")  # one per turn through the colours, so that more than seven still differ


def axes_for(ax: Any, count: int, path: Any) -> Sequence[Axes]:
    """The Axes to draw into; checks `path` too, so that a bad one fails before the work."""
    if path is not None:
        writable(path)
    if ax is None:
        figure = Figure(figsize=(6.4 if count == 1 else 10.4, 4.4), layout="constrained")
        return figure.subplots(1, count, squeeze=False)[0]
    given = [ax] if count == 1 else ax
    if (
        not isinstance(given, Sequence | np.ndarray)
        or len(given) != count
        or not all(isinstance(a, Axes) for a in given)
    ):
        allowed = "a matplotlib Axes" if count == 1 else f"a sequence of {count} matplotlib Axes"
        raise ValueError(f"ax must be {allowed}, got {ax!r:.80}")
    return given


def styles(count: int) -> list[tuple[str, str]]:
    """(colour, marker) of so many curves."""
    return [(c, MARKERS[i // len(COLOURS) % len(MARKERS)]) for i, c in enumerate(islice(cycle(COLOURS), count))]


def write(axes: Axes, path: Any) -> None:
    """Write the figure of the Axes, if there is a path."""
    if path is None:
        return
    suffix = os.path.splitext(path)[1][1:].lower() or "png"
    figure = axes.get_figure(root=True)
    if suffix not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"path must end in a picture format such as .png, got {str(path)!r:.80}")
    figure.savefig(path, format=suffix, dpi=150)
