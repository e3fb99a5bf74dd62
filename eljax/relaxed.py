"""A smooth simulation of EL-F: soft decisions with a temperature τ, on the rewards of the hard one.

In round t = K + 1, ..., T arm i gets the weight w_i, and its fractional pulls N_i grow by it:

    φ = σ((g(t) − min N) / τ)                              soft forced exploration
    w = φ softmax(−(N_i + i/K) / τ) + (1 − φ) softmax(I_i / (τ s))

I_i is the arm's index and s the scale of the rewards: the mean absolute deviation of all arms' rewards together, a
constant of the bandit, so that the pulls are scale-free. The first K rounds pull each arm once, as hard runs do; i/K
sends ties among the least-sampled to the lowest arm, as there, but tied indices share a round equally.

Pulls use up the arm's own stream of rewards X_1, X_2, ..., the one `simulate` draws in this run. With n whole pulls and
the fraction f = N − n the index is that of the first n rewards, and of the next one in proportion:

    I(N) = (1 − f) V(n) + f V(n + 1)

It is continuous in N, with kinks at whole N; regret and gradient are those of a Lipschitz function of every parameter.
V(n) is one of

    "exact"    the EL index U itself, solved for every n: work and memory O(T²) per run, T ≤ 1,000
    "bracket"  the middle of L ≤ U ≤ min(H, max), O(1) per round, H by Lemma 5.2, L by the law Q ∝ 1 + θ(x − m):
               H = m + a + √(a² + v), a = (C/n)(max − m)    L = m − b + √(b² + v), b = (C/n)(m − min)    v = 2Cσ²/n

Both are the mean at radius 0. As τ → 0 every w tends to the decision of the hard policy with index V: EL-F for "exact",
g-forcing at radius 0, and EL-F with V in the place of U for "bracket" (off by 8% of U − m for 150 exponential rewards
and C = 3, by 3% for Gaussian ones). At τ > 0 the least-sampled arm follows g(t) itself and not ⌈g(t)⌉, which is what
makes the schedule differentiable.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eljax import arms, checks, random
from eljax.arms import Bandit, parametric
from eljax.arms.law import float_dtype
from eljax.empirical_likelihood import el_index
from eljax.schedules import Schedule, as_schedule, check_schedule, clamped

INDICES = ("bracket", "exact")
LONGEST_EXACT = 1_000
POINTS = 64  # quantiles per tail from which the scale of the rewards is taken


def expected_regret(bandit: Bandit, schedule: Schedule, radius: Any = 3.0, **options: Any) -> jax.Array:
    """Mean regret [] of relaxed EL-F, differentiable in radius, the numbers of the schedule, temperature, parameters.

    Arguments, errors and limits are those of `pulls`. The gaps are differentiated too, with the arms' parameters.
    The gradient is exact for this function (common rewards), which is the regret of the relaxation, not of EL-F.

    Example:
      >>> import jax, eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> def loss(radius, scale):
      ...     g = eljax.log_power(scale, 2.0)
      ...     return eljax.relaxed.expected_regret(bandit, g, radius, temperature=0.1, horizon=50, runs=8)
      >>> by_radius, by_scale = jax.grad(loss, (0, 1))(3.0, 1.0)
      >>> bool(by_scale > 0)  # more forced pulls
      True
    """
    found, means = _relaxed(bandit, schedule, radius, **options)
    return jnp.mean(found @ (jnp.max(means) - means))


def pulls(bandit: Bandit, schedule: Schedule, radius: Any = 3.0, **options: Any) -> jax.Array:
    """Pulls [R, K] of each arm after T rounds of relaxed EL-F; rows sum to T.

    Args:
      bandit: the arms. Run r meets the rewards of run r of `simulate` with this seed and dtype.
      schedule: g(t), a function of (t, num_arms); to differentiate in its numbers: `eljax.log_power(scale, power)`.
      radius: C ≥ 0, a number. At 0 its derivative, which is infinite, is a huge finite number.
      temperature: τ > 0, keyword; dimensionless (scale-free for indices, pulls for forced exploration).
      horizon: T > K, keyword.
      runs: R ≥ 1, keyword, all at once: memory is O(R K √T) for reverse mode, index "exact" O(R K T²).
      seed: whole number in [0, 2^64), keyword.
      index: "bracket" or "exact", keyword.
      parameters: keyword; for each arm a dict of parameters that replace the bandit's, e.g. from `parameters(bandit)`.

    Numbers may be traced (jit, grad, vmap). The dtype follows `jax_enable_x64`.

    Raises:
      ValueError: for an argument out of range where its value is known, or a parameter in which rewards have no
        derivative, such as bernoulli's p: use `eljax.sensitivity`.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.dirac(1.0), eljax.dirac(0.0)])
      >>> g = eljax.log_squared()  # ⌈g(100)⌉ = 11
      >>> print(eljax.relaxed.pulls(bandit, g, 0.0, temperature=0.01, horizon=100, runs=1).round())
      [[89. 11.]]
    """
    return _relaxed(bandit, schedule, radius, **options)[0]


def parameters(bandit: Bandit) -> tuple[dict[str, float], ...]:
    """For each arm the parameters in which its rewards can be differentiated, as `pulls` takes them.

    >>> import eljax
    >>> parameters(eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.bernoulli(0.2)]))
    ({'mean': 0.5, 'sigma': 1.0}, {})
    """
    return parametric.parameters(bandit.arms)


def _relaxed(
    bandit: Bandit,
    schedule: Schedule,
    radius: Any,
    *,
    temperature: Any,
    horizon: int,
    runs: int,
    seed: int = 0,
    index: str = "bracket",
    parameters: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[jax.Array, jax.Array]:
    """(pulls [R, K], means [K])."""
    if not isinstance(bandit, Bandit):
        checks.fail("bandit", bandit, "an eljax.Bandit")
    schedule = as_schedule("schedule", schedule)
    if callable(radius):
        checks.fail("radius", radius, "a number: moving radii are not relaxed")
    radius = checks.hyperparameter("radius", radius, low=0.0)
    temperature = checks.hyperparameter("temperature", temperature, low=0.0, open_low=True)
    if index not in INDICES:
        checks.fail("index", index, f"one of {', '.join(INDICES)}")
    most = LONGEST_EXACT if index == "exact" else 2**31 - 2
    horizon = checks.integer("horizon", horizon, low=bandit.num_arms + 1, high=most)
    runs = checks.integer("runs", runs, low=1, high=2**32 - 1)
    seed = checks.integer("seed", seed, low=0, high=2**64 - 1)
    for name, value in (("radius", radius), ("temperature", temperature)):
        if np.ndim(value) > 0:
            checks.fail(name, value, "one number; use jax.vmap for several")
    if checks.concrete(*jax.tree.leaves(schedule)):
        with jax.ensure_compile_time_eval():  # under the caller's jit too
            check_schedule("schedule", schedule, bandit.num_arms, horizon)
    dtype = float_dtype(None)
    values = [{}] * bandit.num_arms if parameters is None else parameters
    law, means = parametric.moved(bandit.law(dtype), bandit.arms, values)
    numbers = (jnp.asarray(x, dtype) for x in (radius, temperature, _spread(bandit)))
    seed_data = jax.random.key_data(random.seed_key(seed))
    return _pulls(law, schedule, *numbers, seed_data, runs, horizon, index), means


def _spread(bandit: Bandit) -> float:
    """Mean absolute deviation of the rewards of all arms together, over equally likely quantiles; 1 if they are one."""
    p = (np.arange(POINTS) + 0.5) / (2 * POINTS)
    with jax.ensure_compile_time_eval():
        x = np.array([arm.quantile(p, upper) for arm in bandit.arms for upper in (False, True)])
    spread = float(np.abs(x - x.mean()).mean())
    return spread if spread > 0 else 1.0


class _State(NamedTuple):
    """One run. `mean`, `square`, `low` and `high` are of the first n rewards of each arm."""

    pulls: jax.Array  # [K]: N
    whole: jax.Array  # [K] int32: n, with 0 ≤ N − n ≤ 1
    mean: jax.Array  # [K]
    square: jax.Array  # [K]: Σ (x − mean)²
    low: jax.Array  # [K]
    high: jax.Array  # [K]


@partial(jax.jit, static_argnames=("runs", "horizon", "index"))
def _pulls(
    law: Any,
    schedule: Schedule,
    radius: jax.Array,
    temperature: jax.Array,
    spread: jax.Array,
    seed_data: jax.Array,
    runs: int,
    horizon: int,
    index: str,
) -> jax.Array:
    numbers = jnp.arange(runs, dtype=jnp.uint32)
    if index == "exact":
        rewards = jax.vmap(lambda r: _first_rewards(law, _keys(law, seed_data, r), horizon))(numbers)
        tables = _exact_indices(rewards, radius)
    else:
        tables = None

    def one(r: jax.Array, table: jax.Array | None) -> jax.Array:
        keys = _keys(law, seed_data, r)
        return _scan(law, keys, schedule, radius, temperature, spread, table, horizon)

    return jax.vmap(one)(numbers, tables)


def _keys(law: Any, seed_data: jax.Array, run_number: jax.Array) -> random.KeyData:
    run_key = jax.random.fold_in(jax.random.wrap_key_data(seed_data, impl="threefry2x32"), run_number)
    return random.arm_keys(run_key, law.num_arms)


def _draw(law: Any, keys: random.KeyData, pull: jax.Array) -> jax.Array:
    """[K]: of each arm its reward of number `pull` [K]."""
    p, upper = random.tail_uniform(keys, pull, law.dtype)
    return jax.vmap(arms.reward, (None, 0, 0, 0))(law, jnp.arange(law.num_arms, dtype=jnp.int32), p, upper)


def _first_rewards(law: Any, keys: random.KeyData, horizon: int) -> jax.Array:
    """[K, T]."""
    every = jnp.arange(horizon, dtype=jnp.int32)[:, None] + jnp.zeros(law.num_arms, jnp.int32)[None]
    return jax.vmap(partial(_draw, law, keys))(every).T


def _exact_indices(rewards: jax.Array, radius: jax.Array) -> jax.Array:
    """[R, K, T]: the EL index of the first n = 1, ..., T of rewards [R, K, T]."""
    horizon = rewards.shape[-1]
    x = jnp.broadcast_to(rewards[..., None, :], (*rewards.shape, horizon))
    return el_index(x, radius, jnp.broadcast_to(np.tri(horizon, dtype=bool), x.shape))


def _scan(
    law: Any,
    keys: random.KeyData,
    schedule: Schedule,
    radius: jax.Array,
    temperature: jax.Array,
    spread: jax.Array,
    table: jax.Array | None,
    horizon: int,
) -> jax.Array:
    """Pulls [K] of one run. Reverse mode keeps the state at every √T-th round only and goes over the rest again."""
    num_arms = law.num_arms
    none = jnp.zeros(num_arms, jnp.int32)
    first = _draw(law, keys, none)
    zero = jnp.zeros_like(first)
    start = _State(zero + 1, none + 1, first, zero, first, first)

    def one_round(state: _State, t: jax.Array) -> tuple[_State, None]:
        coming = _draw(law, keys, state.whole)
        after = _with(state, coming)
        if table is None:
            here, there = _bracket(state, radius), _bracket(after, radius)
        else:
            here, there = (table[jnp.arange(num_arms), n - 1] for n in (state.whole, after.whole))
        value = here + (state.pulls - state.whole) * (there - here)
        weights = _weights(schedule, t, state.pulls, value / spread, temperature)
        pulls = state.pulls + jnp.where(t <= horizon, weights, 0)
        state = jax.tree.map(partial(jnp.where, pulls >= after.whole), after, state)
        return state._replace(pulls=pulls), None

    @jax.checkpoint
    def chunk(state: _State, first_round: jax.Array) -> tuple[_State, None]:
        return jax.lax.scan(one_round, state, first_round + jnp.arange(length, dtype=jnp.int32))

    rounds = horizon - num_arms
    length = int(np.ceil(np.sqrt(rounds)))
    starts = num_arms + 1 + jnp.arange(0, rounds, length, dtype=jnp.int32)
    return jax.lax.scan(chunk, start, starts)[0].pulls


def _weights(schedule: Schedule, t: jax.Array, pulls: jax.Array, index: jax.Array, temperature: jax.Array) -> jax.Array:
    """[K]: what each arm gets of round t; the index is in units of the rewards' scale."""
    num_arms = pulls.shape[0]
    forced = jax.nn.sigmoid((clamped(schedule, t.astype(pulls.dtype), num_arms) - jnp.min(pulls)) / temperature)
    order = jnp.arange(num_arms, dtype=pulls.dtype) / num_arms
    least, best = (jax.nn.softmax(x / temperature) for x in (-(pulls + order), index))
    return forced * least + (1 - forced) * best


def _with(state: _State, x: jax.Array) -> _State:
    """One more reward of every arm."""
    n = state.whole + 1
    off = x - state.mean
    mean = state.mean + off / n
    square = state.square + off * (x - mean)
    return _State(state.pulls, n, mean, square, jnp.minimum(state.low, x), jnp.maximum(state.high, x))


def _bracket(state: _State, radius: jax.Array) -> jax.Array:
    """[K]: the middle of the bounds on the EL index. √ of a positive number always: its derivative stays finite."""
    n, constant = state.whole, ~(state.square > 0)
    radius = radius + jnp.finfo(radius.dtype).eps ** 2
    a, b = (radius / n * side for side in (state.high - state.mean, state.mean - state.low))
    v = 2 * radius * state.square / jnp.square(n)
    root = lambda x: jnp.where(constant, 0, jnp.sqrt(jnp.where(constant, 1, x)))  # noqa: E731
    upper = jnp.minimum(a + root(a * a + v), state.high - state.mean)
    return state.mean + (upper + root(b * b + v) - b) / 2
