"""Sweeps that are killed, spread over devices, or run by two processes: the same bits as one left alone."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sweep_processes as processes
import xarray as xr

import eljax


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("processes")
    command = [sys.executable, "-W", "ignore", str(Path(processes.__file__)), str(path)]  # jax warns of every fork
    subprocess.run(command, check=True, timeout=600)
    return path


@pytest.fixture(scope="module")
def report(folder):
    return json.loads((folder / "report.json").read_text())


def undisturbed(bandits, runs):
    sizes = {name: processes.SIZES[name] for name in ("horizon", "dtype")}
    policies = processes.arguments()[1]
    policies = [*policies["forcing"].policies, policies["ucb"]]
    return [[eljax.simulate(bandit, policy, runs=runs, **sizes) for policy in policies] for bandit in bandits]


def assert_same(data, results):
    for i, row in enumerate(results):
        for j, result in enumerate(row):
            cell = data.isel(bandit=i, policy=j)
            for name in ("regret", "pulls", "forced_pulls"):
                ours, plain = cell[name].values, getattr(result, name)
                np.testing.assert_array_equal(ours[:, : plain.shape[1]], plain)
                assert (ours[:, plain.shape[1] :] == 0).all()
            assert cell.max_index_error.max() == result.max_index_error
            assert cell.uncertified_decisions.sum() == result.uncertified_decisions


def test_a_sweep_killed_twenty_times_ends_with_the_bits_of_one_left_alone(folder, report):
    attempts = report["attempts"]
    assert sum(attempt["killed"] for attempt in attempts) == processes.KILLS
    assert attempts[-1]["status"] == 0
    data = xr.open_zarr(folder / "killed.zarr", chunks=None)
    assert data.run.size == processes.RUNS[1]
    assert_same(data, undisturbed(processes.arguments()[0].values(), processes.RUNS[1]))


def test_no_finished_batch_is_computed_again_or_counted_twice(folder, report):
    """A batch may come twice only if it was not there, or not full, when the process started."""
    per_batch, computed, last = processes.SIZES["batch_size"], 0, {}
    for attempt in report["attempts"]:
        there = dict.fromkeys(attempt["there"])
        for bandit, policy, start, stop in attempt["computed"]:
            name = f"{bandit}.{policy}.{start // per_batch}"
            partly = start % per_batch > 0  # what an extension adds to a batch that was not full
            assert partly == (name in there)
            assert stop == min((start // per_batch + 1) * per_batch, attempt["runs"])
            last[bandit, policy, start] = stop
            computed += 1
    cells = 2 * 4
    for bandit in range(2):
        for policy in range(4):  # the blocks of a cell are its runs, each once
            blocks = sorted((start, stop) for (b, p, start), stop in last.items() if (b, p) == (bandit, policy))
            assert blocks[0][0] == 0
            assert blocks[-1][1] == processes.RUNS[1]
            assert [stop for _, stop in blocks[:-1]] == [start for start, _ in blocks[1:]]
    lost = computed - len(last)
    assert 0 < lost <= processes.KILLS  # one batch at most is being written when a kill comes
    done = xr.open_zarr(folder / "killed.zarr", chunks=None).done.values >> 32
    np.testing.assert_array_equal(done.sum(-1), processes.RUNS[1])
    assert done.size == cells * -(-processes.RUNS[1] // per_batch)


@pytest.mark.parametrize("name", ["eight", "pair"])
def test_devices_and_processes_change_no_bit(folder, report, name):
    """Eight host devices; two processes of two devices each, joined by jax.distributed on loopback."""
    assert np.all(np.equal(report[name], 0))
    bandit = processes.arguments()[0]["three"]
    assert_same(xr.open_zarr(folder / f"{name}.zarr", chunks=None), undisturbed([bandit], processes.RUNS[0]))
