"""Sweeps: the bits of `simulate`, one program per family, a store that continues, grows and refuses the rest."""

import hashlib
import resource
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr
import zarr

import eljax
from eljax import engine
from eljax.policies import el_f, g_forcing, ucb
from eljax.sweeps import estimate, planning
from eljax.sweeps.store import Store

TWO = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0)], labels=["new", "old"])
THREE = eljax.Bandit([eljax.gaussian(0.5, 1.0), eljax.gaussian(0.0, 1.0), eljax.gaussian(-1.0, 2.0)])
SCHEDULES = {"one": eljax.log_schedule(1.0), "four": eljax.log_schedule(4.0)}
FORCING = eljax.grid(g_forcing, schedule=SCHEDULES)
SIZES = {"horizon": 20, "progress": False, "batch_size": 4}


def go(policies=FORCING, bandits=TWO, **more):
    return eljax.sweep(bandits, policies, **(SIZES | {"runs": 10} | more))


def assert_is(cell, result):
    for name in ("regret", "pulls", "forced_pulls"):
        np.testing.assert_array_equal(cell[name].values, getattr(result, name))
    assert cell.max_index_error.max() == result.max_index_error
    assert cell.uncertified_decisions.sum() == result.uncertified_decisions
    assert cell.exact_rerun.sum() == result.provenance["exact_reruns"]
    np.testing.assert_array_equal(cell.checkpoint, result.checkpoints)


def contents(path):
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in Path(path).rglob("*") if file.is_file()
    }


@pytest.fixture
def written(monkeypatch):
    """A list of the blocks that go to any store."""
    blocks, write = [], Store.write
    monkeypatch.setattr(Store, "write", lambda self, block, rows: (blocks.append(block), write(self, block, rows)))
    return blocks


def test_radii_and_schedules_share_one_program_and_give_the_bits_of_simulate():
    policies = eljax.grid(el_f, schedule=SCHEDULES, radius=[0, 0.5, 3])
    before = engine._compiled.cache_info().misses
    data = go(policies, seed=2**40 + 1, runs=9)
    assert engine._compiled.cache_info().misses - before == 1
    assert data.regret.dims == ("bandit", "schedule", "radius", "run", "checkpoint")
    assert data.schedule.values.tolist() == ["one", "four"]
    assert data.radius.values.tolist() == [0.0, 0.5, 3.0]
    for name, schedule in SCHEDULES.items():
        for radius in (0, 0.5, 3):
            plain = eljax.simulate(TWO, el_f(schedule, radius), horizon=20, runs=9, seed=2**40 + 1)
            assert_is(data.sel(bandit="bandit", schedule=name, radius=radius), plain)
    assert engine._compiled.cache_info().misses - before == 1


def doubtful(scale):
    """A policy that doubts some decisions, and then does something else."""
    ready = g_forcing(eljax.log_schedule(scale))

    def select(key, t, state):
        decision, state = ready.select(key, t, state)
        return decision._replace(certified=(t < 9) | (decision.arm == 0)), state

    return ready._replace(select=select, fallback=g_forcing(eljax.log_schedule(3 * scale)))


@pytest.mark.parametrize("batch_size", [3, 20])
def test_batches_across_tiles_and_runs_played_again(monkeypatch, tmp_path, batch_size):
    """Tiles of 8 lanes: batches share them, or need several; many runs are played again, in tiles of their own."""
    monkeypatch.setattr(engine, "TILE_LANES", dict.fromkeys(engine.TILE_LANES, (8, 8)))
    data = go({"a": doubtful(1.0), "b": ucb(1.0)}, runs=50, batch_size=batch_size, path=tmp_path / "s")
    plain = eljax.simulate(TWO, doubtful(1.0), horizon=20, runs=50)
    assert 5 <= plain.provenance["exact_reruns"] <= 45
    assert_is(data.isel(bandit=0, policy=0), plain)
    assert_is(data.isel(bandit=0, policy=1), eljax.simulate(TWO, ucb(1.0), horizon=20, runs=50))


def test_names_and_attributes():
    policies = {"forcing": FORCING, "ucb": ucb(1.0), "more": eljax.grid(ucb, sigma=[2, 3])}
    data = go(policies, {"two": TWO, "three": THREE}, runs=3, horizon=5, checkpoints=[2, 5])
    names = ["forcing, schedule=one", "forcing, schedule=four", "ucb", "more, sigma=2", "more, sigma=3"]
    assert data.policy.values.tolist() == names
    assert data.schedule.values.tolist() == ["one", "four", "", "", ""]
    np.testing.assert_array_equal(data.sigma, [np.nan, np.nan, np.nan, 2, 3])
    assert data.bandit.values.tolist() == ["two", "three"]
    assert data.arm_label.values.tolist() == [["new", "old", ""], ["arm 0", "arm 1", "arm 2"]]
    np.testing.assert_array_equal(data.gaps, [[0, 0.5, np.nan], [0, 0.5, 1.5]])
    assert (data.attrs["seed"], data.attrs["runs"], data.attrs["horizon"]) == (0, 3, 5)
    assert "jaxlib" in data.attrs["versions"]
    assert "gaussian(mean=-1.0, sigma=2.0)" in data.attrs["bandits"]
    assert "ucb(sigma=2.0)" in data.attrs["policies"]
    assert (data.pulls.sel(bandit="two", arm=2) == 0).all()
    assert (data.pulls.sum("arm") == 5).all()


def test_the_store_grows_and_keeps_what_it_has(tmp_path, written):
    path = tmp_path / "s.zarr"
    first = go(path=path, runs=6).load()
    before = contents(path)
    assert {(block.start, block.stop) for block in written} == {(0, 4), (4, 6)}
    written.clear()
    assert go(path=path, runs=6).identical(first)
    assert go(path=path, runs=2).regret.identical(first.regret.isel(run=slice(2)))
    assert written == []
    assert contents(path) == before
    more = go(path=path, runs=13)
    assert sorted((b.policy, b.start, b.stop) for b in written) == [
        (p, start, stop) for p in range(2) for start, stop in ((6, 8), (8, 12), (12, 13))
    ]
    assert more.load().identical(go(runs=13))
    assert xr.open_zarr(path, chunks=None).regret.shape == (1, 2, 13, more.checkpoint.size)


def test_an_extension_that_was_cut_short_is_ended(tmp_path):
    path = tmp_path / "s.zarr"
    go(path=path, runs=6)
    zarr.open_group(path, mode="r+", use_consolidated=False)["pulls"].resize((1, 2, 9, 2))  # and nothing else
    assert xr.open_zarr(path, chunks=None).regret.sizes["run"] == 6
    assert go(path=path, runs=7).load().identical(go(runs=7))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "s.zarr"
    return path, go(path=path).load()


OTHER = {
    "seed": {"seed": 1},
    "horizon": {"horizon": 21},
    "dtype": {"dtype": "float32" if jax.config.jax_enable_x64 else "float64"},
    "checkpoints": {"checkpoints": [1, 20]},
    "batch_size": {"batch_size": 8},
    "bandits": {"bandits": {"bandit": THREE}},
    "policies": {"policies": eljax.grid(g_forcing, schedule=SCHEDULES | {"four": eljax.log_schedule(4.000001)})},
    "axes": {"policies": eljax.grid(g_forcing, schedule=SCHEDULES | {"more": eljax.log_schedule(5.0)})},
}


@pytest.mark.parametrize("name", OTHER)
def test_a_store_of_another_sweep_is_refused_and_left_alone(made, name):
    path, _ = made
    before, horizon = contents(path), {"horizon": 21, "checkpoints": [20]} if name == "horizon" else {}
    with pytest.raises(ValueError, match=rf"^path '.*s\.zarr' holds another sweep: {name}.* must be .*, got "):
        go(path=path, **(OTHER[name] | horizon))
    assert contents(path) == before


def test_functions_of_one_name_are_told_apart(tmp_path):
    go([g_forcing(lambda t, k: 1.0 + 0 * t)], path=tmp_path / "s", runs=2)
    with pytest.raises(ValueError, match=r"policies\[0\] must be "):
        go([g_forcing(lambda t, k: 2.0 + 0 * t)], path=tmp_path / "s", runs=2)


def damaged(path, what):
    files = {"chunk": path / "pulls" / "0.1.0.0", "flag": path / "done" / "0.1.0"}
    if what == "other version":
        text = (path / ".zattrs").read_text()
        assert '"format_version": 1' in text
        (path / ".zattrs").write_text(text.replace('"format_version": 1', '"format_version": 2'))
        return r"holds 'eljax.sweep' version 2"
    if what == "other software":
        text = (path / ".zattrs").read_text()
        (path / ".zattrs").write_text(text.replace('jaxlib\\": \\"0', 'jaxlib\\": \\"9'))
        return r"was made by other software: versions\['jaxlib'\] must be '9"
    if what == "label":
        (path / "gaps" / "0.0").write_bytes((path / "checkpoint" / "0").read_bytes())
        return "is damaged"
    if what == "metadata":
        (path / "pulls" / ".zarray").write_text("{")
        return "is damaged|is not a store"
    if what == "chunk gone":
        files["chunk"].unlink()
    elif what == "chunk cut short":
        files["chunk"].write_bytes(files["chunk"].read_bytes()[:-3])
    else:
        place = files["chunk" if what == "chunk" else "flag"]
        content = bytearray(place.read_bytes())
        content[-1 if what == "chunk" else 0] ^= 1
        place.write_bytes(content)
    return "is damaged"


@pytest.mark.parametrize(
    "what",
    ["chunk", "chunk cut short", "chunk gone", "flag", "label", "metadata", "other version", "other software"],
)
def test_a_damaged_or_foreign_store_is_refused_and_left_alone(tmp_path, made, what):
    path = tmp_path / "copy.zarr"
    shutil.copytree(made[0], path)
    told = damaged(path, what)
    before = contents(path)
    with pytest.raises(ValueError, match=told) as error:
        go(path=path)
    assert contents(path) == before
    if what.startswith("chunk"):  # the message says how to have the batch computed again
        Path(str(error.value).rpartition("delete ")[2].strip("'")).unlink()
        assert go(path=path).load().identical(made[1])


@pytest.mark.parametrize("name", ["file", "folder"])
def test_what_is_no_store_is_refused(tmp_path, name):
    path = tmp_path / name
    if name == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"is not a store made by eljax\.sweep"):
        go(path=path)
    assert list(contents(tmp_path)) == [str(path if name == "file" else path / "notes.txt")]


def test_a_full_disk_is_reported_and_nothing_finished_is_lost(tmp_path, written):
    path = tmp_path / "s.zarr"
    go(path=path, runs=5)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = [block for block in written if block.stop == 4]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # bytes per file: regrets need more
    try:
        with pytest.raises(OSError, match=r"cannot write to the store at path '.*': .*finished batches are kept"):
            go(path=path, runs=10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(path.rglob("*.partial"))
    assert xr.open_zarr(path, chunks=None).regret.isel(run=slice(5)).identical(go(runs=5).regret.drop_vars("run"))
    written.clear()
    assert go(path=path, runs=10).load().identical(go(runs=10))
    assert not set(before) & set(written[:4])


def test_an_interrupted_sweep_says_what_is_kept_and_continues(tmp_path, monkeypatch):
    write, count = Store.write, [0]

    def stop_at_the_third(self, block, rows):
        count[0] += 1
        if count[0] == 3:
            raise KeyboardInterrupt
        write(self, block, rows)

    monkeypatch.setattr(Store, "write", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted: 2 of 6 batches are in '.*s', and the same"):
        go(path=tmp_path / "s")
    assert go(path=tmp_path / "s").load().identical(go())
    assert count[0] == 3 + 4 + 6


def test_the_estimate_counts_what_is_left_and_writes_nothing(tmp_path):
    path = tmp_path / "s.zarr"
    sizes = {"horizon": 20, "batch_size": 4}
    new = estimate.estimate(planning.plan(TWO, FORCING, runs=10, **sizes), str(path))
    assert (new.cells, new.lanes, new.left, new.programs) == (2, 20, 20, 1)
    assert new.seconds > 0
    assert new.memory > 0
    assert not path.exists()
    go(path=path, runs=6)
    before = contents(path)
    more = estimate.estimate(planning.plan(TWO, FORCING, runs=10, **sizes), str(path))
    assert (more.lanes, more.left) == (20, 8)
    assert contents(path) == before
    stored = go(path=path, runs=6)
    assert (
        more.storage
        == sum(
            stored[name].nbytes
            for name in ("regret", "pulls", "forced_pulls", "max_index_error", "uncertified_decisions", "exact_rerun")
        )
        * 10
        // 6
    )


BAD = [
    ("bandits", {"bandits": [TWO]}),
    ("bandits", {"bandits": {}}),
    ("bandits", {"bandits": {"": TWO}}),
    ("policies", {"policies": {}}),
    ("policies", {"policies": "el_f"}),
    ("policies", {"policies": [el_f]}),
    ("policies", {"policies": {"a": 3}}),
    ("policies", {"policies": [ucb(1.0), ucb(1.0)]}),
    ("horizon", {"horizon": 0}),
    ("runs", {"runs": 0}),
    ("seed", {"seed": -1}),
    ("checkpoints", {"checkpoints": [21]}),
    ("dtype", {"dtype": "int8"}),
    ("batch_size", {"batch_size": 0}),
    ("path", {"path": ""}),
    ("path", {"path": 3}),
    ("schedule", {"policies": g_forcing(lambda t, k: -t)}),
]


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_bad_input_is_named_before_anything_is_compiled(name, bad):
    before = engine._compiled.cache_info()
    with pytest.raises(ValueError, match=rf"^{name}.* must be .*, got "):
        go(**bad)
    assert engine._compiled.cache_info() == before


def test_paths_that_cannot_be(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^path must lie in an existing folder"):
        go(path=tmp_path / "no" / "s.zarr")


@pytest.mark.parametrize(
    ("name", "make", "parameters"),
    [
        ("make", 3, {"radius": [1]}),
        ("make", dict, {"radius": [1]}),
        ("parameters", el_f, {"schedule": eljax.log_squared(), "radius": 3.0}),
        ("parameters", el_f, {"schedule": eljax.log_squared(), "radios": [3.0]}),
        ("parameters", lambda run: ucb(run), {"run": [1.0]}),
        ("radius", el_f, {"schedule": eljax.log_squared(), "radius": []}),
        ("radius", el_f, {"schedule": eljax.log_squared(), "radius": [1, 1.0]}),
        ("radius", el_f, {"schedule": eljax.log_squared(), "radius": [-1, 1.0]}),
    ],
)
def test_bad_grids(name, make, parameters):
    with pytest.raises(ValueError, match=rf"^{name}.* must be "):
        eljax.grid(make, **parameters)
