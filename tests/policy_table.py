"""Every policy, with what the contract tests need to know of it. A new policy gets one line here."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import eljax
from eljax.types import Policy


class Entry(NamedTuple):
    """A policy and what is true of it. The key of an entry starts with the policy's name."""

    make: Callable[[], Policy]
    varied: Callable[[], Policy]  # the same family with other hyperparameters: must not compile again
    scale_free: bool = True  # X -> aX changes no choice
    shift_free: bool = True  # X -> X + b changes no choice
    forces: bool = True  # the opening pulls are forced exploration
    opening: int = 1  # pulls of each arm, in order, before anything else
    unit: bool = False  # made for rewards in [0, 1]
    random: bool = False  # uses its key beyond ties
    in_turn: bool = False  # explores in the order of the opening for ever, so the order of the arms keeps mattering
    equal: str | None = "first"  # arms that look the same: always the "first", in "turns", or None (neither)


G2 = eljax.log_squared()
HISTORY = {"forces": False, "random": True, "equal": None}
BOUNDED = {"scale_free": False, "shift_free": False, "unit": True}
TABLE = {
    "ahb": Entry(eljax.policies.ahb, eljax.policies.ahb, forces=False, random=True, equal=None),
    "el_f": Entry(
        lambda: eljax.policies.el_f(eljax.log_schedule(1.0), 3.0),
        lambda: eljax.policies.el_f(eljax.log_schedule(4.0), 8.0),
    ),
    "el_f radius 0": Entry(  # the schedule of "el_f": the same program
        lambda: eljax.policies.el_f(eljax.log_schedule(1.0), 0.0),
        lambda: eljax.policies.el_f(eljax.log_schedule(4.0), 1e-6),
    ),
    "el_f moving radius": Entry(
        lambda: eljax.policies.el_f(G2, eljax.loglog_radius(3.0)),
        lambda: eljax.policies.el_f(G2, eljax.loglog_radius(1.0)),
    ),
    "g_forcing": Entry(
        lambda: eljax.policies.g_forcing(eljax.log_schedule(1.0)),
        lambda: eljax.policies.g_forcing(eljax.log_schedule(2.0)),
    ),
    "el_f exact": Entry(
        lambda: eljax.policies.el_f(G2, 3.0, index="exact"), lambda: eljax.policies.el_f(G2, 0.5, index="exact")
    ),
    "el_f fallback": Entry(
        lambda: eljax.policies.el_f(G2, 3.0).fallback, lambda: eljax.policies.el_f(G2, 0.5).fallback
    ),
    "fe sqrt": Entry(
        lambda: eljax.policies.fe("sqrt", 40), lambda: eljax.policies.fe("sqrt", 4_000), in_turn=True, equal=None
    ),
    "fe linear": Entry(
        lambda: eljax.policies.fe("linear"), lambda: eljax.policies.fe("linear"), in_turn=True, equal=None
    ),
    "fe exponential": Entry(
        lambda: eljax.policies.fe("exponential", 40),
        lambda: eljax.policies.fe("exponential", 4_000),
        in_turn=True,
        equal=None,
    ),
    "el_ucb": Entry(
        lambda: eljax.policies.el_ucb(eljax.log_schedule(1.0)), lambda: eljax.policies.el_ucb(eljax.log_schedule(2.0))
    ),
    "rds": Entry(lambda: eljax.policies.rds("sqrt_log"), lambda: eljax.policies.rds("sqrt_log"), **HISTORY),
    "rds log": Entry(lambda: eljax.policies.rds("log"), lambda: eljax.policies.rds("log"), **HISTORY),
    "bds": Entry(lambda: eljax.policies.bds(1.0), lambda: eljax.policies.bds(2.0), **(HISTORY | BOUNDED)),
    "npts": Entry(lambda: eljax.policies.npts(1.0), lambda: eljax.policies.npts(2.0), **(HISTORY | BOUNDED)),
    "empirical_kl_ucb": Entry(
        lambda: eljax.policies.empirical_kl_ucb(1.5),  # beyond the rewards: at the bound itself all arms would tie
        lambda: eljax.policies.empirical_kl_ucb(2.0),
        forces=False,
        equal="turns",
        **BOUNDED,
    ),
    "ucb": Entry(
        lambda: eljax.policies.ucb(1.0), lambda: eljax.policies.ucb(0.5), scale_free=False, forces=False, equal="turns"
    ),
    "imed gaussian": Entry(
        lambda: eljax.policies.imed("gaussian"),
        lambda: eljax.policies.imed("gaussian", sigma=0.5),
        scale_free=False,
        forces=False,
        equal="turns",
    ),
    "imed bernoulli": Entry(
        lambda: eljax.policies.imed("bernoulli"),
        lambda: eljax.policies.imed("bernoulli"),
        scale_free=False,
        shift_free=False,
        forces=False,
        unit=True,
        equal="turns",
    ),
    "imed exponential": Entry(
        lambda: eljax.policies.imed("exponential"),
        lambda: eljax.policies.imed("exponential"),
        shift_free=False,
        forces=False,
        unit=True,
        equal="turns",
    ),
    "ism_normal": Entry(lambda: eljax.policies.ism_normal(), lambda: eljax.policies.ism_normal(), opening=3),
    "kl_ucb gaussian": Entry(
        lambda: eljax.policies.kl_ucb("gaussian"),
        lambda: eljax.policies.kl_ucb("gaussian", 0.5, loglog=3.0, sigma=2.0),
        scale_free=False,
        forces=False,
        equal="turns",
    ),
    "kl_ucb bernoulli": Entry(
        lambda: eljax.policies.kl_ucb("bernoulli"),
        lambda: eljax.policies.kl_ucb("bernoulli", 0.5, loglog=3.0),
        scale_free=False,
        shift_free=False,
        forces=False,
        unit=True,
        equal=None,  # in turns, but for arms that are always 1: their indices are 1 too
    ),
    "kl_ucb exponential": Entry(
        lambda: eljax.policies.kl_ucb("exponential"),
        lambda: eljax.policies.kl_ucb("exponential", 0.5, loglog=3.0),
        shift_free=False,
        forces=False,
        unit=True,
        equal=None,  # in turns, but for arms that are always 0: their indices are 0 too
    ),
    "r_ucb": Entry(
        lambda: eljax.policies.r_ucb(eljax.log_schedule(2.0)),
        lambda: eljax.policies.r_ucb(eljax.log_schedule(4.0)),
        scale_free=False,
        forces=False,
        equal="turns",
    ),
    "tail_safe_ucb": Entry(
        lambda: eljax.policies.tail_safe_ucb(),
        lambda: eljax.policies.tail_safe_ucb(0.5, 2.0, 0.25),
        scale_free=False,
        forces=False,
        equal="turns",
    ),
    "thompson gaussian": Entry(
        lambda: eljax.policies.thompson("gaussian"),
        lambda: eljax.policies.thompson("gaussian", sigma=0.5),
        scale_free=False,
        forces=False,
        random=True,
        equal=None,
    ),
    "thompson bernoulli": Entry(
        lambda: eljax.policies.thompson("bernoulli"),
        lambda: eljax.policies.thompson("bernoulli"),
        scale_free=False,
        shift_free=False,
        forces=False,
        opening=0,
        unit=True,
        random=True,
        equal=None,
    ),
    "thompson exponential": Entry(
        lambda: eljax.policies.thompson("exponential"),
        lambda: eljax.policies.thompson("exponential"),
        shift_free=False,
        forces=False,
        unit=True,
        random=True,
        equal=None,
    ),
    "ucb_v": Entry(
        lambda: eljax.policies.ucb_v(6.0),
        lambda: eljax.policies.ucb_v(1.0),
        scale_free=False,
        forces=False,
        equal="turns",
    ),
}


def rounds(policy: Policy, rewards: jax.Array, seed: int | jax.Array = 0) -> tuple[jax.Array, jax.Array, Any]:
    """The arms [T], forced flags [T] and states before each round [T, ...] of a policy that meets rewards [K, T]."""
    num_arms, horizon = rewards.shape
    key = jax.random.key(seed)

    def step(carry, t):
        before, pulls = carry
        decision, state = policy.select(jax.random.fold_in(key, t), t, before)
        state = policy.update(state, decision.arm, rewards[decision.arm, pulls[decision.arm]])
        return (state, pulls.at[decision.arm].add(1)), (decision.arm, decision.forced, before)

    carry = (policy.init(num_arms, horizon, rewards.dtype), jnp.zeros(num_arms, jnp.int32))
    return jax.lax.scan(step, carry, jnp.arange(1, horizon + 1, dtype=jnp.int32))[1]


def replay(policy: Policy, rewards: jax.Array, seed: int | jax.Array = 0) -> tuple[jax.Array, jax.Array]:
    """The arms [T] and forced flags [T] alone."""
    return rounds(policy, rewards, seed)[:2]
