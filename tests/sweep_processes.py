"""Sweeps in processes of their own, forked from one that has imported everything: a kill costs a second, not ten.

python tests/sweep_processes.py FOLDER      writes FOLDER/{killed,eight,pair}.zarr and FOLDER/report.json
"""

import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

import jax
import xarray  # noqa: F401
import zarr  # noqa: F401

import eljax
from eljax.sweeps.store import Store

KILLS = 20
# Batches of 4 runs and tiles of 512 lanes; one batch of each cell is not full before the sweep is extended.
SIZES = {"horizon": 12, "batch_size": 4, "dtype": "float32", "progress": False}
RUNS = 122, 218


def arguments():
    """Two families on a bandit."""
    bandit = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0), eljax.gaussian(-1.0, 2.0)])
    schedules = {f"{scale:g} log": eljax.log_schedule(scale) for scale in (1.0, 2.0, 4.0)}
    policies = {"forcing": eljax.grid(eljax.policies.g_forcing, schedule=schedules), "ucb": eljax.policies.ucb(1.0)}
    return bandit, policies


def fork(work, *args):
    """The number of a process that does `work` and ends."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work(*args)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def reporting(path, runs, pipe):
    """A sweep that tells when it starts and ends to write a batch."""
    write = Store.write

    def told(self, block, rows):
        os.write(pipe, f"computed {list(block)}\n".encode())
        write(self, block, rows)
        os.write(pipe, f"finished {list(block)}\n".encode())

    Store.write = told
    eljax.sweep(*arguments(), **SIZES, runs=runs, path=path)


def killed(folder):
    """One sweep, killed again and again at random moments; what each attempt computed, and what was there before it."""
    path, chance, attempts, kills = folder / "killed.zarr", random.Random(6), [], 0
    while True:
        there = sorted(name for name in os.listdir(path / "done") if name[0] != ".") if path.exists() else []
        runs = RUNS[kills >= KILLS // 2]
        read, write = os.pipe()
        pid = fork(reporting, path, runs, write)
        os.close(write)
        events, stop = [], chance.randrange(30) if kills < KILLS else None
        with open(read) as lines:
            if stop is None or stop > 4:
                for line in lines:
                    events.append(line.split(maxsplit=1))
                    if len(events) == stop:
                        break
            if stop is not None:
                time.sleep(chance.random() * (0.004 if stop > 4 else 0.25))
                os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            events += [line.split(maxsplit=1) for line in lines if line.endswith("\n")]
        died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        kills += died
        kinds = [kind for kind, _ in events]
        where = (
            "at the end"
            if not died
            else "before the first batch"
            if not kinds
            else ("while a batch was written" if kinds[-1] == "computed" else "between two batches")
        )
        attempts.append(
            {
                "runs": runs,
                "there": there,
                "computed": [json.loads(block) for kind, block in events if kind == "computed"],
                "killed": died,
                "where": where,
                "status": status,
            }
        )
        if stop is None or not died:
            return attempts


def spread(folder, name, devices, process=None, port=0):
    """A sweep over several host devices, or as one of two processes."""
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={devices}"
    if process is not None:
        jax.distributed.initialize(f"127.0.0.1:{port}", 2, process)
    assert len(jax.local_devices()) == devices
    time.sleep(process or 0)  # the second one comes when the first has made the store
    data = eljax.sweep(*arguments(), **SIZES, runs=RUNS[0], path=folder / f"{name}.zarr")
    assert data.regret.shape == (1, 4, RUNS[0], 12)


def main(folder):
    jax.config.update("jax_compilation_cache_dir", str(folder / "cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    attempts = killed(folder)
    eight = os.waitpid(fork(spread, folder, "eight", 8), 0)[1]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pair = [os.waitpid(pid, 0)[1] for pid in [fork(spread, folder, "pair", 2, i, port) for i in range(2)]]
    (folder / "report.json").write_text(json.dumps({"attempts": attempts, "eight": eight, "pair": pair}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
