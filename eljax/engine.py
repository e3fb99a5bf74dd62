"""The simulator: one run is a `lax.scan` over rounds, many runs are a `vmap`, tiles of runs spread over all devices.

    round t:  decision = policy.select   reward = X_{run, arm, pull}   state = policy.update

A run keeps what its policy needs and the pull counts at the checkpoints; nothing here grows with runs × rounds. Runs
are always computed in tiles of one fixed number of lanes (padded), because the last bits of row sums and of vectorised
logs depend on the batch shape: so a run gives the same pulls alone, among any number of others, on any number of
devices. The engine knows no policy and no reward law, only the protocols of `types` and `arms`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jax.tree_util import Partial
from tqdm.auto import tqdm

from eljax import arms, checks, numerics, random
from eljax.arms.law import float_dtype
from eljax.results import Result
from eljax.types import Policy, describe

# A tile's state should stay in cache (CPU) or fill the device (GPU, TPU); how many lanes that is depends on the policy
# and the horizon alone, never on the number of runs.
TILE_BYTES = {"cpu": 2**23, "gpu": 2**32, "tpu": 2**31}
TILE_LANES = {"cpu": (64, 512), "gpu": (1024, 65_536), "tpu": (1024, 16_384)}
SHORT = 64  # leaves [K, n] of up to so many numbers per arm have the lanes last, as `numerics.lanes_last` wants them
DEFAULT_CHECKPOINTS = 64


class Tally(NamedTuple):
    """What a run counts, without its checkpoints."""

    pulls: jax.Array  # [K] int32: pulls of each arm
    forced_pulls: jax.Array  # [K] int32
    max_index_error: jax.Array  # []: largest relative error of indices whose values decided
    uncertified_decisions: jax.Array  # [] int32: decisions that index errors could have changed


class RunRecord(NamedTuple):
    """What a run leaves behind: its tally and the pulls at the checkpoints."""

    checkpoint_pulls: jax.Array  # [C, K] int32: pulls of each arm after the checkpoint rounds
    pulls: jax.Array
    forced_pulls: jax.Array
    max_index_error: jax.Array
    uncertified_decisions: jax.Array


class Pull(NamedTuple):
    """What one round of a run brought."""

    arm: jax.Array  # [] int32
    reward: jax.Array  # []
    pulls: jax.Array  # [K] int32: pulls of each arm, this one included
    uncertified_decisions: jax.Array  # [] int32, so far


class _Keys(NamedTuple):
    policy: jax.Array  # [] key
    rewards: random.KeyData  # of [K]: the arms' reward streams


def run(
    law: Any, policy: Policy, seed_data: jax.Array, run_number: jax.Array, checkpoints: jax.Array, horizon: int
) -> RunRecord:
    """One run, a pure function: jit, vmap over `run_number` or over the leaves of `law` and `policy` as you like.

    Args:
      law: what `Bandit.law(dtype)` returns.
      policy: a Policy whose floating leaves have the dtype of the rewards.
      seed_data: [2] uint32, the key data of `random.seed_key(seed)`.
      run_number: [] uint32.
      checkpoints: [C] int32, increasing rounds in 1..horizon.
      horizon: T, static.
    """
    keys, carry = _keys(law, seed_data, run_number), _start(law, policy, horizon)
    return _scan(lambda t, carry: _play(law, policy, keys, t, carry)[0], carry, checkpoints, horizon)


def run_tile(
    law: Any, policies: Policy, seed_data: jax.Array, run_numbers: jax.Array, checkpoints: jax.Array, horizon: int
) -> RunRecord:
    """`run` for many run numbers [L], each with a policy of its own: the leaves of `policies` are [L, ...].

    The fields of the record have the lanes as their first axis. One scan over a vmap, not the other way round: the
    snapshots then have the lanes last, and a row is written at once.
    """
    many = batch(law, policies, seed_data, run_numbers, horizon, own_policies=True)
    record = _scan(lambda t, carry: many.play(many.keys, t, carry)[0], many.carry, checkpoints, horizon)
    return record._replace(checkpoint_pulls=record.checkpoint_pulls.swapaxes(0, 1))


class Batch(NamedTuple):
    """Many runs [L], round by round."""

    keys: Any  # what the runs draw with
    carry: Any  # what they start with: (policy states, tallies)
    axes: Any  # where each leaf of the carry has its lanes
    play: Callable[[Any, jax.Array, Any], tuple[Any, Pull]]  # (keys, t, carry) -> (carry, pulls): round t


def batch(
    law: Any,
    policy: Policy,
    seed_data: jax.Array,
    run_numbers: jax.Array,
    horizon: int,
    *,
    own_rounds: bool = False,
    own_policies: bool = False,
) -> Batch:
    """Many runs [L] that play the same round t [], or with `own_rounds` each its own t [L].

    With `own_policies` the leaves of `policy` are [L, ...], one per run: as fast, and a radius is then one more vector.
    """
    rounds, policies = (0 if own else None for own in (own_rounds, own_policies))
    keys = jax.vmap(partial(_keys, law, seed_data))(run_numbers)
    one = jax.tree.map(lambda x: x[0], policy) if own_policies else policy
    shapes = jax.eval_shape(lambda: _start(law, one, horizon))
    axes = jax.tree.map(lambda x: x.ndim if x.ndim > 1 and max(x.shape[1:]) <= SHORT else 0, shapes)
    start = jax.vmap(lambda own, _: _start(law, own, horizon), (policies, 0), axes)(policy, run_numbers)
    play = jax.vmap(partial(_play, law), (policies, 0, rounds, axes), (axes, 0))
    return Batch(keys, start, axes, partial(play, policy))


def pulls(carry: tuple[Any, Tally]) -> jax.Array:
    """[L, K] of a batch's carry: how often each arm has been pulled."""
    return _together(carry[1].pulls)


def _keys(law: Any, seed_data: jax.Array, run_number: jax.Array) -> _Keys:
    run_key = jax.random.fold_in(jax.random.wrap_key_data(seed_data, impl="threefry2x32"), run_number)
    return _apart(_Keys(jax.random.fold_in(run_key, random.POLICY_STREAM), random.arm_keys(run_key, law.num_arms)))


def _start(law: Any, policy: Policy, horizon: int) -> tuple[Any, Tally]:
    zeros = jnp.zeros(law.num_arms, jnp.int32)
    tally = Tally(zeros, zeros, jnp.zeros((), law.dtype), jnp.zeros((), jnp.int32))
    return _apart((policy.init(law.num_arms, horizon, law.dtype), tally))


class _Arms(tuple):
    """A leaf [K] as K scalars: in a batch, K vectors over the lanes."""


jax.tree_util.register_pytree_node(_Arms, lambda x: (tuple(x), None), lambda _, x: _Arms(x))


def _apart(tree: Any) -> Any:
    """The tree with leaves [K] of few arms as K scalars each.

    vmap puts the lanes first, and arrays [L, K] with a short last axis do not compile to vector instructions.
    """
    short = lambda x: x.ndim == 1 and x.shape[0] <= numerics.SELECTED  # noqa: E731
    return jax.tree.map(lambda x: _Arms(x[k] for k in range(x.shape[0])) if short(x) else x, tree)


def _together(tree: Any) -> Any:
    is_arms = lambda x: isinstance(x, _Arms)  # noqa: E731
    return jax.tree.map(lambda x: jnp.stack(x, axis=-1) if is_arms(x) else x, tree, is_leaf=is_arms)


def _play(
    law: Any, policy: Policy, keys: _Keys, t: jax.Array, carry: tuple[Any, Tally]
) -> tuple[tuple[Any, Tally], Pull]:
    """Round t of one run."""
    state, tally = _together(carry)
    keys = _together(keys)
    decision, state = policy.select(jax.random.fold_in(keys.policy, t), t, state)
    decision, state, tally = jax.lax.optimization_barrier((decision, state, tally))
    arm = decision.arm
    arm_key = jax.tree.map(lambda x: numerics.read(x, arm), keys.rewards)
    p, upper = random.tail_uniform(arm_key, numerics.read(tally.pulls, arm), law.dtype)
    reward = jax.lax.optimization_barrier(arms.reward(law, arm, p, upper))
    state = policy.update(state, arm, reward)
    pulled = (jnp.arange(law.num_arms, dtype=jnp.int32) == arm).astype(jnp.int32)
    # NaN: a policy without indices.
    errors = jnp.where(decision.forced | jnp.isnan(decision.index_error), 0, decision.index_error)
    tally = Tally(
        tally.pulls + pulled,
        tally.forced_pulls + pulled * decision.forced,
        jnp.maximum(tally.max_index_error, numerics.read(errors, numerics.argmax(errors))),
        tally.uncertified_decisions + ~jnp.asarray(decision.certified),
    )
    return _apart((state, tally)), Pull(arm, reward, tally.pulls, tally.uncertified_decisions)


def _scan(play: Any, carry: tuple[Any, Tally], checkpoints: jax.Array, horizon: int) -> RunRecord:
    """All rounds, of one run or of many with the lanes last."""

    def body(carry, inputs):
        carry, snapshots = carry
        t, row = inputs
        carry = play(t, carry)
        # Row `row` is overwritten until its checkpoint has passed; the last row takes the rounds beyond the last one.
        put = lambda rows, now: jax.lax.dynamic_update_index_in_dim(rows, now, row, 0)  # noqa: E731
        return (carry, jax.tree.map(put, snapshots, carry[1].pulls)), None

    empty = lambda x: jnp.zeros((checkpoints.shape[0] + 1, *x.shape), x.dtype)  # noqa: E731
    rounds = jnp.arange(1, horizon + 1, dtype=jnp.int32)
    rows = jnp.searchsorted(checkpoints, rounds).astype(jnp.int32)
    snapshots = jax.tree.map(empty, carry[1].pulls)
    ((_, tally), snapshots), _ = jax.lax.scan(body, (carry, snapshots), (rounds, rows))
    return RunRecord(_together(snapshots)[:-1], *_together(tally))


def simulate(
    bandit: arms.Bandit,
    policy: Policy,
    *,
    horizon: int,
    runs: int,
    seed: int = 0,
    checkpoints: Sequence[int] | None = None,
    dtype: Any = None,
    batch_size: int | None = None,
    progress: bool = False,
) -> Result:
    """Simulate `runs` independent runs of `policy` on `bandit` for `horizon` rounds.

    Args:
      bandit: the arms.
      policy: from `eljax.policies`, or your own `Policy`.
      horizon: T >= 1, rounds per run.
      runs: R >= 1. Run r is the same whatever R is, so more runs extend the same sample.
      seed: whole number in [0, 2^64). Policies simulated with one seed meet the same rewards.
      checkpoints: increasing rounds at which regret is recorded; default 64 rounds spaced geometrically up to T.
      dtype: float32 or float64 for rewards and indices; default follows `jax_enable_x64`. Regret is always float64.
      batch_size: runs in flight at once, a bound on memory, rounded to whole tiles (at least one per device); changes
        no result. Default: one tile per core.
      progress: show a progress bar.

    Raises:
      ValueError: for an argument out of range, before anything is compiled.

    Example:
      >>> import eljax
      >>> bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
      >>> result = eljax.simulate(bandit, eljax.policies.g_forcing(eljax.log_squared()), horizon=100, runs=8)
      >>> result.regret.shape == (8, len(result.checkpoints))
      True
    """
    if not isinstance(bandit, arms.Bandit):
        checks.fail("bandit", bandit, "an eljax.Bandit")
    if not isinstance(policy, Policy):
        checks.fail("policy", policy, "a policy, such as eljax.policies.el_f(eljax.log_squared())")
    policy = _with_partials(policy)
    horizon = checks.integer("horizon", horizon, low=1, high=2**31 - 2)
    runs = checks.integer("runs", runs, low=1, high=2**32 - 1)
    seed = checks.integer("seed", seed, low=0, high=2**64 - 1)
    rounds = checkpoint_rounds(checkpoints, horizon)
    dtype = float_dtype(dtype)
    if batch_size is not None:
        batch_size = checks.integer("batch_size", batch_size, low=1)
    if policy.validate is not None:
        policy.validate(bandit.num_arms, horizon)

    program = partial(tiles, bandit.law(dtype), seed=seed, horizon=horizon, checkpoints=rounds, dtype=np.dtype(dtype))
    with tqdm(total=runs, unit="run", disable=not progress, desc=describe(policy)) as bar:
        records = _records(program, prepared(policy, dtype), np.arange(runs), batch_size, bar)
        open_runs = np.flatnonzero(records.uncertified_decisions)
        if policy.fallback is not None and open_runs.size:
            bar.reset(total=open_runs.size)
            bar.set_description("again, with exact decisions")
            again = _records(program, prepared(policy.fallback, dtype), open_runs, batch_size, bar)
            for whole, part in zip(records, again, strict=True):
                whole[open_runs] = part
    provenance = {
        "versions": {name: version(name) for name in ("eljax", "jax", "jaxlib", "numpy")},
        "backend": jax.default_backend(),
        "dtype": dtype.name,
        "seed": seed,
        "horizon": horizon,
        "runs": runs,
        "policy": describe(policy),
        "exact_reruns": 0 if policy.fallback is None else int(open_runs.size),
        "bandit": [repr(arm) for arm in bandit.arms],
        "labels": list(bandit.labels),
    }
    return Result.from_pulls(
        records.checkpoint_pulls,
        rounds,
        records.forced_pulls,
        bandit.gaps,
        float(records.max_index_error.max()),
        int(records.uncertified_decisions.sum(dtype=np.int64)),
        provenance,
        pulls=records.pulls,
    )


def prepared(policy: Policy, dtype: np.dtype) -> Policy:
    """The policy as a compiled program takes it: hyperparameters in `dtype`, nothing for the host."""
    policy = _with_partials(policy)._replace(validate=None, fallback=None)
    return jax.tree.map(partial(_cast, dtype=dtype), policy)


def _with_partials(policy: Policy) -> Policy:
    """The policy with every slot a pytree: plain functions, as a user may give, are wrapped."""
    slots = (x if x is None or isinstance(x, Partial) else Partial(x) for x in policy[:4])
    fallback = policy.fallback
    return Policy(*slots, fallback if fallback is None else _with_partials(fallback))


class Tiles(NamedTuple):
    """P policies of one structure on one law, compiled: what computes their runs, a tile at a time."""

    lanes: int  # of a tile, over all local devices
    compute: Callable[[np.ndarray, np.ndarray], RunRecord]  # (rows [n], run numbers [n]) -> [n, ...], n <= lanes
    memory: int  # bytes that a tile takes on each device


def tiles(law: Any, policies: Policy, *, seed: int, horizon: int, checkpoints: np.ndarray, dtype: np.dtype) -> Tiles:
    """The tiles of `prepared` policies whose leaves are [P, ...]; `rows` say which of the P each run plays.

    One program serves every P, all values of the leaves and any company of runs, with the same bits for each.
    """
    wide, devices = dtype == np.float64, tuple(jax.local_devices())
    with jax.enable_x64(wide):
        seed_data = np.asarray(jax.random.key_data(random.seed_key(seed)))
        one = jax.tree.map(lambda x: x[0], policies)
        lanes = tile_lanes(one, law.num_arms, horizon, dtype) * len(devices)
    shared = (law, seed_data, checkpoints.astype(np.int32))

    def compile_program():
        with jax.enable_x64(wide):  # the setting is thread-local
            return _compiled(lanes, horizon, devices, _signature(shared), _signature(one))

    def compute(rows: np.ndarray, run_numbers: np.ndarray) -> RunRecord:
        fill = np.minimum(np.arange(lanes), len(run_numbers) - 1)
        own, numbers = jax.tree.map(lambda x: x[rows[fill]], policies), run_numbers[fill].astype(np.uint32)
        with jax.enable_x64(wide):
            return jax.tree.map(lambda x: np.asarray(x)[: len(run_numbers)], program(*shared, own, numbers))

    with ThreadPoolExecutor(1) as pool:  # Ctrl-C in the middle of an XLA compilation would crash this thread
        program = pool.submit(compile_program).result()
    sizes = program.memory_analysis()
    memory = sizes.temp_size_in_bytes + sizes.output_size_in_bytes + sizes.argument_size_in_bytes
    return Tiles(lanes, compute, memory)


def stacked(policies: Sequence[Policy]) -> Policy:
    """Prepared policies of one structure as one, leaves [P, ...]."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *policies)


def _records(
    compute_tiles: Callable[[Policy], Tiles], policy: Policy, run_numbers: np.ndarray, batch_size: int | None, bar: tqdm
) -> RunRecord:
    """The records [R, ...] of the given runs."""
    lanes, compute, _ = compute_tiles(stacked([policy]))
    workers = parallel_tiles(jax.local_devices())
    if batch_size is not None:
        workers = max(1, min(workers, batch_size // lanes))

    def tile(start: int) -> tuple[int, RunRecord]:
        numbers = run_numbers[start : start + lanes]
        return start, compute(np.zeros(len(numbers), np.int32), numbers)

    out = None
    for start, part in in_parallel(tile, range(0, len(run_numbers), lanes), workers):
        if out is None:
            out = jax.tree.map(lambda x: np.empty((len(run_numbers), *x.shape[1:]), x.dtype), part)
        for whole, some in zip(out, part, strict=True):
            whole[start : start + len(some)] = some
        bar.update(len(part.pulls))
    return out


def tile_lanes(policy: Policy, num_arms: int, horizon: int, dtype: np.dtype) -> int:
    """Lanes of a tile: the power of two within the backend's bounds that keeps the policy's state in TILE_BYTES."""
    state = jax.eval_shape(lambda p: p.init(num_arms, horizon, jnp.dtype(dtype)), policy)
    size = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))
    backend = jax.default_backend()
    backend = backend if backend in TILE_BYTES else "gpu"
    least, most = TILE_LANES[backend]
    return min(max(2 ** (max(TILE_BYTES[backend] // size, 1).bit_length() - 1), least), most)


@lru_cache(maxsize=64)
def _compiled(lanes, horizon, devices, shared, own):
    """The tile program, compiled ahead of time: one per policy family, law family, shapes, horizon and devices."""
    mesh = jax.sharding.Mesh(np.asarray(devices), ("lanes",))
    split, whole = PartitionSpec("lanes"), PartitionSpec()

    def tile(law, seed_data, checkpoints, policies, numbers):
        return run_tile(law, policies, seed_data, numbers, checkpoints, horizon)

    sharded = jax.shard_map(
        tile, mesh=mesh, in_specs=(whole, whole, whole, split, split), out_specs=split, check_vma=False
    )
    numbers = jax.ShapeDtypeStruct((lanes,), np.uint32)
    lowered = jax.jit(sharded).lower(*_shapes(*shared), _shapes(*own, lanes), numbers)
    return lowered.compile(compiler_options=compiler_options(devices[0].platform))


def _shapes(treedef: Any, avals: tuple, *lead: int) -> Any:
    return jax.tree.unflatten(treedef, [jax.ShapeDtypeStruct((*lead, *shape), dtype) for shape, dtype in avals])


def compiler_options(platform: str) -> dict[str, str] | None:
    """What a program that plays rounds is compiled with.

    XLA's CPU compiler drops optimization barriers before it fuses, and then computes what several loops read once in
    each of them, rewards included. Without the pass that drops them a simulation takes half the time.
    """
    return {"xla_disable_hlo_passes": "cse_barrier_expander"} if platform == "cpu" else None


def _signature(tree: Any) -> tuple[Any, tuple]:
    leaves, treedef = jax.tree.flatten(tree)
    return treedef, tuple((np.shape(x), np.dtype(x.dtype)) for x in leaves)


def _cast(leaf: Any, dtype: np.dtype) -> np.ndarray:
    """A hyperparameter as the program takes it: floats in the dtype of the rewards, whole numbers as int32."""
    leaf = np.asarray(leaf)
    return leaf.astype(dtype if np.issubdtype(leaf.dtype, np.floating) else np.int32)


def parallel_tiles(devices: Sequence | None = None) -> int:
    """On one CPU device a scan runs on one core, so several threads each run their own tile."""
    devices = devices or jax.local_devices()[:1]
    if len(devices) > 1 or devices[0].platform != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(compute: Callable, items: Iterable[Any], workers: int) -> Iterator[Any]:
    """Results of `compute` as they finish, never more than `workers` at work or waiting to be taken."""
    if workers == 1:
        yield from map(compute, items)
        return
    remaining = iter(items)
    with ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(compute, item) for item in islice(remaining, workers)}
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            pending |= {pool.submit(compute, item) for item in islice(remaining, len(done))}
            for future in done:
                yield future.result()


def checkpoint_rounds(checkpoints: Sequence[int] | None, horizon: int) -> np.ndarray:
    """[C] int64: the checkpoints of `simulate`, checked."""
    if checkpoints is None:
        return np.unique(np.geomspace(1, horizon, DEFAULT_CHECKPOINTS).round().astype(np.int64))
    allowed = f"increasing whole numbers in [1, {horizon}] (the horizon)"
    try:
        rounds = np.asarray(checkpoints)
    except ValueError:
        checks.fail("checkpoints", checkpoints, allowed)
    if rounds.ndim != 1 or rounds.size == 0 or not np.issubdtype(rounds.dtype, np.integer):
        checks.fail("checkpoints", checkpoints, allowed)
    rounds = rounds.astype(np.int64)
    if rounds[0] < 1 or rounds[-1] > horizon or (np.diff(rounds) <= 0).any():
        checks.fail("checkpoints", checkpoints, allowed)
    return rounds
