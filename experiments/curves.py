"""Mean and median regret against time in one panel each per instance: what figures 1 and 2 share."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

import eljax
from eljax import plots
from eljax.results import Result
from experiments import common, table3


def main(doc: str, name: str, shown: tuple[str, ...], argv: Sequence[str] | None) -> int:
    """Simulate what is missing of table 3's policies in `shown`, then write `name`.png and the final regrets."""
    names = {"instances": list(eljax.paper_instances()), "policies": list(shown)}
    return common.main(partial(_work, name), doc, name, table3.SIZE, argv, **names)


def _work(name: str, args: argparse.Namespace) -> None:
    results = table3.simulate(args)
    rows = [table3.row(instance, policy, result) for instance, by in results.items() for policy, result in by.items()]
    title = f"Final pseudo-regret, our parameters, T = {args.horizon:,}, {args.runs:,} runs (se: standard error)"
    common.show(title, rows, args.out / f"{name}.csv")
    figure(results, args.out / f"{name}.png")


def figure(results: dict[str, dict[str, Result]], path: Path) -> None:
    """Above the mean ± 2 standard errors, below the median; log axes, since regrets differ by 100 times."""
    picture = Figure(figsize=(3.3 * len(results) + 0.8, 6.4), layout="constrained")
    panels = picture.subplots(2, len(results), squeeze=False, sharex=True)
    for column, (instance, by_policy) in zip(panels.T, results.items(), strict=True):
        for (policy, result), (colour, marker) in zip(by_policy.items(), plots.styles(len(by_policy)), strict=True):
            t, mean, error = result.checkpoints, result.mean(), 2 * result.standard_error()
            style = {"color": colour, "marker": marker, "markersize": 4, "markevery": 8, "linewidth": 1.4}
            column[0].plot(t, mean, label=policy, **style)
            column[0].fill_between(t, mean - error, mean + error, color=colour, alpha=0.12, linewidth=0)
            column[1].plot(t, result.median(), **style)
        smallest = min(result.gaps[result.gaps > 0].min() for result in by_policy.values())
        for panel in column:
            panel.set(xscale="log", yscale="log")
            panel.set_ylim(bottom=smallest)
            panel.grid(alpha=0.25, linewidth=0.6)
        column[0].set_title(instance)
        column[1].set_xlabel("round t")
    panels[0, 0].set_ylabel("mean pseudo-regret")
    panels[1, 0].set_ylabel("median pseudo-regret")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 6), frameon=False)
    picture.savefig(path, dpi=150)
