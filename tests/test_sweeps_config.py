"""Sweeps from TOML files, and the command `eljax sweep`."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import eljax
from eljax import cli
from eljax.sweeps import config
from eljax.sweeps.identity import identity
from eljax.sweeps.store import Store

runner = CliRunner()
GOOD = """
horizon = 20
runs = 10
path = "out.zarr"
batch_size = 4

[bandits.coins]
arms = [{law = "bernoulli", p = 0.6}, {law = "bernoulli", p = 0.4}]
labels = ["new", "old"]

[bandits.values]
arms = [{law = "two_point", values = [0.0, 1.0], probs = [0.5, 0.5]}, {law = "bernoulli", p = 0.3}]

[policies.forcing]
policy = "g_forcing"
schedule = [{name = "log_schedule", scale = 1.0}, {name = "log_schedule", scale = 3.0}]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(GOOD)
    return path


def test_a_file_says_what_the_call_says(file):
    told = config.load(file)
    schedules = [eljax.log_schedule(1.0), eljax.log_schedule(3.0)]
    by_hand = eljax.grid(eljax.policies.g_forcing, schedule=schedules)
    assert told["policies"].axes == by_hand.axes == {"schedule": ["log(scale=1.0)", "log(scale=3.0)"]}
    assert [identity(p) for p in told["policies"].policies] == [identity(p) for p in by_hand.policies]
    coins = eljax.Bandit([eljax.bernoulli(0.6), eljax.bernoulli(0.4)], ["new", "old"])
    values = eljax.Bandit([eljax.two_point([0.0, 1.0], [0.5, 0.5]), eljax.bernoulli(0.3)])
    assert told["bandits"] == {"coins": coins, "values": values}
    assert [told[name] for name in ("horizon", "runs", "batch_size")] == [20, 10, 4]
    assert told["path"] == str(file.parent / "out.zarr")


def test_schedules_radii_and_instances_by_name():
    told = config.arguments(
        {
            "horizon": 9,
            "runs": 1,
            "path": "s",
            "bandits": {"b": {"instance": "beta_easy"}},
            "policies": {
                "el": {
                    "policy": "el_f",
                    "schedule": ["log_loglog", "log_squared"],
                    "radius": [0, 1.5, {"name": "loglog_radius", "offset": 2.0}],
                    "index": "exact",
                },
                "fe": {"policy": "fe", "sequence": "linear"},
            },
        }
    )
    el = told["policies"]["el"]
    assert el.axes["radius"] == ["0", "1.5", "loglog_radius(offset=2.0)"]
    assert str(el.policies[4]) == "el_f(schedule=log_squared(), radius=1.5, index=exact)"
    assert told["bandits"]["b"] == eljax.paper_instances()["beta_easy"]
    assert str(told["policies"]["fe"]) == str(eljax.policies.fe("linear"))


WRONG = [
    ("runs = 10", "run = 10", "unknown key run: did you mean runs?"),
    ("runs = 10", "", "key runs is missing"),
    ("batch_size", "batchsize", "unknown key batchsize: did you mean batch_size?"),
    ("labels", "label", "unknown key bandits.coins.label: did you mean labels?"),
    ("p = 0.6", "q = 0.6", "unknown key bandits.coins.arms[0].q: known are law, p"),
    ('"two_point"', '"twopoint"', "bandits.values.arms[0].law is unknown, got 'twopoint': did you mean two_point?"),
    ("p = 0.6", "p = 1.6", "bandits.coins.arms[0]: p must be"),
    (", p = 0.6", "", "key bandits.coins.arms[0].p is missing"),
    ('"g_forcing"', '"g_forced"', "policies.forcing.policy is unknown, got 'g_forced': did you mean g_forcing?"),
    ("schedule = [", "schedules = [", "unknown key policies.forcing.schedules: did you mean schedule?"),
    ("scale = 3.0", "scales = 3.0", "unknown key policies.forcing.schedule[1].scales: did you mean scale?"),
    ("scale = 3.0", "scale = -3.0", "policies.forcing.schedule[1]: scale must be"),
    ('{name = "log_schedule", scale = 3.0}', '"log_cubed"', "policies.forcing.schedule[1].name is unknown"),
    ('path = "out.zarr"', "path = 3", "path must be the name of the store, got 3"),
    ("runs = 10", "runs = ", "Invalid value"),
    ('["new", "old"]', '["new"]', "bandits.coins: labels must be"),
    ("[policies.forcing]", "[policies]", "policies.policy must be a table with a key policy, got 'g_forcing'"),
]


@pytest.mark.parametrize(("old", "new", "told"), WRONG)
def test_what_is_wrong_in_a_file_is_named(file, old, new, told):
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        config.load(file)
    assert str(error.value).startswith(f"{file}: ")


def test_the_command(file, monkeypatch):
    path = file.parent / "out.zarr"
    asked = runner.invoke(cli.app, ["sweep", str(file), "--dry-run"])
    assert asked.exit_code == 0, asked.stderr
    for line in ("cells     4", "lanes     40 runs, 40 of them still to play", "time ", "memory ", "storage "):
        assert line in asked.stdout
    assert not path.exists()

    write = Store.write

    def stop(self, block, rows):
        write(self, block, rows)
        if block.start == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Store, "write", stop)
    stopped = runner.invoke(cli.app, ["sweep", str(file)])
    assert stopped.exit_code == cli.INTERRUPTED
    assert "of 12 batches are in" in stopped.stderr
    assert "--resume" in stopped.stderr
    monkeypatch.undo()
    refused = runner.invoke(cli.app, ["sweep", str(file)])
    assert refused.exit_code == 2
    assert "is there already: give --resume" in refused.stderr
    done = runner.invoke(cli.app, ["sweep", str(file), "--resume"])
    assert done.exit_code == 0, done.stderr
    assert "run/s" in done.stderr  # the progress bar
    assert "log(scale=3.0)" in done.stdout

    table = pd.read_csv(path.with_suffix(".csv"))
    data = xr.open_zarr(path, chunks=None)
    np.testing.assert_allclose(table["mean"], data.regret.isel(checkpoint=-1).mean("run").values.ravel())
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    bandit = config.load(file)["bandits"]["coins"]
    plain = eljax.simulate(bandit, eljax.policies.g_forcing(eljax.log_schedule(3.0)), horizon=20, runs=10)
    np.testing.assert_array_equal(data.regret[0, 1], plain.regret)


def test_a_file_that_is_not_there_is_a_one_line_error(tmp_path):
    answer = runner.invoke(cli.app, ["sweep", str(tmp_path / "no.toml")])
    assert answer.exit_code == 2
    assert answer.stderr.startswith("Error: ")
    assert len(answer.stderr.strip().splitlines()) == 1
