"""Result: regret from pulls, its summaries against scipy, the file format, and every bad argument."""

import math
import os
import stat

import numpy as np
import pytest
from scipy import stats

from eljax.results import FORMAT_VERSION, Result, readable

GAPS = [0.0, 0.5, 0.1]
ROUNDS = np.array([3, 10, 100, 1000])


def make(runs=64, gaps=GAPS, seed=0, provenance=None):
    """Hand-made runs: every arm once, then a bad arm with a probability that differs from run to run."""
    rng = np.random.default_rng(seed)
    bad = rng.beta(1, 5, runs)
    chosen = np.where(rng.random((runs, ROUNDS[-1])) < bad[:, None], rng.integers(1, 3, (runs, ROUNDS[-1])), 0)
    chosen[:, :3] = [0, 1, 2]
    pulls = (chosen[:, :, None] == np.arange(3)).cumsum(1)[:, ROUNDS - 1]
    forced = np.ones((runs, 3), int)
    return Result.from_pulls(pulls, ROUNDS, forced, gaps, 1e-12, 0, provenance or {"policy": "p", "seed": seed})


@pytest.fixture(scope="module")
def result():
    return make()


def test_regret_is_the_sum_of_gaps_times_pulls(result):
    assert result.regret.shape == (64, 4)
    assert result.regret.dtype == np.float64
    np.testing.assert_allclose(result.regret[:, -1], result.pulls @ np.array(GAPS), rtol=1e-15)
    assert (result.regret >= 0).all()
    assert (np.diff(result.regret, axis=1) >= 0).all()
    assert (result.runs, result.horizon) == (64, 1000)


def test_checkpoints_may_end_before_the_horizon():
    held = Result.from_pulls([[[1, 1]]], [2], [[1, 1]], [0.0, 1.0], pulls=[[4, 1]])
    assert held.horizon == 5
    assert held.best_arm_share() == [0.8]
    assert "of 5 rounds" in repr(held)
    assert "after round 2" in repr(held)


def test_regret_never_decreases_for_awkward_gaps():
    gaps = np.r_[0, np.random.default_rng(1).lognormal(0, 20, 2)]
    assert (np.diff(make(500, gaps).regret, axis=1) >= 0).all()


def test_arrays_are_read_only_and_inputs_stay_as_they_were():
    pulls, rounds, gaps = np.array([[[1, 1]]]), np.array([2]), np.array([0.0, 1.0])
    held = Result.from_pulls(pulls, rounds, np.array([[1, 1]]), gaps)
    assert held.pulls.base.size == 2  # a copy of the last checkpoint, not a view of [R, C, K]
    with pytest.raises(ValueError, match="read-only"):
        held.regret[0, 0] = 5
    assert all(array.flags.writeable for array in (pulls, rounds, gaps))


def test_all_arms_best_means_no_regret():
    flat = make(gaps=[0.0, 0.0, 0.0])
    assert (flat.regret == 0).all()
    assert (flat.best_arm_share() == 1).all()
    assert flat.tail(0.0).probability == 0


def test_summaries(result):
    np.testing.assert_array_equal(result.mean(), result.regret.mean(0))
    np.testing.assert_array_equal(result.median(), np.median(result.regret, 0))
    np.testing.assert_allclose(result.standard_error(), stats.sem(result.regret, axis=0), rtol=1e-14)
    assert result.quantile(0.5).shape == (4,)
    np.testing.assert_array_equal(result.quantile([0, 0.5, 1])[1], result.median())
    np.testing.assert_array_equal(result.quantile([0, 1]), [result.regret.min(0), result.regret.max(0)])
    np.testing.assert_allclose(result.best_arm_share(), result.pulls[:, 0] / 1000, rtol=1e-15)


def test_best_arms_are_those_of_gap_exactly_zero():
    tiny = make(gaps=np.array(GAPS) * 1e-300)
    np.testing.assert_array_equal(tiny.best_arm_share(), make().best_arm_share())


def test_standard_error_of_the_median_on_a_known_law():
    """2,000 samples of 401 exponentials: sd of the median is 1/√401 = 0.0499 within 5% (asymptotic formula)."""
    draws = np.random.default_rng(2).exponential(size=(401, 2000))
    held = Result(draws, np.arange(1, 2001), np.full((401, 1), 2000), np.ones((401, 1), int), [1.0], 0.0, 0, {})
    assert held.median_standard_error().mean() == pytest.approx(401**-0.5, rel=0.05)
    assert held.median().std() == pytest.approx(401**-0.5, rel=0.05)


def test_one_run_has_no_standard_error():
    one = make(runs=1)
    assert np.isnan(one.standard_error()).all()
    assert np.isnan(one.median_standard_error()).all()
    np.testing.assert_array_equal(one.mean(), one.median())
    assert "1 run of" in repr(one)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_tail_is_clopper_pearson(result, confidence):
    final = result.regret[:, -1]
    thresholds = np.r_[-1.0, 0.0, np.quantile(final, [0.1, 0.5, 0.99]), final.max(), 1e9]
    tail = result.tail(thresholds, confidence=confidence)
    for i, x in enumerate(thresholds):
        hits = int((final > x).sum())
        oracle = stats.binomtest(hits, final.size).proportion_ci(confidence, method="exact")
        assert tail.probability[i] == hits / final.size
        np.testing.assert_allclose([tail.lower[i], tail.upper[i]], [oracle.low, oracle.high], rtol=1e-8)  # its solver's
        if hits > 0:  # the defining equation: at the lower end, this many hits or more have probability α/2
            assert stats.binom.sf(hits - 1, final.size, tail.lower[i]) == pytest.approx((1 - confidence) / 2, rel=1e-9)
        assert result.tail(x, confidence=confidence) == (tail.probability[i], tail.lower[i], tail.upper[i])


def test_tail_between_lattice_points():
    pulls = np.array([[[10 - k, k]] for k in range(10)])
    held = Result.from_pulls(pulls, [10], np.ones((10, 2), int), [0.0, 0.1])
    for k in range(10):
        assert held.tail((k + 0.5) * 0.1).probability == (9 - k) / 10


@pytest.mark.parametrize("name", ["r.npz", "no_suffix", "ünï.result"])
def test_save_and_load_give_the_same_result(tmp_path, name):
    versions = {"eljax": "0", "t": (1, 2), "n": np.int64(3), "labels": ["a", "β", "c"]}
    held = make(provenance=versions)
    held.save(tmp_path / name)
    held.save(str(tmp_path / name))  # replaces
    assert os.listdir(tmp_path) == [name]
    again = Result.load(tmp_path / name)
    assert again == held
    assert again.provenance == {"eljax": "0", "t": [1, 2], "n": 3, "labels": ["a", "β", "c"]}
    assert again != make(seed=1)
    assert (held == 3) is False


def test_nan_index_error_survives(tmp_path):
    held = Result.from_pulls([[[1]]], [1], [[1]], [0.0], math.nan)
    held.save(tmp_path / "r")
    assert Result.load(tmp_path / "r") == held


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch, result):
    result.save(tmp_path / "r.npz")

    def full(file, **arrays):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        make(seed=1).save(tmp_path / "r.npz")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["r.npz"]
    assert Result.load(tmp_path / "r.npz") == result


def test_saved_file_follows_the_umask(tmp_path, result):
    result.save(tmp_path / "r.npz")
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(os.stat(tmp_path / "r.npz").st_mode) == stat.S_IMODE(os.stat(tmp_path / "plain").st_mode)


def test_every_truncation_and_most_flips_are_found(tmp_path, result):
    """Never an unclear error, and never other numbers: a flip that goes unnoticed is in bytes nobody reads."""
    path = tmp_path / "r.npz"
    result.save(path)
    good = path.read_bytes()
    rng = np.random.default_rng(3)
    for length in [0, 1, 10, *rng.integers(0, len(good) - 1, 30)]:
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match="not an intact file"):
            Result.load(path)
    for place in rng.integers(0, len(good), 150):
        path.write_bytes(good[:place] + bytes([good[place] ^ (1 << rng.integers(8))]) + good[place + 1 :])
        try:
            assert Result.load(path) == result
        except ValueError as error:
            assert "path" in str(error)  # noqa: PT017


def test_foreign_files(tmp_path, result):
    path = tmp_path / "x.npz"
    np.save(tmp_path / "array.npy", np.ones(3))
    np.savez(path, a=np.ones(3))
    (tmp_path / "text").write_text("hello")
    np.savez(tmp_path / "pickle.npz", format=np.array([{}], object), allow_pickle=True)
    for name in ("array.npy", "x.npz", "text", "pickle.npz"):
        with pytest.raises(ValueError, match="not an intact file written by Result"):
            Result.load(tmp_path / name)
    np.savez(path, format="eljax.Result", version=FORMAT_VERSION + 1)
    with pytest.raises(ValueError, match=f"version {FORMAT_VERSION + 1}; this eljax reads"):
        Result.load(path)
    np.savez(path, format="eljax.Result", version=FORMAT_VERSION, provenance="{}", gaps=[1.0])
    with pytest.raises(ValueError, match="complete result"):
        Result.load(path)


def test_to_xarray():
    held = make(provenance={"policy": "p", "seed": 3, "versions": {"jax": "1"}, "labels": ["a", "b", "c"]})
    data = held.to_xarray()
    assert dict(data.sizes) == {"run": 64, "checkpoint": 4, "arm": 3}
    assert list(data.arm.values) == ["a", "b", "c"]
    np.testing.assert_array_equal(data.regret.sel(checkpoint=100), held.regret[:, 2])
    assert data.attrs["seed"] == 3
    assert data.attrs["versions"] == '{"jax": "1"}'
    assert list(make().to_xarray().arm.values) == [0, 1, 2]


def test_repr_says_what_it_is(result):
    text = repr(result)
    assert "64 runs of 1,000 rounds on 3 arms" in text
    assert "(s.e.)" in text
    assert len(text) < 200


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (12345.6, "12,346"),
        (123.456, "123.5"),
        (0.999999, "1.000"),
        (0.0012345, "0.001234"),
        (1e-9, "1e-09"),
        (math.nan, "nan"),
    ],
)
def test_readable_numbers(x, text):
    assert readable(x) == text


GOOD = {"checkpoint_pulls": [[[1, 1]]], "checkpoints": [2], "pulls": [[1, 2]], "forced_pulls": [[1, 1]]}
GOOD["gaps"] = [0.0, 1.0]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("checkpoint_pulls", [[1, 1]]),
        ("checkpoint_pulls", [[[1.5, 0.5]]]),
        ("checkpoint_pulls", [[[2, 1]]]),
        ("checkpoints", [2, 3]),
        ("checkpoints", [2.0]),
        ("pulls", [[1, 0]]),
        ("pulls", [[1, 1], [1, 1]]),
        ("forced_pulls", [[1, 1, 1]]),
        ("gaps", [0.0, 1.0, 2.0]),
        ("gaps", [0.0, -1.0]),
        ("gaps", [0.0, math.nan]),
        ("provenance", {"a": object()}),
    ],
)
def test_bad_pieces_are_named(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument} must be"):
        Result.from_pulls(**(GOOD | {argument: value}))


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan, "x", None, [], [[0.5]], [0.5, 2]])
def test_bad_q(result, q):
    with pytest.raises(ValueError, match=r"^q must be"):
        result.quantile(q)


@pytest.mark.parametrize("x", [math.nan, math.inf, "x", None, [1, math.nan], True])
def test_bad_threshold(result, x):
    with pytest.raises(ValueError, match=r"^x must be"):
        result.tail(x)


@pytest.mark.parametrize("confidence", [0, 1, 95, math.nan, "x", [0.5, 0.6]])
def test_bad_confidence(result, confidence):
    with pytest.raises(ValueError, match=r"^confidence must be"):
        result.tail(1.0, confidence=confidence)


def test_bad_paths(tmp_path, result):
    with pytest.raises(FileNotFoundError, match=r"^path must lie in an existing folder"):
        result.save(tmp_path / "no" / "r.npz")
    with pytest.raises(IsADirectoryError, match=r"^path must name a file"):
        result.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"^path must be a file"):
        Result.load(tmp_path / "none.npz")
    for path in (3, None, "", b"r"):
        with pytest.raises(ValueError, match=r"^path must be a file name"):
            result.save(path)
        with pytest.raises(ValueError, match=r"^path must be a file name"):
            Result.load(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_cannot_be_written(tmp_path, result):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"^path must lie in a writable folder"):
        result.save(tmp_path / "r.npz")
    tmp_path.chmod(0o700)
