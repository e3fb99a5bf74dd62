"""What the radius of EL-F buys: mean, median and frequency of high-regret runs, with both schedules (tables 4 and 5).

    python -m experiments.table4_5

The six instances are `eljax.paper_instances()`, our parameters; the radius is 0, .5, ..., 8 or moves as loglog t + 3.
All cells of one instance meet the same rewards, so their differences are paired. A high-regret run ends with
R(T) > 0.1 · (smallest gap) · T.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from eljax.results import Result
from experiments import common, table3

RADII = {f"{c:g}": c for c in (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0)} | {"loglog t + 3": eljax.loglog_radius(3.0)}
SIZE = {"horizon": 10_000, "runs": 1_024}  # the paper's


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    names = {"instances": list(eljax.paper_instances()), "schedules": list(common.SCHEDULES), "radii": list(RADII)}
    return common.main(work, __doc__, "table4_5", SIZE, argv, **names)


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure."""
    rows = measure(args)
    title = f"Final pseudo-regret of EL-F by radius, our parameters, T = {args.horizon:,}, {args.runs:,} runs"
    common.show(f"{title} (se: standard error; low, high: 95% interval of the frequency)", rows, args.out / "table.csv")
    figure(rows, args.out / "table4_5.png")


def measure(args: argparse.Namespace) -> list[dict]:
    """One row per instance, schedule and radius."""
    bandits = eljax.paper_instances()
    jobs = {
        (instance, schedule, f"radius {radius}"): (
            bandits[instance],
            policies.el_f(common.SCHEDULES[schedule], RADII[radius]),
        )
        for instance in args.instances
        for schedule in args.schedules
        for radius in args.radii
    }
    return [row(*names, result) for names, result in common.simulate_all(args, jobs).items()]


def row(instance: str, schedule: str, radius: str, result: Result) -> dict:
    """Table 3's columns, the frequency of high-regret runs with its exact interval."""
    same = table3.row(instance, "", result)
    kept = {name: same[name] for name in ("mean", "mean_se", "median", "median_se")}
    frequency, low, high = table3.high_regret(result)
    names = {"instance": instance, "schedule": schedule, "radius": radius.removeprefix("radius ")}
    return names | kept | {"high_regret": frequency, "low": low, "high": high}


def figure(rows: Sequence[dict], path: Path) -> None:
    """Per instance: mean ± 2 standard errors and median against the radius, and the frequency of high-regret runs."""
    instances = list(dict.fromkeys(row["instance"] for row in rows))
    picture = Figure(figsize=(3.1 * len(instances) + 0.6, 6.2), layout="constrained")
    panels = picture.subplots(2, len(instances), squeeze=False, sharex=True, height_ratios=(3, 2))
    for (top, bottom), instance in zip(panels.T, instances, strict=True):
        for schedule, colour in zip(common.SCHEDULES, plots.COLOURS, strict=False):
            cells = [row for row in rows if (row["instance"], row["schedule"]) == (instance, schedule)]
            if not cells:
                continue
            radii, column = [row["radius"] for row in cells], lambda name, cells=cells: [row[name] for row in cells]
            error = 2 * np.array(column("mean_se"))
            top.errorbar(radii, column("mean"), error, color=colour, marker="o", ms=4, label=f"{schedule}, mean ± 2 se")
            top.plot(radii, column("median"), color=colour, ls="--", marker=".", label=f"{schedule}, median")
            bottom.plot(radii, column("high_regret"), color=colour, marker="o", ms=4)
            bottom.fill_between(radii, column("low"), column("high"), color=colour, alpha=0.15)
        top.set_yscale("log")
        top.set_title(instance)
        bottom.set_ylim(bottom=0)
        bottom.tick_params(axis="x", rotation=60)
        for panel in (top, bottom):
            panel.grid(alpha=0.25, linewidth=0.6)
    panels[0, 0].set_ylabel("final pseudo-regret")
    panels[1, 0].set_ylabel("share of high-regret runs")
    picture.supxlabel("radius")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
