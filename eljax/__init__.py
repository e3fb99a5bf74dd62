"""Stochastic bandits under empirical-likelihood policies, simulated in JAX."""

from importlib.metadata import version as _version

from eljax import comparisons, datasets, plots, policies, relaxed, sensitivity, sweeps, tails
from eljax.arms import (
    Bandit,
    bernoulli,
    beta,
    clipped_gaussian,
    dirac,
    discrete,
    empirical,
    exponential,
    gamma,
    gaussian,
    laplace,
    paper_instances,
    pareto,
    student_t,
    two_point,
    uniform,
)
from eljax.empirical_likelihood import el_index, el_interval, el_weights, log_el
from eljax.engine import simulate
from eljax.results import Result
from eljax.schedules import log_loglog, log_power, log_schedule, log_squared, loglog_radius
from eljax.sweeps import grid, sweep

__version__ = _version("eljax")

__all__ = [
    "Bandit",
    "Result",
    "bernoulli",
    "beta",
    "clipped_gaussian",
    "comparisons",
    "datasets",
    "dirac",
    "discrete",
    "el_index",
    "el_interval",
    "el_weights",
    "empirical",
    "exponential",
    "gamma",
    "gaussian",
    "grid",
    "laplace",
    "log_el",
    "log_loglog",
    "log_power",
    "log_schedule",
    "log_squared",
    "loglog_radius",
    "paper_instances",
    "pareto",
    "plots",
    "policies",
    "relaxed",
    "sensitivity",
    "simulate",
    "student_t",
    "sweep",
    "sweeps",
    "tails",
    "two_point",
    "uniform",
]
