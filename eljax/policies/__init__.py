"""Bandit policies, one file each: every function here returns an `eljax.types.Policy`."""

from eljax.policies.bds import bds
from eljax.policies.el_f import el_f
from eljax.policies.el_ucb import el_ucb
from eljax.policies.empirical_kl_ucb import empirical_kl_ucb
from eljax.policies.g_forcing import g_forcing
from eljax.policies.npts import npts
from eljax.policies.rds import rds
from eljax.policies.ucb import ucb

__all__ = ["bds", "el_f", "el_ucb", "empirical_kl_ucb", "g_forcing", "npts", "rds", "ucb"]
