"""How fast the simulator is: one table of ratios, each measured side by side in one process.

    pip install '.[benchmarks]'
    python -m experiments.benchmarks            # all figures that have a target, 5 minutes on two cores
    python -m experiments.benchmarks --only heavy radius

The work is EL-F with radius 3 and g2 on two Gaussian arms (means .5, 0, sd 1), T = 10,000, 1,024 runs, float32, all
cores, after compilation, unless a figure says otherwise. The sides of a ratio take turns, and the best of their times
is compared: what else the machine does only ever adds. Writes table.csv and benchmarks.json, after Ctrl-C too.
"""

import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

import eljax
from eljax import arms, engine, policies, random
from eljax.cli import INTERRUPTED
from eljax.types import Policy
from experiments import common

SIZE = {"horizon": 10_000, "runs": 1_024}
TURNS = 2
G2 = eljax.log_squared()
EL_F, RADIUS_0 = policies.el_f(G2, 3.0), policies.g_forcing(G2)
GAUSSIAN = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
CHILD = """
import sys, time
start = time.perf_counter()
import eljax
bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
policy = eljax.policies.el_f(eljax.log_squared(), 3.0)
eljax.simulate(bandit, policy, horizon=int(sys.argv[1]), runs=int(sys.argv[2]))
print(time.perf_counter() - start, peak_memory())
"""

# Of this program alone; getrusage gives no less than what the parent had when it started the child (Linux).
PEAK_MEMORY = """
def peak_memory():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20
"""

SWEEP = """
import pathlib, sys, tempfile, time
import numpy as np
import eljax
cells, runs, horizon = map(int, sys.argv[1:])
bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)])
policies = eljax.grid(eljax.policies.ucb, sigma=np.linspace(1.0, 2.0, cells))
rounds = np.unique(np.linspace(1, horizon, 30).astype(int))
with tempfile.TemporaryDirectory() as folder:
    start = time.perf_counter()
    eljax.sweep(bandit, policies, horizon=horizon, runs=runs, checkpoints=rounds, path=folder + "/s", progress=False)
    seconds, peak = time.perf_counter() - start, peak_memory()
    print(seconds, peak, sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file()))
"""


def streaming(size: dict) -> dict:
    """The exact index costs as much in every round as its history is long: measured over the first rounds of T."""
    capacity, rounds = size["horizon"], min(size["horizon"], 50)
    exact = policies.el_f(G2, 3.0, index="exact")
    exact = exact._replace(init=Partial(lambda arms, _, dtype, init=exact.init: init(arms, capacity, dtype)))
    lanes = engine.tile_lanes(exact, 2, rounds, np.dtype(np.float32))
    small = {"horizon": rounds, "runs": 2 * lanes}
    slow, fast = _times([partial(_simulate, GAUSSIAN, exact, small), partial(_simulate, GAUSSIAN, EL_F, size)])
    per_round = slow / (rounds * small["runs"]), fast / (capacity * size["runs"])
    note = (
        f"{per_round[0] * 1e6:.1f} µs and {per_round[1] * 1e6:.3f} µs per run-round; exact: the first {rounds} rounds"
    )
    return _figure(per_round[0] / per_round[1], note)


def radius(size: dict) -> dict:
    solved, unsolved = _times([partial(_simulate, GAUSSIAN, policy, size) for policy in (EL_F, RADIUS_0)])
    return _figure(
        solved / unsolved, f"{solved:.2f} s and {unsolved:.3f} s; radius 0 as g_forcing, which solves nothing"
    )


def horizon(size: dict) -> dict:
    longer = size | {"horizon": 10 * size["horizon"]}
    long, short = _times([partial(_simulate, GAUSSIAN, EL_F, sizes) for sizes in (longer, size)], turns=1)
    return _figure(long / short, f"{long:.1f} s and {short:.2f} s")


def cores(size: dict) -> dict:
    everywhere = os.sched_getaffinity(0)

    def on_one() -> None:
        os.sched_setaffinity(0, {min(everywhere)})
        try:
            _simulate(GAUSSIAN, EL_F, size)
        finally:
            os.sched_setaffinity(0, everywhere)

    one, all_ = _times([on_one, partial(_simulate, GAUSSIAN, EL_F, size)])
    return _figure(one / all_, f"{one:.2f} s on one core, {all_:.2f} s on {len(everywhere)}")


def laws(size: dict) -> dict:
    samples = np.random.default_rng(0).normal(size=(2, 2_000))
    pairs = {
        "gaussian": GAUSSIAN.arms,
        "beta": (eljax.beta(3, 2), eljax.beta(2, 3)),
        "gamma": (eljax.gamma(2.5, 1.0), eljax.gamma(2.0, 1.0)),
        "empirical": (eljax.empirical(samples[0] + 0.5), eljax.empirical(samples[1])),
    }
    return _slowest(pairs, size)


def heavy(size: dict) -> dict:
    pairs = {
        "gaussian": GAUSSIAN.arms,
        "student t, 3": (eljax.student_t(3.0, 0.5, 1.0), eljax.student_t(3.0, 0.0, 1.0)),
        "pareto, 1.5": (eljax.pareto(1.5, 1.2), eljax.pareto(1.5, 1.0)),
    }
    return _slowest(pairs, size)


def many_arms(size: dict) -> dict:
    ten = eljax.Bandit([eljax.gaussian(0.5, 1.0)] + [eljax.gaussian(0.0, 1.0)] * 9)
    many, two = _times([partial(_simulate, bandit, EL_F, size) for bandit in (ten, GAUSSIAN)], turns=1)
    return _figure(many / two, f"{many:.2f} s and {two:.2f} s")


def drawing(size: dict) -> dict:
    """The rewards alone: the same numbers, each arm in turn, added up."""
    lanes = engine.tile_lanes(RADIUS_0, 2, size["horizon"], np.dtype(np.float32))
    law, seed_data = GAUSSIAN.law(np.float32), jax.random.key_data(random.seed_key(0))

    def one(law: arms.Law, run_number: jax.Array, pull: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.wrap_key_data(seed_data, impl="threefry2x32"), run_number)
        keys = random.arm_keys(key, 2)
        arm = (pull % 2).astype(jnp.int32)
        chosen = random.KeyData(*(jnp.where(arm == 0, x[0], x[1]) for x in keys))
        return arms.reward(law, arm, *random.tail_uniform(chosen, pull // 2, law.dtype))

    @jax.jit
    def tile(law: arms.Law, run_numbers: jax.Array) -> jax.Array:
        draw = jax.vmap(one, (None, 0, None))
        step = lambda total, pull: (total + draw(law, run_numbers, pull), None)  # noqa: E731
        return jax.lax.scan(step, jnp.zeros(lanes), jnp.arange(size["horizon"], dtype=jnp.int32))[0]

    def draw() -> None:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            tiles = range(0, size["runs"], lanes)
            list(
                pool.map(lambda start: tile(law, start + np.arange(lanes, dtype=np.uint32)).block_until_ready(), tiles)
            )

    rewards, radius_0 = _times([draw, partial(_simulate, GAUSSIAN, RADIUS_0, size)])
    return _figure(rewards / radius_0, f"{rewards:.3f} s and {radius_0:.3f} s")


def interval(size: dict) -> dict:
    from statsmodels.emplike.descriptive import DescStat

    x, few = np.random.default_rng(0).normal(size=(10_000, 100)), 50
    ours = jax.jit(lambda x: eljax.el_interval(x, confidence=0.95))
    with jax.enable_x64(True):
        theirs, mine = _times(
            [
                lambda: [DescStat(row).ci_mean(sig=0.05) for row in x[:few]],
                lambda: jax.block_until_ready(ours(x)),
            ]
        )
    per_interval = theirs / few, mine / len(x)
    return _figure(
        per_interval[0] / per_interval[1], f"{per_interval[0] * 1e3:.2f} ms and {per_interval[1] * 1e6:.2f} µs"
    )


def pymab(size: dict) -> dict:
    from pymab import BanditEnvironment, Experiment, ExperimentConfig, GaussianReward
    from pymab.policies import UCBPolicy

    runs, rounds = 64, min(size["horizon"], 2_000)
    experiment = Experiment(
        environment=BanditEnvironment(means=np.array([0.5, 0.0]), reward_model=GaussianReward(std=1.0)),
        policies={"ucb": UCBPolicy(n_arms=2)},
        config=ExperimentConfig(horizon=rounds, n_replicates=runs, seed=1, backend="rust"),
    )
    theirs, mine = _times([experiment.run, partial(_simulate, GAUSSIAN, policies.ucb(1.0), size)])
    rates = runs * rounds / theirs, size["runs"] * size["horizon"] / mine
    return _figure(rates[1] / rates[0], f"{rates[1]:.3g} and {rates[0]:.3g} run-rounds/s")


def memory(size: dict) -> dict:
    seconds, peak = _child(CHILD, size["horizon"], 100_000 * size["runs"] // 1_024)
    return _figure(peak, f"GiB at most in a process of its own; {seconds:.0f} s")


def fresh(size: dict) -> dict:
    seconds, _ = _child(CHILD, size["horizon"], size["runs"])
    return _figure(seconds, "s from the start of Python's first import to the result")


def sweep(size: dict) -> dict:
    """Four radii, into a store and with bare simulate."""
    radii, stores = [0.5, 1.0, 3.0, 8.0], count()
    with tempfile.TemporaryDirectory() as folder:

        def stored() -> None:
            path, grid = f"{folder}/{next(stores)}", eljax.grid(policies.el_f, schedule=G2, radius=radii)
            eljax.sweep(GAUSSIAN, grid, **size, path=path, dtype=np.float32, progress=False)

        bare = lambda: [_simulate(GAUSSIAN, policies.el_f(G2, radius), size) for radius in radii]  # noqa: E731
        ours, plain = _times([stored, bare])
    return _figure(100 * (ours / plain - 1), f"% on top; {ours:.2f} s and {plain:.2f} s")


def storage(size: dict) -> dict:
    seconds, peak, stored = _child(SWEEP, 1, 1_000_000 * size["runs"] // 1_024, 100)
    return _figure(peak, f"GiB at most in a process of its own; {seconds:.0f} s, {stored / 2**20:.0f} MiB on disk")


def cells(size: dict) -> dict:
    many, few = (_child(SWEEP, number, size["runs"], 100)[1] for number in (400, 4))
    return _figure(many / few, f"{many:.2f} GiB and {few:.2f} GiB")


FIGURES: dict[str, tuple[str, Callable[[dict], dict], str, float, float]] = {
    "streaming": ("streaming against exact index, per run-round", streaming, ">=", 400, 1_000),
    "radius": ("radius 3 against radius 0", radius, "<=", 6, 3),
    "horizon": ("10 T against T", horizon, "<=", 11, 10),
    "cores": ("all cores against one", cores, ">=", 1.7, 1.9),
    "laws": ("slowest law against Gaussian", laws, "<=", 2, 1.2),
    "heavy": ("heavy tails against Gaussian", heavy, "<=", np.inf, np.inf),
    "arms": ("10 arms against 2", many_arms, "<=", 4, 2),
    "drawing": ("drawing the rewards alone against radius 0", drawing, ">=", 0.4, 0.7),
    "interval": ("el_interval against statsmodels ci_mean, n = 100", interval, ">=", 1_000, 5_000),
    "pymab": ("UCB against pymab's", pymab, ">=", 50, 200),
    "memory": ("peak memory of 100,000 runs", memory, "<=", 3, 1),
    "sweep": ("sweep on top of bare simulate", sweep, "<=", 5, 2),
    "storage": ("peak memory of storing 1e6 runs, 30 checkpoints", storage, "<=", 1, 0.7),
    "cells": ("peak memory of 400 cells against 4", cells, "<=", 1.1, 1.03),
    "fresh": ("fresh process to first result", fresh, "<=", 15, 6),
}


DEFAULT = [name for name, (*_, target, _) in FIGURES.items() if np.isfinite(target)]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    parser = common.parser(__doc__.partition("\n")[0], "benchmarks")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(FIGURES),
        default=DEFAULT,
        metavar="FIGURE",
        help=f"any of {', '.join(FIGURES)}",
    )
    args = parser.parse_args(argv)
    size = SIZE | {name: value for name, value in vars(args).items() if name in SIZE}
    out = common.output_folder(parser, args.out)
    rows, started, code = [], time.perf_counter(), 0
    try:
        for name in args.only:
            print(f"{FIGURES[name][0]} ...", end=" ", flush=True)
            begun = time.perf_counter()
            rows.append(_row(name, size) | {"seconds": round(time.perf_counter() - begun, 1)})
            print(f"{rows[-1]['value']:.4g} ({rows[-1]['']}; {rows[-1]['note']})", flush=True)
    except KeyboardInterrupt:
        print("\nInterrupted: the figures so far are written.", file=sys.stderr)
        code = INTERRUPTED
    machine = {
        "cpu": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "devices": [str(device) for device in jax.devices()],
        "versions": {name: version(name) for name in ("eljax", "jax", "jaxlib", "numpy")},
        "seconds": round(time.perf_counter() - started, 1),
        **size,
    }
    (out / "benchmarks.json").write_text(
        json.dumps({"machine": machine, "figures": rows}, indent=1, ensure_ascii=False)
    )
    common.show(f"Ratios on {machine['cores']} cores, {machine['seconds']} s", rows, out / "table.csv")
    return code


def _row(name: str, size: dict) -> dict:
    """One figure, measured and judged."""
    title, measure, sense, target, beyond = FIGURES[name]
    figure = measure(size)
    gc.collect()
    met = [figure["value"] >= x if sense == ">=" else figure["value"] <= x for x in (target, beyond)]
    verdict = "no target" if np.isinf(target) else "beyond" if met[1] else "met" if met[0] else "missed"
    limits = {} if np.isinf(target) else {"target": f"{sense} {target:g}", "beyond": f"{sense} {beyond:g}"}
    return {"figure": title, **figure, **limits, "": verdict}


def _simulate(bandit: eljax.Bandit, policy: Policy, size: dict) -> None:
    eljax.simulate(bandit, policy, **size, dtype=np.float32)


def _slowest(pairs: dict[str, tuple], size: dict) -> dict:
    """The slowest pair of arms against Gaussian ones."""
    bandits = [eljax.Bandit(pair) for pair in pairs.values()]
    times = dict(zip(pairs, _times([partial(_simulate, bandit, EL_F, size) for bandit in bandits]), strict=True))
    return _figure(max(times.values()) / times["gaussian"], ", ".join(f"{k} {v:.2f} s" for k, v in times.items()))


def _times(sides: list[Callable[[], object]], turns: int = TURNS) -> list[float]:
    """Best time in seconds of each side, after one call of each to compile."""
    for side in sides:
        side()
    best = [np.inf] * len(sides)
    for _ in range(turns):
        for i, side in enumerate(sides):
            start = time.perf_counter()
            side()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def _figure(value: float, note: str) -> dict:
    return {"value": float(value), "note": note}


def _child(script: str, *sizes: int) -> list[float]:
    """What a script prints in a process of its own: seconds, peak GiB, ..."""
    script = PEAK_MEMORY + script
    done = subprocess.run([sys.executable, "-c", script, *map(str, sizes)], capture_output=True, text=True, check=True)
    return list(map(float, done.stdout.split()))


if __name__ == "__main__":
    sys.exit(main())
