"""What figures 1 and 2 share: some of table 3's policies, their final regrets and curves."""

import argparse
from collections.abc import Sequence
from functools import partial

import eljax
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
    table3.figure(results, args.out / f"{name}.png")
