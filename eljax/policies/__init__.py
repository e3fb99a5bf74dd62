"""Bandit policies, one file each: every function here returns an `eljax.types.Policy`."""

from eljax.policies.ahb import ahb
from eljax.policies.bds import bds
from eljax.policies.el_f import el_f
from eljax.policies.el_ucb import el_ucb
from eljax.policies.empirical_kl_ucb import empirical_kl_ucb
from eljax.policies.fe import fe
from eljax.policies.g_forcing import g_forcing
from eljax.policies.imed import imed
from eljax.policies.ism_normal import ism_normal
from eljax.policies.kl_ucb import kl_ucb
from eljax.policies.npts import npts
from eljax.policies.r_ucb import r_ucb
from eljax.policies.rds import rds
from eljax.policies.tail_safe_ucb import tail_safe_ucb
from eljax.policies.thompson import thompson
from eljax.policies.ucb import ucb
from eljax.policies.ucb_v import ucb_v

__all__ = [
    "ahb",
    "bds",
    "el_f",
    "el_ucb",
    "empirical_kl_ucb",
    "fe",
    "g_forcing",
    "imed",
    "ism_normal",
    "kl_ucb",
    "npts",
    "r_ucb",
    "rds",
    "tail_safe_ucb",
    "thompson",
    "ucb",
    "ucb_v",
]
