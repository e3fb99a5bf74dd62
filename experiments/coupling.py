"""Lemma 4.2: with a deterministic worse arm, a radius never costs a pull of the better one, in any run, at any time.

    python -m experiments.coupling

Arm 1 is random, arm 2 always pays less than its mean. On the same rewards, EL-F with radius C has pulled arm 1 at least
as often as EL-F with radius 0 after every round of every run: the index is at least the mean, and that of arm 2 is its
value for every radius. Violations are counted over all rounds of all runs; the mean difference is that at T.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import eljax
from eljax import plots, policies
from experiments import common

LAWS = {  # arm 1; arm 2 pays half a standard deviation less, where there is one
    "gaussian": (eljax.gaussian(0.5, 1.0), eljax.dirac(0.0)),
    "exponential": (eljax.exponential(1.0), eljax.dirac(0.5)),
    "student t, 3": (eljax.student_t(3.0, 0.5, 1.0), eljax.dirac(0.0)),
    "two-point, p = .1": (eljax.two_point([0.0, 10.0], [0.9, 0.1]), eljax.dirac(0.5)),
}
RADII = {f"{c:g}": c for c in (0.5, 1.0, 3.0, 8.0)}
SIZE = {"horizon": 1_000, "runs": 1_024}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    names = {"laws": list(LAWS), "radii": list(RADII), "schedules": list(common.SCHEDULES)}
    return common.main(work, __doc__, "coupling", SIZE, argv, **names)


def work(args: argparse.Namespace) -> None:
    """Simulate, then print and write the table and the figure; on Ctrl-C, of what there is."""
    rows, curves = [], {}
    try:
        measure(args, rows, curves)
    finally:
        title = f"Pulls of arm 1 with radius C minus those with radius 0, T = {args.horizon:,}, {args.runs:,} runs"
        common.show(title, rows, args.out / "table.csv")
        figure(curves, args.out / "coupling.png")


def measure(args: argparse.Namespace, rows: list[dict], curves: dict) -> None:
    """Add a row for each law, schedule and radius, and the mean difference of pulls after every round."""
    for law in args.laws:
        for schedule in args.schedules:
            plain = _pulls(args, law, schedule, 0.0)
            for radius in args.radii:
                more = _pulls(args, law, schedule, RADII[radius]) - plain
                row = {"law": law, "schedule": schedule, "radius": radius}
                row |= {"run-rounds": more.size, "violations": int((more < 0).sum()), "smallest": int(more.min())}
                rows.append(row | {"mean": more[:, -1].mean(), "runs that differ": (more > 0).any(1).mean()})
                curves[law, schedule, radius] = more.mean(0)
                print(f"{law}, {schedule}, radius {radius}: {row['violations']} violations", flush=True)


def _pulls(args: argparse.Namespace, law: str, schedule: str, radius: float) -> np.ndarray:
    """[R, T]: pulls of arm 1 after every round."""
    bandit, rounds = eljax.Bandit(LAWS[law]), np.arange(1, args.horizon + 1)
    policy = policies.el_f(common.SCHEDULES[schedule], radius)
    result = eljax.simulate(bandit, policy, **common.size(args), checkpoints=rounds)
    return rounds - np.rint(result.regret / bandit.gaps[1]).astype(int)


def figure(curves: dict[tuple[str, str, str], np.ndarray], path: Path) -> None:
    """Per law: mean pulls of arm 1 gained by the radius, against the round."""
    laws = list(dict.fromkeys(law for law, _, _ in curves))
    picture = Figure(figsize=(3.4 * max(len(laws), 1) + 0.6, 3.6), layout="constrained")
    panels = picture.subplots(1, max(len(laws), 1), squeeze=False)[0]
    for panel, law in zip(panels, laws, strict=False):
        of_law = {names[1:]: curve for names, curve in curves.items() if names[0] == law}
        radii = list(dict.fromkeys(radius for _, radius in of_law))
        for (schedule, radius), curve in of_law.items():
            style = {"color": plots.COLOURS[radii.index(radius)], "ls": "-" if schedule == "g1" else "--"}
            panel.plot(np.arange(1, curve.size + 1), curve, label=f"{schedule}, radius {radius}", **style)
        panel.set(title=law, xlabel="round t", xscale="log")
        panel.grid(alpha=0.25, linewidth=0.6)
    panels[0].set_ylabel("pulls of arm 1 more than with radius 0")
    if curves:
        panels[0].legend(frameon=False, fontsize="x-small")
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
