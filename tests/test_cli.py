"""The command line, as a user meets it: tables, files, one-line errors."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import eljax
from eljax import cli
from eljax.results import Result

runner = CliRunner()


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    rng = np.random.default_rng(0)
    arms = np.repeat(["drug B", "drug A", "placebo"], [40, 30, 20])
    rewards = rng.normal(np.repeat([1.0, 3.0, 0.0], [40, 30, 20]), 1.0)
    path = tmp_path_factory.mktemp("trial") / "trial.csv"
    pd.DataFrame({"treatment": arms, "outcome": rewards, "note": "x"}).to_csv(path, index=False)
    return path


def compare(trial, *arguments, arm="treatment", reward="outcome"):
    sizes = ["--horizon", "40", "--runs", "6"]
    return runner.invoke(
        cli.app, ["compare", "--data", str(trial), "--arm", arm, "--reward", reward, *sizes, *arguments]
    )


@pytest.fixture(scope="module")
def compared(trial, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "new" / "folder"
    return compare(trial, "--out", str(out)), out


def test_compare_prints_arms_and_policies(compared):
    answer, out = compared
    assert answer.exit_code == 0, answer.stderr
    for word in ("drug A", "drug B", "placebo", "40", "30", "20", *cli.POLICIES, "median", "95% quantile", "best arm"):
        assert word in answer.stdout
    assert str(out) in answer.stdout
    assert "run/s" in answer.stderr  # the progress bars
    assert "run/s" not in answer.stdout


def test_compare_writes_table_figures_and_results(compared):
    _, out = compared
    table = pd.read_csv(out / "table.csv")
    assert list(table.policy) == list(cli.POLICIES)
    for name in ("curves.png", "distribution.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    result = Result.load(out / "el_f_g1.npz")
    assert result.provenance["labels"] == sorted(result.provenance["labels"])
    row = table.iloc[0]
    assert row.mean_regret == pytest.approx(result.mean()[-1])
    assert row.best_arm_share == pytest.approx(result.best_arm_share().mean())
    assert (row.runs, row.horizon) == (6, 40)
    assert (table.uncertified_decisions == 0).all()


def test_compare_gives_what_python_gives(compared, trial):
    _, out = compared
    bandit = eljax.datasets.from_csv(trial, arm="treatment", reward="outcome")
    policy = eljax.policies.g_forcing(eljax.log_squared())
    assert Result.load(out / "g_forcing_g2.npz") == eljax.simulate(bandit, policy, horizon=40, runs=6)


def test_compare_on_a_data_set(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "POLICIES", {"g-forcing g2": cli.POLICIES["g-forcing g2"]})
    answer = runner.invoke(
        cli.app, ["compare", "--dataset", "actg175", "--horizon", "20", "--runs", "3", "--out", str(tmp_path)]
    )
    assert answer.exit_code == 0, answer.stderr
    assert "403.172" in answer.stdout
    assert "561" in answer.stdout


def test_interrupting_keeps_what_is_finished(trial, tmp_path, monkeypatch):
    simulate = eljax.simulate

    def second_is_interrupted(bandit, policy, **sizes):
        if any(tmp_path.glob("*.npz")):
            raise KeyboardInterrupt
        return simulate(bandit, policy, **sizes)

    monkeypatch.setattr(eljax, "simulate", second_is_interrupted)
    answer = compare(trial, "--out", str(tmp_path))
    assert answer.exit_code == 130
    assert f"1 of {len(cli.POLICIES)} policies are finished" in answer.stderr
    assert len(pd.read_csv(tmp_path / "table.csv")) == 1
    assert (tmp_path / "curves.png").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--arm", "nothing"], "nothing"),
        (["--reward", "nothing"], "nothing"),
        (["--reward", "note"], "reward"),
        (["--data", "no_such_file.csv"], "no_such_file.csv"),
        (["--horizon", "0"], "horizon"),
        (["--horizon", "many"], "horizon"),
        (["--runs", "-1"], "runs"),
        (["--seed", "-1"], "seed"),
        (["--radius", "-3"], "radius"),
        (["--radius", "nan"], "radius"),
        (["--dtype", "float16"], "float16"),
        (["--dataset", "actg175"], "--dataset"),
        (["--dataset", "iris"], "iris"),
        (["--out", "/dev/null/folder"], "/dev/null"),
    ],
)
def test_user_errors(trial, tmp_path, arguments, said):
    answer = compare(trial, "--out", str(tmp_path), *arguments)
    assert answer.exit_code == 2
    assert isinstance(answer.exception, SystemExit)
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("arguments", [[], ["--arm", "a", "--reward", "b"], ["--data", "trial.csv", "--arm", "a"]])
def test_incomplete_calls(arguments):
    answer = runner.invoke(cli.app, ["compare", *arguments])
    assert answer.exit_code == 2
    assert "--" in answer.stderr


COINS = ["--arm", "bernoulli(0.9)", "--arm", "bernoulli(0.5)", "--horizon", "20"]


def test_tails(tmp_path):
    """The exact tail, and its estimate by plain simulation, within its own interval at 95% (with this seed)."""
    for method in ("exact", "monte_carlo"):
        options = ["--policy", "g_forcing(log_squared())", "--threshold", "4.2", "--threshold", "3.0"]
        answer = runner.invoke(
            cli.app, ["tails", *COINS, *options, "--method", method, "--runs", "500", "--out", str(tmp_path / method)]
        )
        assert answer.exit_code == 0, answer.stderr
        assert answer.stdout.count("P[regret >") == 2
    exact, simulated = (eljax.tails.TailCurve.load(tmp_path / m / "curve.json") for m in ("exact", "monte_carlo"))
    assert list(exact.thresholds) == [3.0, 4.2]
    for truth, found in zip(exact.estimates, simulated.estimates, strict=True):
        assert found.log_lower <= truth.log_prob <= found.log_upper
    assert (tmp_path / "exact" / "survival.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--threshold", "3"], "either --arm"),
        ([*COINS[:2], "--arm", "coin(0.5)", "--threshold", "3"], "arm must be one of bernoulli, beta"),
        ([*COINS, "--threshold", "3", "--policy", "ucb(open('x'))"], "\"open('x')\" is not a number"),
        ([*COINS, "--threshold", "3", "--policy", "ucb(1.0).select"], "policy must be one of"),
        ([*COINS, "--threshold", "3", "--policy", "log_squared()"], "policy must be one of"),
        ([*COINS, "--threshold", "3", "--policy", "ucb(size=2)"], "unexpected keyword argument"),
        ([*COINS, "--threshold", "nan"], "threshold must be"),
    ],
)
def test_wrong_calls_of_tails(tmp_path, arguments, said):
    answer = runner.invoke(cli.app, ["tails", "--horizon", "20", "--out", str(tmp_path / "new"), *arguments])
    assert answer.exit_code == 2
    assert said in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


def test_info():
    answer = runner.invoke(cli.app, ["info"])
    assert answer.exit_code == 0
    for word in ("eljax", "jax", "numpy", "python", "devices", "cores", "x64"):
        assert word in answer.stdout


def test_help():
    answer = runner.invoke(cli.app, ["--help"])
    assert answer.exit_code == 0
    assert "compare" in answer.stdout
    assert "info" in answer.stdout
    answer = runner.invoke(cli.app, ["compare", "--help"])
    for option in ("--data", "--arm", "--reward", "--dataset", "--horizon", "--runs", "--seed", "--radius", "--out"):
        assert option in answer.stdout


def test_as_a_program(tmp_path):
    """What a shell sees: exit code 2, one line on standard error, nothing on standard output."""
    command = [sys.executable, "-m", "eljax.cli", "compare", "--data", "gone.csv", "--arm", "a", "--reward", "b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "gone.csv" in done.stderr
