"""EL-F with both schedules, at radius 0 and 3, on the paper's six instances: mean and median pseudo-regret.

    python -m experiments.table3

The instances are ours in the paper's spirit (`eljax.paper_instances`), so numbers compare in order, not in value. A
result is written as soon as it is finished; running again with the same arguments continues from those.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.cli import INTERRUPTED
from eljax.results import Result, readable
from experiments import common

# Radius 0 makes the EL index the mean, which is g-forcing: the same pulls without a solve.
POLICIES = {
    "EL-F g1, radius 0": policies.g_forcing(eljax.log_loglog()),
    "EL-F g1, radius 3": policies.el_f(eljax.log_loglog(), 3.0),
    "EL-F g2, radius 0": policies.g_forcing(eljax.log_squared()),
    "EL-F g2, radius 3": policies.el_f(eljax.log_squared(), 3.0),
}
SIZE = {"horizon": 10_000, "runs": 1_024}  # the paper's


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    parser = common.parser(__doc__.partition("\n")[0], "table3")
    common.instances(parser)
    args = parser.parse_args(argv)
    size = SIZE | {name: value for name, value in vars(args).items() if name in SIZE}  # what was given wins
    out = common.output_folder(parser, args.out)

    bandits = {name: bandit for name, bandit in eljax.paper_instances().items() if name in args.instances}
    total = len(bandits) * len(POLICIES)
    results: dict[str, dict[str, Result]] = {}
    done = 0
    try:
        for instance, bandit in bandits.items():
            for name, policy in POLICIES.items():
                path = out / f"{common.file_name(instance, name)}.npz"
                result, loaded = common.simulate_or_load(path, bandit, policy, **size, seed=args.seed)
                results.setdefault(instance, {})[name] = result
                done += 1
                note = f" (loaded from {path}, not recomputed)" if loaded else ""
                print(f"[{done}/{total}] {instance}, {name}: mean {readable(result.mean()[-1])}{note}", flush=True)
    except KeyboardInterrupt:
        print(
            f"\nInterrupted: {done} of {total} results are kept in {out}; the same command continues.", file=sys.stderr
        )
        return INTERRUPTED

    rows = [row(instance, name, result) for instance, by in results.items() for name, result in by.items()]
    title = f"Final pseudo-regret, our parameters, T = {size['horizon']:,}, {size['runs']:,} runs (se: standard error)"
    common.show(title, rows, out / "table.csv")
    figure(results, out / "table3.png")
    print(f"Written to {out}: table.csv, table3.png, and {total} result files (eljax.Result.load)")
    return 0


def row(instance: str, name: str, result: Result) -> dict:
    """One row of the table. A high-regret run ends with R(T) > 0.1 · (smallest gap > 0) · T."""
    smallest_gap = result.gaps[result.gaps > 0].min()
    high = 0.1 * smallest_gap * result.horizon
    return {
        "instance": instance,
        "policy": name,
        "mean": result.mean()[-1],
        "mean_se": result.standard_error()[-1],
        "median": result.median()[-1],
        "median_se": result.median_standard_error()[-1],
        "q10": result.quantile(0.1)[-1],
        "q90": result.quantile(0.9)[-1],
        "high_regret": result.tail(high).probability,
    }


def figure(results: dict[str, dict[str, Result]], path: Path) -> None:
    """One panel per instance (mean, median, 10–90% band against t), one legend for all."""
    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    picture = Figure(figsize=(4.3 * columns, 3.4 * rows + 0.8), layout="constrained")
    panels = np.ravel(picture.subplots(rows, columns, squeeze=False))
    for panel, (instance, by_policy) in zip(panels, results.items(), strict=False):
        plots.regret_curves(by_policy, ax=panel)
        panel.set_title(instance)
        legend = panel.get_legend()
        handles, labels = legend.legend_handles, [text.get_text() for text in legend.get_texts()]
        legend.remove()
    for panel in panels[len(results) :]:
        panel.set_visible(False)
    picture.legend(handles, labels, loc="outside upper center", ncols=4 if columns > 1 else 2, frameon=False)
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
