"""Does the O(1) index pull the arms the exact index pulls? Run by run, on light and heavy tails, at several radii.

    python -m experiments.agreement      # about an hour on two cores, nearly all of it in the exact index

Per law and radius, with the same rewards: the share of runs with the same pulls at every checkpoint as with the index
solved over all rewards, in float64 and float32; runs that were done again with exact decisions, and uncertified
decisions left; the largest error of indices that decided by value; and the shares of runs unchanged when rewards are
multiplied by 1e-6 or 1e6, or moved by a million standard deviations (float64). T = 2,000, 256 runs.
"""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import numpy as np
import pandas as pd

import eljax
from eljax import policies
from eljax.types import Policy
from experiments import common

SIZE = {"horizon": 2_000, "runs": 256}
G2 = eljax.log_squared()
ACTG = [arm.parameters["samples"] for arm in eljax.datasets.actg175().arms[:2]]
LAWS = {
    "gaussian": (eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)),
    "exponential": (eljax.exponential(1.5), eljax.exponential(1.0)),
    "beta (.3, .6) x 50": (eljax.beta(0.3, 0.6, 50.0), eljax.beta(0.25, 0.6, 50.0)),
    "bernoulli": (eljax.bernoulli(0.6), eljax.bernoulli(0.5)),
    "student t3": (eljax.student_t(3.0, 0.5, 1.0), eljax.student_t(3.0, 0.0, 1.0)),
    "two-point, p = .01": (eljax.two_point([0.0, 100.0], [0.99, 0.01]), eljax.two_point([0.0, 90.0], [0.99, 0.01])),
    "actg175": tuple(map(eljax.empirical, ACTG)),
}
POLICIES: dict[str, Callable[[str], Policy]] = {
    "el_f, radius .5": lambda index: policies.el_f(G2, 0.5, index=index),
    "el_f, radius 3": lambda index: policies.el_f(G2, 3.0, index=index),
    "el_f, radius 10": lambda index: policies.el_f(G2, 10.0, index=index),
    "el_f, radius loglog t + 3": lambda index: policies.el_f(G2, eljax.loglog_radius(3.0), index=index),
    "el_ucb": lambda index: policies.el_ucb(G2, index=index),
}


def compare(law: str, name: str, dtypes: Sequence[str], size: dict, seed: int) -> dict:
    """One row: a law, a policy, both indices."""
    bandit, make = eljax.Bandit(LAWS[law]), POLICIES[name]
    row = {"law": law, "policy": name}
    for dtype in dtypes:
        fast, exact = (
            eljax.simulate(bandit, make(index), **size, seed=seed, dtype=dtype) for index in ("streaming", "exact")
        )
        row[f"same {dtype}"] = float((fast.regret == exact.regret).all(1).mean())
        row[f"re-run {dtype}"] = fast.provenance["exact_reruns"] / fast.runs
        row[f"error {dtype}"] = fast.max_index_error
        row[f"uncertified {dtype}"] = fast.uncertified_decisions
    return row


def change_of_unit(law: str, name: str, dtypes: Sequence[str], size: dict, seed: int) -> dict:
    """Shares of runs unchanged by a change of unit, on 2,000 draws from the law as an empirical one."""
    draws = [eljax.Bandit(LAWS[law]).rewards(seed=seed, run=0, arm=i, pulls=2_000, dtype="float64") for i in (0, 1)]
    far = 1e6 * np.std(draws[0])
    policy, row = POLICIES[name]("streaming"), {"law": law, "policy": name}
    changes = {"x 1e-6": (1e-6, 0), "x 1e6": (1e6, 0), "+ 1e6 sd": (1, far)}
    for dtype in dtypes:
        plain, *changed = (
            eljax.simulate(
                eljax.Bandit([eljax.empirical(scale * x + shift) for x in draws]),
                policy,
                **size,
                seed=seed,
                dtype=dtype,
            )
            for scale, shift in [(1, 0), *changes.values()]
        )
        for change, result in zip(changes, changed, strict=True):
            if dtype == "float64" or change != "+ 1e6 sd":  # which leaves float32 no digits
                row[f"{change} {dtype}"] = float((result.pulls == plain.pulls).all(1).mean())
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, or 2 for a bad argument."""
    parser = common.parser(__doc__.partition("\n")[0], "agreement")
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=list(LAWS), metavar="LAW")
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES), metavar="POLICY")
    parser.add_argument("--dtypes", nargs="+", choices=["float64", "float32"], default=["float64", "float32"])
    args = parser.parse_args(argv)
    size = SIZE | {name: value for name, value in vars(args).items() if name in SIZE}
    out = common.output_folder(parser, args.out)
    total = len(args.laws) * len(args.policies)
    for title, measure, path in (
        ("After a change of unit: shares of runs with the same pulls", change_of_unit, "units.csv"),
        ("Against the exact index: shares of runs", compare, "table.csv"),
    ):
        rows, lock = [], Lock()

        def all_policies(
            law: str, measure: Callable = measure, rows: list = rows, path: Path = out / path, lock=lock
        ) -> None:
            for name in args.policies:
                row = measure(law, name, args.dtypes, size, args.seed)
                with lock:  # a row is written as soon as it is there
                    rows.append(row)
                    pd.DataFrame(rows).to_csv(path, index=False)
                print(f"[{len(rows)}/{total}] {row}", flush=True)

        with ThreadPoolExecutor(2) as pool:  # a simulation of this size fills one tile, which runs on one core
            list(pool.map(all_policies, args.laws))
        common.show(f"{title}, T = {size['horizon']:,}, {size['runs']:,} runs", rows, out / path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
