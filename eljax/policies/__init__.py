"""Bandit policies, one file each: every function here returns an `eljax.types.Policy`."""

from eljax.policies.ahb import ahb
from eljax.policies.el_f import el_f
from eljax.policies.el_ucb import el_ucb
from eljax.policies.fe import fe
from eljax.policies.g_forcing import g_forcing
from eljax.policies.ucb import ucb

__all__ = ["ahb", "el_f", "el_ucb", "fe", "g_forcing", "ucb"]
