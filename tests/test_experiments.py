"""The experiments at toy size: what they print and write, resuming, bad arguments."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import eljax
from eljax.results import Result
from experiments import agreement, benchmarks, common, figure1, figure2, table3

SMALL = ["--runs", "8", "--horizon", "300", "--instances", "exponential"]  # what test_studies compiles too


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table3")
    assert table3.main([*SMALL, "--out", str(folder)]) == 0
    return folder


def test_table3_writes_table_results_and_figure(out):
    table = pd.read_csv(out / "table.csv")
    assert list(table.policy) == list(table3.POLICIES)
    assert (table.instance == "exponential").all()
    assert (out / "table3.png").read_bytes().startswith(b"\x89PNG")
    for name, row in zip(table3.POLICIES, table.itertuples(), strict=True):
        result = Result.load(out / f"{common.file_name('exponential', name)}.npz")
        assert (result.runs, result.horizon) == (8, 300)
        assert row.mean == pytest.approx(result.mean()[-1])
        assert row.mean_se == pytest.approx(result.standard_error()[-1])
        assert row.median_se == pytest.approx(result.median_standard_error()[-1])


def test_table3_continues_without_computing_again(out, monkeypatch, capsys):
    before = pd.read_csv(out / "table.csv")
    monkeypatch.setattr(eljax, "simulate", None)
    assert table3.main([*SMALL, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("not recomputed") == len(table3.POLICIES)
    assert "our parameters" in printed
    pd.testing.assert_frame_equal(pd.read_csv(out / "table.csv"), before)


@pytest.mark.parametrize(("script", "shown"), [(figure1, 4), (figure2, 11)])
def test_figures_draw_the_results_of_table3(script, shown, out, monkeypatch, capsys):
    monkeypatch.setattr(eljax, "simulate", None)
    assert script.main([*SMALL, "--out", str(out)]) == 0
    assert capsys.readouterr().out.count("not recomputed") == shown
    name = script.__name__.rpartition(".")[2]
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(out / f"{name}.csv")) == shown


def test_the_readme_lists_every_experiment():
    folder = Path(common.__file__).parent
    scripts = {path.stem for path in folder.glob("*.py") if "def main(" in path.read_text()} - {"common", "curves"}
    section = (folder.parent / "README.md").read_text().partition("## The paper's experiments")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == scripts


def test_only_the_same_simulation_is_loaded(out, tmp_path, monkeypatch, capsys):
    bandits, policies, sizes = eljax.paper_instances(), table3.POLICIES, {"horizon": 300, "runs": 8, "seed": 0}
    bandit, policy = bandits["exponential"], policies["EL-F g2, radius 0"]
    path = tmp_path / "r.npz"
    path.write_bytes((out / f"{common.file_name('exponential', 'EL-F g2, radius 0')}.npz").read_bytes())
    result, loaded = common.simulate_or_load(path, bandit, policy, **sizes)
    assert loaded

    def computed(*_, **__):
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(eljax, "simulate", computed)
        for change in ({"seed": 1}, {"runs": 9}, {"horizon": 301}):
            with pytest.raises(InterruptedError):
                common.simulate_or_load(path, bandit, policy, **(sizes | change))
        with pytest.raises(InterruptedError):
            common.simulate_or_load(path, bandit, policies["EL-F g1, radius 0"], **sizes)
        with pytest.raises(InterruptedError):
            common.simulate_or_load(path, bandits["gaussian"], policy, **sizes)
        patch.setattr(common, "version", lambda _: "another")
        with pytest.raises(InterruptedError):
            common.simulate_or_load(path, bandit, policy, **sizes)
    path.write_bytes(path.read_bytes()[:100])
    assert common.simulate_or_load(path, bandit, policy, **sizes) == (result, False)
    assert Result.load(path) == result
    assert "computing anew" in capsys.readouterr().out


def test_interrupting_keeps_finished_results(tmp_path, monkeypatch, capsys):
    simulate = eljax.simulate

    def second_is_interrupted(bandit, policy, **sizes):
        if any(tmp_path.glob("*.npz")):
            raise KeyboardInterrupt
        return simulate(bandit, policy, **sizes)

    monkeypatch.setattr(eljax, "simulate", second_is_interrupted)
    assert table3.main([*SMALL, "--out", str(tmp_path)]) == 130
    assert f"1 of {len(table3.POLICIES)} results are kept" in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runs", "0"], "--runs"),
        (["--runs", "1.5"], "--runs"),
        (["--horizon", "ten"], "--horizon"),
        (["--seed", "-1"], "--seed"),
        (["--seed", str(2**64)], "--seed"),
        (["--instances", "nothing"], "--instances"),
        (["--out", "/dev/null/folder"], "--out"),
        (["--unknown"], "--unknown"),
    ],
)
def test_bad_arguments_are_named(arguments, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        table3.main(arguments)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_help(capsys):
    with pytest.raises(SystemExit) as stopped:
        table3.main(["--help"])
    assert stopped.value.code == 0
    assert "beta_small_gap_unit" in capsys.readouterr().out


def test_benchmarks_writes_its_figures(tmp_path, capsys):
    """The machinery only: nothing about speed is asserted."""
    sizes = ["--runs", "8", "--horizon", "50", "--only", "radius", "drawing"]
    assert benchmarks.main([*sizes, "--out", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "benchmarks.json").read_text())
    assert [row["figure"] for row in written["figures"]] == [benchmarks.FIGURES[x][0] for x in ("radius", "drawing")]
    assert all(row["value"] > 0 for row in written["figures"])
    assert (written["machine"]["runs"], written["machine"]["horizon"]) == (8, 50)
    assert "radius 3 against radius 0" in capsys.readouterr().out


def test_agreement_compares_the_two_indices(tmp_path):
    only = ["--laws", "gaussian", "--policies", "el_f, radius 3", "--dtypes", "float64"]
    sizes = ["--runs", "8", "--horizon", "30", *only]
    assert agreement.main([*sizes, "--out", str(tmp_path)]) == 0
    (row,) = pd.read_csv(tmp_path / "table.csv").to_dict("records")
    assert row["same float64"] == 1
    assert row["uncertified float64"] == 0
    (row,) = pd.read_csv(tmp_path / "units.csv").to_dict("records")
    assert [row[f"{change} float64"] for change in ("x 1e-6", "x 1e6", "+ 1e6 sd")] == [1, 1, 1]


def test_interrupted_benchmarks_keep_their_figures(tmp_path, monkeypatch):
    def interrupted(size):
        raise KeyboardInterrupt

    finished = (benchmarks.FIGURES["laws"][0], lambda size: {"value": 1.0, "note": ""}, "<=", 2, 1.2)
    stopped = (benchmarks.FIGURES["arms"][0], interrupted, "<=", 4, 2)
    monkeypatch.setattr(benchmarks, "FIGURES", benchmarks.FIGURES | {"laws": finished, "arms": stopped})
    assert benchmarks.main(["--only", "laws", "arms", "--out", str(tmp_path)]) == 130
    (row,) = json.loads((tmp_path / "benchmarks.json").read_text())["figures"]
    assert (row["figure"], row["value"]) == (finished[0], 1.0)
