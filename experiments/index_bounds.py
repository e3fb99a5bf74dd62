"""Bounds on the empirical likelihood and its index, on simulated data: how tight, and never broken; and U → mean.

    python -m experiments.index_bounds

With the mean m̂, variance σ̂² (1/n form) and maximum X of n rewards, for every m in (m̂, X) and radius C:

    2.2     logEL(m) ≥ (m − m̂)² / (2 (σ̂² + (m − m̂)(X − m̂)))
    5.2     U ≤ m̂ + a + √(a² + 2Cσ̂²/n) ≤ m̂ + √(2Cσ̂²/n) + 2a,    a = (C/n)(X − m̂)
    lower   U ≥ m̂ − b + √(b² + 2Cσ̂²/n),    b = (C/n)(m̂ − min)      (Q ∝ 1 + θ(x − m̂) is feasible)
    KL_inf  logEL(m) ≥ KL_inf(m) = max over λ in [0, 1] of mean log(1 − λ(x − m)/(B − m)) for rewards of at most B,
            so that the EL index never exceeds the empirical KL-UCB index
    B.4     log(1 + y) ≥ y − y²/(2(1 − c)) for y ≥ −c, at the y = λ(m − x) where 2.2 uses it (least over the sample)
    B.3     U → mean and max/n → 0 along single paths

A margin is (larger side)/(smaller side) − 1, of U − m̂ for bounds on U, of y − log(1 + y) for B.4: it is never negative.
It counts as a violation below −1e-9, ten times the worst rounding of the exact solver, and as an equality within that:
KL_inf equals logEL unless its λ is 1. --runs: samples per law and size; --horizon: rewards of a path.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, streaming_el
from experiments import common

LAWS = {
    "gaussian": eljax.gaussian(1.0, 1.0),
    "exponential": eljax.exponential(1.0),
    "uniform": eljax.uniform(0.0, 1.0),
    "beta (5, .5)": eljax.beta(5.0, 0.5),
    "beta (.3, .6)": eljax.beta(0.3, 0.6),
    "bernoulli, .1": eljax.bernoulli(0.1),
    "student t, 3": eljax.student_t(3.0, 1.0, 1.0),
    "pareto, 1.5": eljax.pareto(1.5, 1.0),
}
SIZES, RADII, FRACTIONS = (5, 20, 100, 1_000), (0.1, 0.5, 1.0, 3.0, 10.0), (0.01, 0.1, 0.3, 0.6, 0.9, 0.99)
VIOLATION = -1e-9
SIZE = {"horizon": 1_000_000, "runs": 256}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "index_bounds", SIZE, argv, laws=list(LAWS))


def work(args: argparse.Namespace) -> None:
    """Check, then print and write the tables and the figure."""
    found = margins(args)
    title = f"Margins, {args.runs:,} samples of each law and size n = {', '.join(f'{n:,}' for n in SIZES)}"
    common.show(title, summary(found), args.out / "table.csv")
    n, curves = paths(args)
    title = (
        "Along single paths, radius 3: index U minus mean of the law, largest |reward| over n, bound on the error of U"
    )
    common.show(title, path_rows(n, curves), args.out / "paths.csv")
    figure(found, n, curves, args.out / "index_bounds.png")


def margins(args: argparse.Namespace) -> dict[tuple[str, str, int], np.ndarray]:
    """All margins by bound, law and n, in float64."""
    found = {}
    with jax.enable_x64(True), np.errstate(divide="ignore", invalid="ignore"):  # constant samples are left out below
        for law in args.laws:
            for n in SIZES:
                x = _rewards(law, args.seed, args.runs * n).reshape(args.runs, n)
                varied = x.max(1) > x.min(1)  # U of a constant sample is its value: nothing to bound
                for bound, values in _margins(x, LAWS[law].support[1]) if varied.any() else ():
                    found[bound, law, n] = values[:, varied]
    return found


def _margins(x: np.ndarray, upper: float) -> Iterator[tuple[str, np.ndarray]]:
    """(bound, margins [F, R] or [C, R]) of samples [R, n] of a law with rewards of at most `upper`."""
    n, mean, variance, top = x.shape[1], x.mean(1), x.var(1), x.max(1)
    # Padded, so that samples of all sizes share what is compiled.
    padded, where = np.pad(x, ((0, 0), (0, max(SIZES) - n))), np.arange(max(SIZES)) < n
    m = mean + np.array(FRACTIONS)[:, None] * (top - mean)
    log_el = np.asarray(eljax.log_el(padded, m, where))
    spread = variance + (m - mean) * (top - mean)
    yield "2.2", log_el / ((m - mean) ** 2 / (2 * spread)) - 1

    lam = (m - mean) / spread
    y, c = lam[..., None] * (m[..., None] - x), lam * (top - m)
    loss = np.where(np.abs(y) < 1e-4, y**2 * (1 / 2 - y / 3 + y**2 / 4), y - np.log1p(y))  # without cancellation
    ratio = np.where(y == 0, np.inf, y**2 / (2 * (1 - c[..., None])) / loss)
    yield "B.4", ratio.min(-1) - 1

    radius = np.array(RADII)[:, None]
    rise = np.asarray(eljax.el_index(padded, radius, where)) - mean
    a, b, normal = radius / n * (top - mean), radius / n * (mean - x.min(1)), 2 * radius * variance / n
    sharp = a + np.sqrt(a**2 + normal)
    yield "5.2", sharp / rise - 1
    yield "5.2, second form", (np.sqrt(normal) + 2 * a) / sharp - 1
    yield "lower", rise * (b + np.sqrt(b**2 + normal)) / normal - 1
    if np.isfinite(upper):
        yield "KL_inf", log_el / kl_inf(x, m, upper) - 1
        yield "KL-UCB", radius / n / kl_inf(x, mean + rise, upper) - 1


def kl_inf(x: np.ndarray, m: np.ndarray, upper: float) -> np.ndarray:
    """[F, R]: least KL(P, Q) over laws Q on (−∞, upper] of mean m [F, R] above that of the sample x [R, n]."""
    z = (x - m[..., None]) / (upper - m[..., None])  # at most 1
    low, high = np.zeros(m.shape), np.ones(m.shape)
    with np.errstate(divide="ignore"):
        for _ in range(60):  # the derivative falls from (m − mean)/(upper − m) > 0
            lam = (low + high) / 2
            rising = -(z / (1 - lam[..., None] * z)).mean(-1) > 0
            low, high = np.where(rising, lam, low), np.where(rising, high, lam)
        return np.log1p(-low[..., None] * z).mean(-1)


def summary(found: dict[tuple[str, str, int], np.ndarray]) -> list[dict]:
    """Per bound: comparisons, violations, and the tightest margin with where it was met."""
    rows = []
    for bound in dict.fromkeys(bound for bound, _, _ in found):
        of_bound = {names[1:]: values for names, values in found.items() if names[0] == bound}
        (law, n), tightest = min(((at, values.min()) for at, values in of_bound.items()), key=lambda pair: pair[1])
        everything = np.concatenate([values.ravel() for values in of_bound.values()])
        row = {"bound": bound, "comparisons": everything.size, "violations": int((everything < VIOLATION).sum())}
        row |= {"equal": float((np.abs(everything) <= -VIOLATION).mean()), "tightest": float(tightest)}
        rows.append(row | {"law": law, "n": n, "median": float(np.median(everything))})
    return rows


@jax.jit
def _pushed(streams: streaming_el.Stream, x: jax.Array, start: jax.Array, stop: jax.Array) -> streaming_el.Stream:
    """The streams with rewards start..stop − 1 of x [N, L]: one arm per lane."""
    push = jax.vmap(lambda stream, reward: streaming_el.push(stream, jnp.int32(0), reward))
    return jax.lax.fori_loop(start, stop, lambda s, streams: push(streams, x[s]), streams)


def paths(args: argparse.Namespace) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Sizes n [C], and per law [C, 4]: U − mean of the law, sample mean − that mean, max |x|/n, error of U."""
    sizes = np.unique(np.geomspace(1, args.horizon, 49).round().astype(int))
    values = []
    with jax.enable_x64(True):
        x = np.stack([_rewards(law, args.seed, args.horizon) for law in args.laws], 1)
        start = streaming_el.init(1, jnp.dtype(np.float64))
        streams = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], len(args.laws), 0), start)
        index = jax.jit(jax.vmap(lambda stream: streaming_el.arm_index(stream, jnp.int32(0), jnp.float64(3.0))))
        for first, last in zip([0, *sizes[:-1]], sizes, strict=True):
            streams = _pushed(streams, x, first, last)
            upper, error, streams = index(streams)
            mean = streaming_el.mean(streams)[:, 0]
            values.append(np.stack([upper, mean, streams.magnitude[:, 0] / last, error]))
    curves = np.stack(values, -1).transpose(1, 2, 0)  # [L, C, 4]
    law_means = np.array([LAWS[law].mean for law in args.laws])
    curves[:, :, :2] -= law_means[:, None, None]
    return sizes, dict(zip(args.laws, curves, strict=True))


def path_rows(n: np.ndarray, curves: dict[str, np.ndarray]) -> list[dict]:
    """Per law, at the end of the path and a hundredth of it."""
    rows, early = [], np.searchsorted(n, n[-1] / 100)
    for law, curve in curves.items():
        row = {"law": law}
        for i in (early, -1):
            row |= {f"U - mean at n = {n[i]:,}": curve[i, 0], f"max/n at {n[i]:,}": curve[i, 2]}
        rows.append(row | {"error": curve[-1, 3]})
    return rows


def _rewards(law: str, seed: int, count: int) -> np.ndarray:
    run = list(LAWS).index(law)  # a stream of its own for each law
    return eljax.Bandit([LAWS[law]]).rewards(seed=seed, run=run, arm=0, pulls=count, dtype="float64")


def figure(found: dict, n: np.ndarray, curves: dict[str, np.ndarray], path: Path) -> None:
    """Tightest margin of each bound against n; distance of U from the mean, and max/n, along a path of each law."""
    picture = Figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = picture.subplots(1, 3)
    bounds, styles = list(dict.fromkeys(bound for bound, _, _ in found)), list(zip(cycle(plots.COLOURS), "o^sDvP*X"))
    for bound, (colour, marker) in zip(bounds, styles, strict=False):
        at = sorted({n for name, _, n in found if name == bound})
        least = [min(v.min() for (name, _, n), v in found.items() if (name, n) == (bound, size)) for size in at]
        left.plot(at, np.maximum(least, 1e-16), color=colour, marker=marker, label=bound)
    for (law, curve), (colour, marker) in zip(curves.items(), styles, strict=False):
        for axes, column in ((middle, 0), (right, 2)):
            axes.plot(n, np.abs(curve[:, column]), color=colour, marker=marker, markevery=6, ms=4, label=law)
    left.set(ylabel="tightest margin (1e-16: equal to rounding)")
    middle.set(ylabel="|U − mean|, radius 3")
    right.set(ylabel="largest |reward| / n")
    for axes in (left, middle, right):
        axes.set(xscale="log", yscale="log", xlabel="n")
        axes.grid(alpha=0.25, linewidth=0.6)
    left.legend(frameon=False, fontsize="small")
    right.legend(frameon=False, fontsize="small")
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
