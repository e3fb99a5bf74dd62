"""The command `eljax`: compare policies on rewards in a CSV file, run sweeps, estimate tails, show the installation.

Tables go to standard output, progress bars to standard error. A user's error ends with one line and exit code 2.
"""

import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import jax
import pandas as pd
import typer
import xarray

import eljax
from eljax import comparisons, datasets, notation, plots, policies
from eljax.arms.base import Arm
from eljax.results import Result, readable
from eljax.sweeps import config, estimate, opening, planning
from eljax.types import Policy

# Every policy `compare` runs, by the name its table shows; each gets the value of --radius.
POLICIES: dict[str, Callable[[float], Policy]] = {
    "EL-F g1": lambda radius: policies.el_f(eljax.log_loglog(), radius),
    "EL-F g2": lambda radius: policies.el_f(eljax.log_squared(), radius),
    "g-forcing g2": lambda radius: policies.g_forcing(eljax.log_squared()),
    "naive EL-UCB g2": lambda radius: policies.el_ucb(eljax.log_squared()),
}
INTERRUPTED = 130  # the exit code a shell expects after Ctrl-C
DATASETS = {"actg175": datasets.actg175, "open_bandit": datasets.open_bandit}

app = typer.Typer(
    help="Stochastic bandits under empirical-likelihood (EL) policies.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def compare(
    data: Annotated[Path | None, typer.Option(help="CSV file, one reward per row.", metavar="FILE.csv")] = None,
    arm: Annotated[str | None, typer.Option(help="Column that names the arm.", metavar="COLUMN")] = None,
    reward: Annotated[
        str | None, typer.Option(help="Column with the reward, more is better.", metavar="COLUMN")
    ] = None,
    dataset: Annotated[
        Literal["actg175", "open_bandit"] | None, typer.Option(help="Data that come with eljax, instead of --data.")
    ] = None,
    horizon: Annotated[int, typer.Option(help="Rounds of each run.")] = 2000,
    runs: Annotated[int, typer.Option(help="Independent runs of each policy.")] = 1000,
    seed: Annotated[int, typer.Option(help="All policies meet the same rewards, given by the seed.")] = 0,
    radius: Annotated[float, typer.Option(help="EL radius C >= 0 of EL-F; 3 is the usual choice.")] = 3.0,
    dtype: Annotated[
        Literal["float32", "float64"] | None, typer.Option(help="Precision; default as JAX is set up (float32).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the table, figures and results.")] = Path("results/compare"),
) -> None:
    """Compare policies on real rewards: each arm draws from its own rewards in the data, with replacement.

    Policies: EL-F with g1(t) = log t · loglog t / K and with g2(t) = (log t)² / K, g-forcing, and naive EL-UCB. Regret
    counts, in units of the reward, what was lost by not pulling the arm of the best mean in every round.

    \b
    Examples:
      eljax compare --data trial.csv --arm treatment --reward outcome --horizon 2000 --runs 1000
      eljax compare --dataset actg175 --runs 100
    """
    with _one_line_errors():
        bandit = _bandit(data, arm, reward, dataset)
        chosen = {name: make(radius) for name, make in POLICIES.items()}
        out.mkdir(parents=True, exist_ok=True)
        typer.echo(f"{_arms_table(bandit)}\n\nEL radius {radius:g}, seed {seed}")
        finished: dict[str, Result] = {}
        interrupted = False
        try:
            for name, policy in chosen.items():
                result = eljax.simulate(
                    bandit, policy, horizon=horizon, runs=runs, seed=seed, dtype=dtype, progress=True
                )
                result.save(out / f"{re.sub(r'[^a-z0-9]+', '_', name.lower())}.npz")
                finished[name] = result
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            typer.echo(f"\nInterrupted: {len(finished)} of {len(chosen)} policies are finished and kept.", err=True)
        if finished:
            _report(finished, out)
        if interrupted:
            raise typer.Exit(INTERRUPTED)


@app.command()
def tails(
    horizon: Annotated[int, typer.Option(help="Rounds of each run.")],
    threshold: Annotated[list[float], typer.Option(help="x of P[regret > x]; repeat it for a curve.")],
    arm: Annotated[
        list[str] | None,
        typer.Option(help='A reward law, such as "gaussian(0.5, 1)"; once for each arm.', metavar="LAW"),
    ] = None,
    dataset: Annotated[
        Literal["actg175", "open_bandit"] | None, typer.Option(help="Data that come with eljax, instead of --arm.")
    ] = None,
    policy: Annotated[str, typer.Option(help="As in Python.", metavar="POLICY")] = "el_f(log_squared(), radius=3)",
    method: Annotated[Literal["auto", "monte_carlo", "importance", "splitting", "exact"], typer.Option()] = "auto",
    runs: Annotated[int, typer.Option(help="Simulated runs, or particles of splitting.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Whole number in [0, 2^64).")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the curve and its figure.")] = Path("results/tails"),
) -> None:
    """Estimate how often a run goes badly wrong: P[regret > x], however small, with its error.

    \b
    Example:
      eljax tails --arm "gaussian(1, 1)" --arm "gaussian(0, 1)" --horizon 1000 --threshold 300.5 --threshold 500.5
    """
    with _one_line_errors():
        if (not arm) == (dataset is None):
            raise ValueError("give either --arm, once for each arm, or --dataset")
        bandit = DATASETS[dataset]() if dataset else eljax.Bandit([notation.arm(text) for text in arm])
        chosen = notation.policy(policy)
        out.mkdir(parents=True, exist_ok=True)
        typer.echo(f"{_arms_table(bandit)}\n\n{policy}, {horizon:,} rounds, seed {seed}")
        found: list[eljax.tails.TailEstimate] = []
        interrupted = False
        try:
            for x in sorted(threshold):
                if method == "exact":
                    found.append(eljax.tails.exact(bandit, chosen, horizon=horizon, threshold=x))
                else:
                    found.append(
                        eljax.tails.estimate(
                            bandit,
                            chosen,
                            horizon=horizon,
                            threshold=x,
                            method=method,
                            runs=runs,
                            seed=seed,
                            progress=True,
                        )
                    )
                typer.echo(f"P[regret > {x:g}]: {found[-1]}")
        except KeyboardInterrupt:
            interrupted = True
            typer.echo(f"\nInterrupted: {len(found)} of {len(threshold)} estimates are finished and kept.", err=True)
        if found:
            curve = eljax.tails.TailCurve(tuple(found))
            curve.save(out / "curve.json")
            plots.survival_curves({policy: curve}, path=out / "survival.png")
            typer.echo(f"\nWritten to {out}: curve.json (eljax.tails.TailCurve.load), survival.png")
        if interrupted:
            raise typer.Exit(INTERRUPTED)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="TOML file, described in the README and in eljax/sweeps/config.py.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and stop.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the store if there is one already.")] = False,
    distributed: Annotated[
        bool,
        typer.Option("--distributed", help="Be one of several processes; JAX finds them on Slurm, Kubernetes, MPI."),
    ] = False,
) -> None:
    """Simulate a grid of bandits and policies, and keep every finished batch at once.

    A sweep that was interrupted, or shall have more runs, continues with --resume. When it is complete a summary is
    printed and written beside the store, as .csv, with regret curves as .png.

    \b
    Examples:
      eljax sweep radius.toml --dry-run
      eljax sweep radius.toml
      srun eljax sweep radius.toml --resume --distributed
    """
    with _one_line_errors():
        if distributed:
            jax.distributed.initialize()
        arguments = config.load(file)
        path = arguments["path"]
        if dry_run:
            plan = planning.plan(**{name: value for name, value in arguments.items() if name != "path"})
            typer.echo(estimate.describe(estimate.estimate(plan, path)))
            return
        if opening.exists(path) and not resume:
            raise ValueError(f"path {path!r} is there already: give --resume to continue it, or another path")
        try:
            data = eljax.sweep(**arguments)
        except RuntimeError as error:  # of another process, or of JAX
            raise OSError(str(error)) from error
        except KeyboardInterrupt as interrupt:
            typer.echo(f"\n{str(interrupt).capitalize()} (--resume).", err=True)
            raise typer.Exit(INTERRUPTED) from None
        if jax.process_index() == 0:
            _report_sweep(data, Path(path))


def _report_sweep(data: xarray.Dataset, path: Path) -> None:
    frame = comparisons.summary(data)
    frame.to_csv(path.with_suffix(".csv"), index=False)
    plots.regret_facets(data, path=path.with_suffix(".png"))
    shown = frame.select_dtypes("float").columns
    typer.echo(f"Pseudo-regret after {data.attrs['horizon']:,} rounds, {data.attrs['runs']:,} runs of each cell:")
    typer.echo(frame.assign(**{name: frame[name].map(readable) for name in shown}).to_string(index=False))
    typer.echo(f"\nWritten to {path}: and beside it {path.stem}.csv and {path.stem}.png")


@app.command()
def info() -> None:
    """Show versions, devices, cores and precision: what to quote in a report of a fault."""
    lines = {name: version(name) for name in ("eljax", "jax", "jaxlib", "numpy", "scipy")}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines |= {
        "python": platform.python_version(),
        "system": platform.platform(),
        "backend": jax.default_backend(),
        "devices": ", ".join(f"{d.device_kind} {d.id}" for d in jax.devices()),
        "cores": str(cores),
        "x64": "on" if jax.config.jax_enable_x64 else "off (JAX_ENABLE_X64=1 or dtype='float64' for float64)",
    }
    for name, value in lines.items():
        typer.echo(f"{name:8}  {value}")


def summary(results: dict[str, Result]) -> pd.DataFrame:
    """One row per policy: final regret (mean, its standard error, median, 95% quantile), share of best-arm pulls."""
    rows = [
        {
            "policy": name,
            "mean_regret": result.mean()[-1],
            "standard_error": result.standard_error()[-1],
            "median_regret": result.median()[-1],
            "quantile_95_regret": result.quantile(0.95)[-1],
            "best_arm_share": result.best_arm_share().mean(),
            "runs": result.runs,
            "horizon": result.horizon,
            "uncertified_decisions": result.uncertified_decisions,
        }
        for name, result in results.items()
    ]
    return pd.DataFrame(rows)


def _bandit(data: Path | None, arm: str | None, reward: str | None, dataset: str | None) -> eljax.Bandit:
    if (data is None) == (dataset is None):
        raise ValueError("give either --data FILE.csv with --arm and --reward, or --dataset")
    if dataset is not None:
        if arm is not None or reward is not None:
            raise ValueError("--arm and --reward go with --data; a --dataset has its own")
        return DATASETS[dataset]()
    if arm is None or reward is None:
        raise ValueError("--data needs --arm COLUMN and --reward COLUMN")
    return datasets.from_csv(data, arm=arm, reward=reward)


def _arms_table(bandit: eljax.Bandit) -> str:
    frame = pd.DataFrame(
        {
            "arm": bandit.labels,
            "n": [_sample_size(arm) for arm in bandit.arms],
            "mean": [readable(mean, 6) for mean in bandit.means],
            "gap": [readable(gap) if gap > 0 else "best" for gap in bandit.gaps],
        }
    )
    return f"{bandit.num_arms} arms:\n{frame.to_string(index=False)}"


def _sample_size(arm: Arm) -> int | str:
    samples = arm.parameters.get("samples")
    return "" if samples is None else samples.size


def _report(results: dict[str, Result], out: Path) -> None:
    frame = summary(results)
    first = next(iter(results.values()))
    shown = pd.DataFrame(
        {
            "policy": frame["policy"],
            "mean ± s.e.": [
                f"{readable(r.mean()[-1])} ± {readable(r.standard_error()[-1], 2)}" for r in results.values()
            ],
            "median": frame["median_regret"].map(readable),
            "95% quantile": frame["quantile_95_regret"].map(readable),
            "best arm": frame["best_arm_share"].map("{:.1%}".format),
        }
    )
    typer.echo(
        f"Pseudo-regret after {first.horizon:,} rounds, {first.runs:,} runs, and share of pulls to the best arm:"
    )
    typer.echo(shown.to_string(index=False))
    frame.to_csv(out / "table.csv", index=False)
    plots.regret_curves(results, path=out / "curves.png")
    plots.regret_distribution(results, path=out / "distribution.png")
    typer.echo(f"\nWritten to {out}: table.csv, curves.png, distribution.png, and one .npz per policy (Result.load)")


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo("Error: " + " ".join(str(error).split()), err=True)
        raise typer.Exit(2) from None


def main() -> None:
    """Entry point of the command `eljax`."""
    app()


if __name__ == "__main__":
    main()
