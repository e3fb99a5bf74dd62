"""Probabilities of large regret, however small, with error bars."""

from eljax.tails.choose import estimate
from eljax.tails.dynamic_programme import exact
from eljax.tails.estimates import TailEstimate
from eljax.tails.exponent import ExponentFit, fit_exponent

__all__ = ["ExponentFit", "TailEstimate", "estimate", "exact", "fit_exponent"]
