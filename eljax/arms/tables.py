"""Quantile tables: piecewise polynomials of degree 7 in p, on a grid nearly uniform in log p.

Each octave [2^-k, 2^(1-k)) of p between 2^-64 and 1/2 is cut into 8 equal cells, 504 in all. Sign, exponent and first
mantissa bits of p are the number of the cell, the remaining bits the place in it, so finding them takes three integer
operations and no logarithm; the 8 coefficients of a cell lie side by side (a cache line).

Both ends of a cell are among its interpolation nodes (Chebyshev-Lobatto), so neighbouring pieces meet, and a table of
an increasing function increases, to rounding. The interpolated function g must be nearly linear in p or log p: a
relative error of x is an absolute error of log x.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

OCTAVES, CELL_BITS, DEGREE = 63, 3, 7
CELLS = OCTAVES * 2**CELL_BITS + 1  # per tail; the last is p = 1/2 itself

_START = np.outer(2.0 ** np.arange(-64, -1), 1 + np.arange(2**CELL_BITS) / 2**CELL_BITS).ravel()  # [CELLS - 1]
_WIDTH = np.repeat(2.0 ** np.arange(-64, -1) / 2**CELL_BITS, 2**CELL_BITS)
_NODES = -np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)  # in [-1, 1], ends included
_TO_COEFFICIENTS = np.linalg.inv(np.vander(_NODES, increasing=True))
GRID = _START[:, None] + _WIDTH[:, None] * (_NODES + 1) / 2  # [CELLS - 1, DEGREE + 1]: where a table needs g


def build(function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Coefficients [CELLS, DEGREE + 1] of g(p), of which `function` gives the values at an array of p."""
    values = function(GRID)
    offset = values[:, :1]  # interpolate differences: less rounding where g is large
    coefficients = (values - offset) @ _TO_COEFFICIENTS.T
    coefficients[:, 0] += offset[:, 0]
    middle = np.zeros((1, DEGREE + 1))
    middle[0, 0] = values[-1, -1]
    return np.concatenate([coefficients, middle])


def evaluate(table: jax.Array, first_row: jax.Array, p: jax.Array) -> jax.Array:
    """g(p), from the table that begins at `first_row` [] int32 of `table` [rows, DEGREE + 1]."""
    cell, u = _locate(p)
    row, table = first_row + cell, jnp.asarray(table)
    # One scalar read per coefficient, of one cache line: reads fuse with the arithmetic, a gathered row [8] does not
    # (on a CPU 20 ns against 30 per draw, and 35 against 70 beside a second family).
    g = jnp.zeros_like(p)
    for k in range(DEGREE, -1, -1):
        g = g * u + table.at[row, k].get(mode="promise_in_bounds")
    return g


def _locate(p: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cell number [] int32 and place u in [-1, 1) in it, both exact, from the bits of p in [2^-64, 1/2]."""
    width, mantissa, bias = (jnp.int64, 52, 1023) if p.dtype == jnp.float64 else (jnp.int32, 23, 127)
    bits = lax.bitcast_convert_type(p, width)
    cell = lax.shift_right_logical(bits, width(mantissa - CELL_BITS)) - width((bias - 64) << CELL_BITS)
    rest = (bits & width((1 << (mantissa - CELL_BITS)) - 1)) << width(CELL_BITS)
    fraction = lax.bitcast_convert_type(rest | width(bias << mantissa), p.dtype)  # in [1, 2)
    return cell.astype(jnp.int32), 2 * fraction - 3
