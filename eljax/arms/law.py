"""The device side of the arms: what a bandit looks like to a compiled simulator, and the one function that draws.

A `Law` holds the parameters of all arms, stacked by family; `reward(law, arm, p, upper)` evaluates each family present
once and selects. It is written for a single run: the engine batches it with the law unbatched. Which families are
present is static; every number is a leaf, so other means or scales do not compile again.

    u in (0, 1) arrives as the mass p in [2^-64, 1/2] of the nearer tail and which tail that is (`random.tail_uniform`);
    X = Q(p) in the lower tail, Q(1 - p) in the upper one, where 1 - p is never formed: it would lose the tail.

Results are clipped to the nearest number strictly inside an open support: a float32 Beta(.3, .6) would otherwise be 1.

Shapes: K arms of the bandit, K_f arms of one family.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eljax import checks
from eljax.numerics import read
from eljax.random import KeyData, tail_uniform

TILE = 1024  # lanes per compiled call: float32 log and exp differ in last bits between batch shapes
SMALLEST_TAIL = 2.0**-64  # the smallest p that tail_uniform makes


class Family(NamedTuple):
    """How one family of laws is stacked on the host and drawn on the device."""

    stack: Callable[[Sequence[Any]], tuple[np.ndarray, ...]]  # arms of the family -> leaves (float64 or int32)
    quantile: Callable[..., jax.Array]  # (leaves, slot, p, upper) -> x; slot [] int32 counts within the family
    open_support: bool  # whether finite ends of the support have to be kept out


FAMILIES: dict[str, Family] = {}


def register(name: str, *, stack: Callable, quantile: Callable, open_support: bool = False) -> None:
    """Add a family whose quantile reads its own leaves, such as a table."""
    FAMILIES[name] = Family(stack, quantile, open_support)


def register_closed_form(name: str, quantile: Callable, parameters: Sequence[str], *, open_support: bool) -> None:
    """Add a family by its quantile(p, upper, *parameters), each parameter one number per arm."""

    def stack(arms: Sequence[Any]) -> tuple[np.ndarray, ...]:
        return tuple(np.array([arm.parameters[key] for arm in arms]) for key in parameters)

    def of_arm(leaves: tuple[jax.Array, ...], slot: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
        return quantile(p, upper, *(read(leaf, slot) for leaf in leaves))

    register(name, stack=stack, quantile=of_arm, open_support=open_support)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["kind", "slot", "leaves", "low", "high"], meta_fields=["families"]
)
@dataclass(frozen=True)
class Law:
    """The reward laws of K arms, ready for `reward`. Leaves are NumPy arrays until a compiled function gets them."""

    families: tuple[str, ...]  # static: the families present
    kind: Any  # [K] int32: position of each arm's family in `families`
    slot: Any  # [K] int32: position of each arm within its family
    leaves: tuple[Any, ...]  # one tuple of stacked parameters per family
    low: Any  # [K]: smallest reward, strictly inside an open support; -inf where nothing has to be kept out
    high: Any  # [K]: largest reward

    @property
    def num_arms(self) -> int:
        """K."""
        return self.kind.shape[0]

    @property
    def dtype(self) -> np.dtype:
        """Of the rewards."""
        return np.dtype(self.low.dtype)


def build(arms: Sequence[Any], dtype: Any) -> Law:
    """The law of these arms with its numbers in `dtype`; ValueError if an arm cannot be represented in it."""
    dtype = float_dtype(dtype)
    families = tuple(sorted({arm.family for arm in arms}))
    kind = np.array([families.index(arm.family) for arm in arms], np.int32)
    slot = np.array([(kind[:i] == kind[i]).sum() for i in range(len(arms))], np.int32)
    groups = [[arm for arm in arms if arm.family == family] for family in families]
    with np.errstate(over="ignore", under="ignore"):
        leaves = tuple(
            tuple(leaf.astype(dtype if leaf.dtype.kind == "f" else np.int32) for leaf in FAMILIES[family].stack(group))
            for family, group in zip(families, groups, strict=True)
        )
        bounds = np.array([_bounds(arm, dtype) for arm in arms], dtype)
    _check_representable(arms, groups, leaves, bounds, dtype)
    return Law(families, kind, slot, leaves, bounds[:, 0], bounds[:, 1])


def reward(law: Law, arm: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    """The reward at (p, upper) of `arm` [] int32, in the dtype of p. Pure, of one run: vmap over arm, p, upper."""
    families = [FAMILIES[name] for name in law.families]
    upper = jnp.asarray(upper, bool)
    if len(families) == 1:
        x = families[0].quantile(law.leaves[0], arm, p, upper)
    else:
        kind, slot = read(law.kind, arm), read(law.slot, arm)
        x = jnp.zeros_like(p)
        for k, (family, leaves) in enumerate(zip(families, law.leaves, strict=True)):
            mine = kind == k
            x = jnp.where(mine, family.quantile(leaves, jnp.where(mine, slot, 0), p, upper), x)
    if any(family.open_support for family in families):
        x = jnp.clip(x, read(law.low, arm), read(law.high, arm))
    return x


def float_dtype(dtype: Any) -> np.dtype:
    """float32 or float64; None follows jax's x64 setting."""
    if dtype is None:
        return np.dtype(np.float64 if jax.config.jax_enable_x64 else np.float32)
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found not in (np.dtype(np.float32), np.dtype(np.float64)):
        checks.fail("dtype", dtype, "None, float32 or float64")
    return found


def precision(dtype: np.dtype) -> Any:
    """A context in which arrays of `dtype` exist, whatever the process setting of x64."""
    return jax.enable_x64(True) if dtype == np.float64 else nullcontext()


def in_tiles(function: Callable, law: Law, arm: int, lanes: Sequence[np.ndarray], *shared: jax.Array) -> np.ndarray:
    """function(law, arm, *lanes, *shared) over lanes [n], in compiled tiles of one size: no result depends on n."""
    n = lanes[0].size
    arms = np.full(TILE, arm, np.int32)  # one per lane, as in the simulator: the same program, the same last bits
    padded = [np.concatenate([x, np.full(-n % TILE, x[-1])]) for x in lanes] if n else lanes
    tiles = [function(law, arms, *(x[i : i + TILE] for x in padded), *shared) for i in range(0, padded[0].size, TILE)]
    return np.concatenate([np.asarray(x) for x in tiles])[:n] if tiles else np.empty(0, law.low.dtype)


@jax.jit
def reward_tile(law: Law, arms: jax.Array, p: jax.Array, upper: jax.Array) -> jax.Array:
    """Rewards of arms at (p, upper), [TILE] each."""
    return jax.vmap(reward, (None, 0, 0, 0))(law, arms, p, upper)


@jax.jit
def pull_tile(law: Law, arms: jax.Array, pulls: jax.Array, arm_key: KeyData) -> jax.Array:
    """Rewards of given pull numbers [TILE], all of the arm whose key this is."""
    p, upper = jax.vmap(lambda s: tail_uniform(arm_key, s, np.dtype(law.low.dtype)))(pulls)
    return jax.vmap(reward, (None, 0, 0, 0))(law, arms, p, upper)


def _bounds(arm: Any, dtype: np.dtype) -> tuple[np.floating, np.floating]:
    """The numbers of `dtype` nearest to the ends of an open support, strictly inside it.

    Next to 0 that is the smallest normal number: processors in flush-to-zero mode, as XLA's, read a smaller one as 0.
    """
    if not FAMILIES[arm.family].open_support:
        return dtype.type(-np.inf), dtype.type(np.inf)
    low, high = (dtype.type(end) for end in arm.support)
    if low <= arm.support[0]:
        low = np.nextafter(low, dtype.type(np.inf))
    if high >= arm.support[1] and np.isfinite(arm.support[1]):
        high = np.nextafter(high, dtype.type(-np.inf))
    tiny = np.finfo(dtype).tiny
    return (tiny if 0 <= low < tiny else low), (-tiny if -tiny < high <= 0 else high)


def _check_representable(
    arms: Sequence[Any], groups: list[list[Any]], leaves: tuple, bounds: np.ndarray, dtype: np.dtype
) -> None:
    limits = np.finfo(dtype)
    for group, stacked in zip(groups, leaves, strict=True):
        for leaf in stacked:
            if not np.isfinite(leaf).all():
                bad = group[0] if len(group) == 1 else group
                checks.fail("dtype", str(dtype), f"one that can represent the parameters of {bad!r}")
    for arm, (low, high) in zip(arms, bounds, strict=True):
        deviation = np.sqrt(arm.variance)
        if low >= high or (0 < deviation < limits.tiny):
            checks.fail("dtype", str(dtype), f"one that can resolve the rewards of {arm!r}")
