"""What the experiments share: arguments, the output folder, resuming from finished results, tables."""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import eljax
from eljax import engine
from eljax.cli import INTERRUPTED
from eljax.results import Result, readable, writable
from eljax.tails import TailEstimate
from eljax.types import Policy, describe

Finding = tuple[str, bool | str]  # of a claim: the evidence, and whether it shows it, or why it was not checked
SCHEDULES = {"g1": eljax.log_loglog(), "g2": eljax.log_squared()}


def main(
    work: Callable[[argparse.Namespace], None],
    doc: str,
    name: str,
    sizes: Mapping[str, int],
    argv: Sequence[str] | None = None,
    **choices: Sequence[str],
) -> int:
    """Parse the arguments, make the folder, do `work`; the exit code is 0, 2 for a bad argument, 130 when interrupted.

    `work` gets what `parser` and `choices` define: each choice, such as laws=["gaussian"], becomes an option --laws
    that takes some of the names, by default all.
    """
    arguments = parser(doc.partition("\n")[0], name)
    for option, names in choices.items():
        choose(arguments, option, names)
    arguments.set_defaults(**sizes)
    args = arguments.parse_args(argv)
    args.out = output_folder(arguments, args.out)
    try:
        work(args)
    except KeyboardInterrupt:
        print(f"\nInterrupted: what is finished is in {args.out}.", file=sys.stderr)
        return INTERRUPTED
    print(f"Written to {args.out}")
    return 0


def parser(description: str, name: str) -> argparse.ArgumentParser:
    """Arguments every experiment takes; --horizon and --runs are None unless given, see `sizes`."""
    arguments = argparse.ArgumentParser(
        prog=f"python -m experiments.{name}",
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    arguments.add_argument(
        "--horizon", type=_whole(1), metavar="T", help="rounds of each run", default=argparse.SUPPRESS
    )
    arguments.add_argument("--runs", type=_whole(1), metavar="R", help="runs of each policy", default=argparse.SUPPRESS)
    arguments.add_argument("--seed", type=_whole(0, 2**64 - 1), default=0, help="whole number in [0, 2^64)")
    arguments.add_argument("--out", type=Path, default=Path("results") / name, help="folder for everything written")
    return arguments


def instances(arguments: argparse.ArgumentParser) -> None:
    """Add --instances: some of the paper's instances by name, default all of them."""
    choose(arguments, "instances", list(eljax.paper_instances()))


def choose(arguments: argparse.ArgumentParser, option: str, names: Sequence[str]) -> None:
    """Add an option that takes some of the names, default all of them."""
    what = option.upper().rstrip("S")
    arguments.add_argument(
        f"--{option}", nargs="+", choices=names, default=names, metavar=what, help=f"any of {', '.join(names)}"
    )


def output_folder(arguments: argparse.ArgumentParser, out: Path) -> Path:
    """The folder, made if missing; ends the program with a message naming --out where it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable(out / "table.csv")
    except OSError as error:
        arguments.error(f"argument --out: cannot write to {str(out)!r}: {error}")
    return out


def size(args: argparse.Namespace) -> dict[str, int]:
    """The arguments of `eljax.simulate` that the command line gives."""
    return {name: getattr(args, name) for name in ("horizon", "runs", "seed")}


def simulate_all(
    args: argparse.Namespace, jobs: Mapping[tuple[str, ...], tuple[eljax.Bandit, Policy]]
) -> dict[tuple[str, ...], Result]:
    """The result of each job, a (bandit, policy) under its names; finished ones are kept and found again."""
    results = {}
    try:
        for names, (bandit, policy) in jobs.items():
            path = args.out / f"{file_name(*names)}.npz"
            result, loaded = simulate_or_load(path, bandit, policy, **size(args))
            results[names] = result
            note = f" (loaded from {path}, not recomputed)" if loaded else ""
            count = f"[{len(results)}/{len(jobs)}]"
            print(f"{count} {', '.join(names)}: mean {readable(result.mean()[-1])}{note}", flush=True)
    except KeyboardInterrupt:
        kept = f"{len(results)} of {len(jobs)} results are kept"
        print(f"\n{kept} in {args.out}; the same command continues.", file=sys.stderr)
        raise
    return results


def simulate_or_load(
    path: Path, bandit: eljax.Bandit, policy: Policy, *, horizon: int, runs: int, seed: int
) -> tuple[Result, bool]:
    """The result in `path` if it is of exactly this simulation, else a new one, saved there; and if it was loaded."""
    if path.exists():
        try:
            result = Result.load(path)
            same = _same(result.provenance, bandit, policy, horizon=horizon, runs=runs, seed=seed)
            if same and np.array_equal(result.gaps, bandit.gaps):
                return result, True
        except ValueError as error:
            print(f"computing anew: {error}")
    result = eljax.simulate(bandit, policy, horizon=horizon, runs=runs, seed=seed, progress=True)
    result.save(path)
    return result, False


def estimate_or_load(path: Path, bandit: eljax.Bandit, policy: Policy, **options) -> TailEstimate:
    """The estimate in `path` if it is of exactly these options of `eljax.tails.estimate`, else a new one, saved there.

    Prints one line. The options may also be those of `eljax.tails.exact`, with method="exact".
    """
    wanted = {"bandit": [repr(arm) for arm in bandit.arms], "policy": describe(policy), "options": repr(options)}
    if path.exists():
        try:
            stored = TailEstimate.load(path)
            versions = {name: version(name) for name in stored.setting["versions"]}
            if all(stored.setting.get(key) == value for key, value in (wanted | {"versions": versions}).items()):
                print(f"{path.stem}: {stored} (loaded)", flush=True)
                return stored
        except (ValueError, KeyError) as error:
            print(f"computing anew: {error}")
    if options.get("method") == "exact":
        found = eljax.tails.exact(bandit, policy, **{k: options[k] for k in ("horizon", "threshold")})
    else:
        found = eljax.tails.estimate(bandit, policy, **options)
    found = replace(found, setting=found.setting | wanted)
    found.save(path)
    print(f"{path.stem}: {found}", flush=True)
    return found


def doubts(found: TailEstimate) -> str:
    """What speaks against an estimate, "" if nothing does."""
    return "" if found.trusted else ", ".join(found.doubts) or found.reason


@contextmanager
def narrow_tiles(lanes: int) -> Iterator[None]:
    """Inside, `eljax.simulate` computes a few long runs as few lanes, not padded to one of its wide tiles.

    The rewards are the same; sums of a few lanes may round differently from those of many.
    """
    wide = engine.TILE_LANES
    engine.TILE_LANES = dict.fromkeys(wide, (lanes, lanes))
    try:
        yield
    finally:
        engine.TILE_LANES = wide


def file_name(*parts: str) -> str:
    """A file name made of the parts: lower case, other signs become underscores."""
    return "__".join(re.sub(r"[^a-z0-9.]+", "_", part.lower()).strip("_") for part in parts)


def show(title: str, rows: Sequence[dict], path: Path) -> None:
    """Print rows as a table with four significant digits, and write them in full precision to a CSV file."""
    if not rows:
        print(f"\n{title}: none\n")
        return
    frame = pd.DataFrame(rows)
    frame.to_csv(path, index=False)
    shown = frame.copy()
    for column in shown.select_dtypes("float").columns:
        shown[column] = shown[column].map(readable)
    first = shown.columns[0]
    if not pd.api.types.is_numeric_dtype(shown[first]):
        shown.loc[shown[first] == shown[first].shift(), first] = ""
    print(f"\n{title}\n{shown.to_string(index=False)}\n")


def _same(stored: dict, bandit: eljax.Bandit, policy: Policy, **numbers: int) -> bool:
    wanted = numbers | {
        "policy": describe(policy),
        "bandit": [repr(arm) for arm in bandit.arms],
        "labels": list(bandit.labels),
        "dtype": "float64" if jax.config.jax_enable_x64 else "float32",
        "backend": jax.default_backend(),
        "versions": {name: version(name) for name in stored.get("versions", ["eljax"])},
    }
    return all(stored.get(key) == value for key, value in wanted.items())


def _whole(low: int, high: int = 2**31 - 2):
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be a whole number in [{low}, {high}], got {text!r}")
        return value

    return parse
