"""Probabilities of large regret, however small, with error bars."""

from eljax.tails.choose import estimate
from eljax.tails.dynamic_programme import exact
from eljax.tails.estimates import TailEstimate

__all__ = ["TailEstimate", "estimate", "exact"]
