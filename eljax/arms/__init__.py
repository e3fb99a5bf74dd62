"""Reward laws and bandits. To add a law, read the top of base.py."""

from eljax.arms import parametric, tilted
from eljax.arms.bandit import Bandit
from eljax.arms.base import Arm
from eljax.arms.closed_form import clipped_gaussian, exponential, gaussian, laplace, pareto, uniform
from eljax.arms.discrete import bernoulli, dirac, discrete, empirical, two_point
from eljax.arms.instances import paper_instances
from eljax.arms.law import Law, reward
from eljax.arms.tabulated import beta, gamma, student_t

__all__ = [
    "Arm",
    "Bandit",
    "Law",
    "bernoulli",
    "beta",
    "clipped_gaussian",
    "dirac",
    "discrete",
    "empirical",
    "exponential",
    "gamma",
    "gaussian",
    "laplace",
    "paper_instances",
    "parametric",
    "pareto",
    "reward",
    "student_t",
    "tilted",
    "two_point",
    "uniform",
]
