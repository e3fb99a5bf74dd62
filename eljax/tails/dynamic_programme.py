"""Exact regret tails and expected regret of arms with finitely many values, by a forward dynamic programme.

Of an arm's rewards so far only the number of times each value occurred matters: its cell. If what a policy keeps of an
arm is a function of that arm's cell, the cells of all arms are a Markov chain, and with a = select(t, cells)

    P_{t+1}(cells with one more v in arm a) += P_t(cells) · p_a(v)

The number of states with n rewards in all is binom(n + D − 1, D − 1), D the number of values of all arms together: 67
million state-rounds for two Bernoulli arms and T = 200. Every sum has terms of one sign, so a probability of 1e-100 is
as exact, relative to itself, as one of 1e-1. The policy's own `update` and `select` are called, nothing is written for
a policy: its per-arm state for each cell once, a decision for each state that can occur.
"""

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eljax import checks, engine
from eljax.arms import Bandit
from eljax.tails.estimates import TailEstimate, setting
from eljax.types import Policy, describe

MOST_STATES = 400_000_000  # state-rounds: some minutes
CHUNK = 2**15  # decisions made in one call
CHECKED = 6  # rounds over which it is checked that neither the order of rewards nor a key changes a decision


def exact(bandit: Bandit, policy: Policy, *, horizon: int, threshold: float) -> TailEstimate:
    """P[R(T) > threshold] and E[R(T)] exactly (float64 rounding), with `relative_error` 0 and `expected_regret`.

    Args:
      bandit: arms with finitely many values (bernoulli, two_point, discrete, empirical, dirac).
      policy: deterministic, with a state that is a function of how often each arm gave each value: EL-F, g-forcing,
        el_ucb, UCB and the like.
      horizon: T. The work grows like T^D, D the number of values of all arms together.
      threshold: x, in the unit of the rewards. Regrets lie on a lattice: choose x between two of its points.

    Raises:
      ValueError: an arm with infinitely many values; a policy that draws random numbers or keeps more than counts of
        values; a state space that is too large; decisions that a bounded index leaves open.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.bernoulli(0.9), eljax.bernoulli(0.5)])
      >>> policy = eljax.policies.el_f(eljax.log_squared(), radius=0.0)
      >>> print(eljax.tails.exact(bandit, policy, horizon=40, threshold=8.2))
      P = 0.00825621643541 (exact)
    """
    if not isinstance(bandit, Bandit):
        checks.fail("bandit", bandit, "an eljax.Bandit")
    if not isinstance(policy, Policy):
        checks.fail("policy", policy, "a policy, such as eljax.policies.el_f(eljax.log_squared())")
    horizon = checks.integer("horizon", horizon, low=1, high=2**31 - 2)
    threshold = checks.number("threshold", threshold)
    for i, arm in enumerate(bandit.arms):
        if arm.atoms is None:
            checks.fail(f"bandit.arms[{i}]", arm, "a law with finitely many values; see eljax.tails.estimate")
    size = sum(len(arm.atoms[0]) for arm in bandit.arms)
    if math.comb(horizon - 1 + size, size) > MOST_STATES:
        checks.fail(
            "horizon", horizon, f"such that the states do not exceed {MOST_STATES:,} state-rounds ({size} values)"
        )
    if policy.validate is not None:
        policy.validate(bandit.num_arms, horizon)

    pulls, probs, underflow = pull_distribution(bandit, policy, horizon)
    regret = pulls @ bandit.gaps
    tail = probs[regret > threshold].sum()
    with np.errstate(divide="ignore"):
        log_prob = float(np.log(min(tail, 1.0)))
    reason = ""
    if tail == 0:
        reason = "smaller than any float64, if not impossible" if underflow else "the event cannot happen"
    elif not underflow and (regret > threshold).all():
        reason = "the event is certain"
    expected = float(probs @ regret)
    return TailEstimate(
        log_prob,
        0.0,
        log_prob,
        log_prob,
        "exact",
        0,
        np.nan,
        reason=reason,
        expected_regret=expected,
        setting=setting(bandit, policy, horizon, threshold, None),
    )


def pull_distribution(bandit: Bandit, policy: Policy, horizon: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """([M, K] pulls of each arm after T rounds, [M] their probabilities > 0, whether others are too small to be told).

    From checked arguments.
    """
    with jax.enable_x64(True):
        chain = _Chain(bandit, engine.prepared(policy, np.float64), horizon)
        mass = {(0,) * bandit.num_arms: np.ones((1,) * bandit.num_arms)}
        for t in range(1, horizon + 1):
            mass = chain.step(t, mass)
    pulls, probs = np.array(list(mass)), np.array([block.sum() for block in mass.values()])
    return pulls[probs > 0], probs[probs > 0], chain.underflow


class _Level(NamedTuple):
    """The cells of an arm with n rewards."""

    counts: np.ndarray  # [M, d]: how often each value occurred
    following: np.ndarray  # [d, M]: where in the next level a cell goes with one more of a value


class _Chain:
    """The policy's decisions as a function of the cells, and the forward step.

    A block of states is keyed by the pulls (n_1, ..., n_K) and has one axis per arm, over the cells of its level.
    """

    def __init__(self, bandit: Bandit, policy: Policy, horizon: int):
        self.policy, self.atoms = policy, [arm.atoms for arm in bandit.arms]
        self.levels = [_levels(len(values), horizon) for values, _ in self.atoms]
        self.underflow = False
        self.start = [np.cumsum([0] + [len(level.counts) for level in levels]) for levels in self.levels]
        blank = jax.tree.map(np.asarray, policy.init(bandit.num_arms, horizon, jnp.dtype(np.float64)))
        if any(x.ndim == 0 or x.shape[0] != bandit.num_arms for x in jax.tree.leaves(blank)):
            self._refuse("keeps more than a summary of each arm")
        # Two states per cell, by two orders of its rewards: the second checks that the order does not matter.
        self.tables = [self._table(blank, arm, last=False, depth=horizon) for arm in range(bandit.num_arms)]
        depth = min(CHECKED, horizon)
        self.others = [self._table(blank, arm, last=True, depth=depth) for arm in range(bandit.num_arms)]

    def _refuse(self, what: str) -> None:
        checks.fail(
            "policy", describe(self.policy), f"deterministic and a function of how often each value came; it {what}"
        )

    def _table(self, blank: Any, arm: int, *, last: bool, depth: int) -> Any:
        """The policy's state of `arm` for every cell, leaves [cells, ...], level after level."""
        values, levels = self.atoms[arm][0], self.levels[arm][:depth]
        known = [jax.tree.map(lambda x: x[arm][None], blank)]
        for below, level in itertools.pairwise(levels):
            # The value that came last: the first or the last one present.
            came = np.argmax((level.counts > 0)[:, :: -1 if last else 1], 1)
            came = level.counts.shape[1] - 1 - came if last else came
            parent = np.empty(len(came), np.int64)
            for v, following in enumerate(below.following):
                parent[following[came[following] == v]] = np.flatnonzero(came[following] == v)
            known.append(self._grown(blank, arm, known[-1], parent, values[came]))
        return jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *known)

    def _grown(self, blank: Any, arm: int, known: Any, parent: np.ndarray, values: np.ndarray) -> Any:
        """The states after one more value each, from those of the level below and where in it they come from."""
        width = max(256, 2 ** (len(values) - 1).bit_length())  # few shapes, few compilations
        pad = np.minimum(np.arange(width), len(values) - 1)
        before = jax.tree.map(lambda x: np.asarray(x)[parent[pad]], known)
        state, others_kept = _grow(self.policy, blank, np.int32(arm), before, values[pad])
        if not np.asarray(others_kept).all():
            self._refuse("changes the state of arms that are not pulled")
        return jax.tree.map(lambda x: np.asarray(x)[: len(values)], state)

    def step(self, t: int, mass: dict) -> dict:
        """The distribution after round t from that before it."""
        where = {pulls: np.nonzero(block) for pulls, block in mass.items()}
        ids = [
            np.stack([start[n] + index for start, n, index in zip(self.start, pulls, indices, strict=True)])
            for pulls, indices in where.items()
        ]
        chosen = self._decisions(t, np.concatenate(ids, 1))
        after: dict = {}
        for (pulls, indices), arms in zip(
            where.items(), np.split(chosen, np.cumsum([x.shape[1] for x in ids])[:-1]), strict=True
        ):
            for arm in np.unique(arms):
                part = np.zeros_like(mass[pulls])
                taken = tuple(index[arms == arm] for index in indices)
                part[taken] = mass[pulls][taken]
                self._spread(after, pulls, int(arm), part)
        return after

    def _spread(self, after: dict, pulls: tuple, arm: int, part: np.ndarray) -> None:
        """Add what a pull of `arm` makes of a block."""
        target = tuple(n + (i == arm) for i, n in enumerate(pulls))
        if target not in after:
            after[target] = np.zeros([len(levels[n].counts) for levels, n in zip(self.levels, target, strict=True)])
        block, part = np.moveaxis(after[target], arm, 0), np.moveaxis(part, arm, 0)
        for p, following in zip(self.atoms[arm][1], self.levels[arm][pulls[arm]].following, strict=True):
            block[following] += p * part
            self.underflow |= bool((p * part < (part > 0) * np.finfo(np.float64).tiny).any())

    def _decisions(self, t: int, ids: np.ndarray) -> np.ndarray:
        """The arm chosen in each state [S], from the cells [K, S]."""
        out = np.empty(ids.shape[1], np.int64)
        for begin in range(0, len(out), CHUNK):
            piece = ids[:, begin : begin + CHUNK]
            width = piece.shape[1]
            padded = piece[:, np.minimum(np.arange(CHUNK), width - 1)]
            arm, certified = (np.asarray(x)[:width] for x in _decide(self.policy, self.tables, np.int32(t), padded, 0))
            if not certified.all():
                self._refuse('leaves decisions open: pass index="exact" or fewer values')
            if t < min(CHECKED, len(self.levels[0])):
                if (_decide(self.policy, self.tables, np.int32(t), padded, 1)[0][:width] != arm).any():
                    self._refuse("draws random numbers")
                if (_decide(self.policy, self.others, np.int32(t), padded, 0)[0][:width] != arm).any():
                    self._refuse("depends on the order of the rewards")
            out[begin : begin + width] = arm
        return out


def _levels(values: int, horizon: int) -> list[_Level]:
    """The cells of an arm with 0, 1, ..., T rewards."""
    counts, out = np.zeros((1, values), np.int64), []
    for _ in range(horizon + 1):
        more = counts[None] + np.eye(values, dtype=np.int64)[:, None]  # [d, M, d]
        counts_next, following = np.unique(more.reshape(-1, values), axis=0, return_inverse=True)
        out.append(_Level(counts, following.reshape(values, -1)))
        counts = counts_next
    return out


@jax.jit
def _grow(policy: Policy, blank: Any, arm: jax.Array, parts: Any, values: jax.Array) -> tuple[Any, jax.Array]:
    """The state of `arm` after one more value, and whether the other arms' states stayed, for many states of it."""

    def one(part: Any, value: jax.Array) -> tuple[Any, jax.Array]:
        state = jax.tree.map(lambda whole, x: whole.at[arm].set(x), blank, part)
        new = policy.update(state, arm, value)
        kept = jax.tree.map(lambda x, y: (x == y.at[arm].set(x[arm])).all(), blank, new)
        return jax.tree.map(lambda x: x[arm], new), jnp.all(jnp.stack(jax.tree.leaves(kept)))

    return jax.vmap(one)(parts, values)


@jax.jit
def _decide(policy: Policy, tables: list, t: jax.Array, ids: jax.Array, seed: int) -> tuple[jax.Array, jax.Array]:
    """(arm, certified) of many states."""
    state = jax.tree.map(lambda *tables: jnp.stack([x[i] for x, i in zip(tables, ids, strict=True)], 1), *tables)
    decision = jax.vmap(lambda one: policy.select(jax.random.key(seed), t, one)[0])(state)
    return decision.arm, jnp.broadcast_to(decision.certified, decision.arm.shape)
