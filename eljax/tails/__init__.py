"""Probabilities of large regret, however small, with error bars."""

from eljax.tails.choose import curve, estimate
from eljax.tails.dynamic_programme import exact
from eljax.tails.estimates import TailCurve, TailEstimate
from eljax.tails.exponent import ExponentFit, PowerLawFit, fit_exponent, fit_power_law

__all__ = [
    "ExponentFit",
    "PowerLawFit",
    "TailCurve",
    "TailEstimate",
    "curve",
    "estimate",
    "exact",
    "fit_exponent",
    "fit_power_law",
]
