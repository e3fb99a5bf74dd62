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


def assert_undisturbed(path, runs):
    data = xr.open_zarr(path, chunks=None)
    assert data.regret.shape[:3] == (1, 4, runs)
    bandit, policies = processes.arguments()
    sizes = {name: processes.SIZES[name] for name in ("horizon", "dtype")}
    for number, policy in enumerate([*policies["forcing"].policies, policies["ucb"]]):
        cell, plain = data.isel(bandit=0, policy=number), eljax.simulate(bandit, policy, runs=runs, **sizes)
        for name in ("regret", "pulls", "forced_pulls"):
            np.testing.assert_array_equal(cell[name], getattr(plain, name))
        assert cell.max_index_error.max() == plain.max_index_error
        assert cell.uncertified_decisions.sum() == plain.uncertified_decisions


def test_a_sweep_killed_twenty_times_ends_with_the_bits_of_one_left_alone(folder, report):
    attempts = report["attempts"]
    assert sum(attempt["killed"] for attempt in attempts) == processes.KILLS
    assert attempts[-1]["status"] == 0
    assert_undisturbed(folder / "killed.zarr", processes.RUNS[1])


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
    for policy in range(4):  # the blocks of a cell are its runs, each once
        blocks = sorted((start, stop) for (_, p, start), stop in last.items() if p == policy)
        assert blocks[0][0] == 0
        assert blocks[-1][1] == processes.RUNS[1]
        assert [stop for _, stop in blocks[:-1]] == [start for start, _ in blocks[1:]]
    lost = computed - len(last)
    assert 0 < lost <= processes.KILLS  # one batch at most is being written when a kill comes
    done = xr.open_zarr(folder / "killed.zarr", chunks=None).done.values >> 32
    np.testing.assert_array_equal(done.sum(-1), processes.RUNS[1])
    assert done.size == 4 * -(-processes.RUNS[1] // per_batch)


@pytest.mark.parametrize("name", ["eight", "pair"])
def test_devices_and_processes_change_no_bit(folder, report, name):
    """Eight host devices; two processes of two devices each, joined by jax.distributed on loopback."""
    assert np.all(np.equal(report[name], 0))
    assert_undisturbed(folder / f"{name}.zarr", processes.RUNS[0])
