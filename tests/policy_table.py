"""Every policy, with what the contract tests need to know of it. A new policy gets one line here."""

from collections.abc import Callable
from typing import NamedTuple

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
    equal: str | None = "first"  # arms that look the same: always the "first", in "turns", or None (neither)


G2 = eljax.log_squared()
HISTORY = {"forces": False, "random": True, "equal": None}
BOUNDED = {"scale_free": False, "shift_free": False, "unit": True}
TABLE = {
    "el_f": Entry(lambda: eljax.policies.el_f(G2, 3.0), lambda: eljax.policies.el_f(G2, 0.5)),
    "el_f radius 0": Entry(lambda: eljax.policies.el_f(G2, 0.0), lambda: eljax.policies.el_f(G2, 1e-6)),
    "el_f moving radius": Entry(
        lambda: eljax.policies.el_f(G2, eljax.loglog_radius(3.0)),
        lambda: eljax.policies.el_f(G2, eljax.loglog_radius(1.0)),
    ),
    "el_f log schedule": Entry(
        lambda: eljax.policies.el_f(eljax.log_schedule(1.0), 3.0),
        lambda: eljax.policies.el_f(eljax.log_schedule(4.0), 8.0),
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
}


def replay(policy: Policy, rewards: jax.Array, seed: int | jax.Array = 0) -> tuple[jax.Array, jax.Array]:
    """The arms [T] and forced flags [T] of a policy that meets the given rewards [K, T], pull by pull."""
    num_arms, horizon = rewards.shape
    key = jax.random.key(seed)

    def step(carry, t):
        state, pulls = carry
        decision, state = policy.select(jax.random.fold_in(key, t), t, state)
        state = policy.update(state, decision.arm, rewards[decision.arm, pulls[decision.arm]])
        return (state, pulls.at[decision.arm].add(1)), (decision.arm, decision.forced)

    carry = (policy.init(num_arms, horizon, rewards.dtype), jnp.zeros(num_arms, jnp.int32))
    return jax.lax.scan(step, carry, jnp.arange(1, horizon + 1, dtype=jnp.int32))[1]
