"""Sweeps over bandits and policies, kept batch by batch in one store."""

from eljax.sweeps.cells import Grid, grid
from eljax.sweeps.run import sweep

__all__ = ["Grid", "grid", "sweep"]
