"""Shipped data against their published sizes and means; CSV files good and bad."""

import numpy as np
import pytest

from eljax.datasets import actg175, from_csv, open_bandit


def test_actg175():
    bandit = actg175()
    assert [arm.parameters["samples"].size for arm in bandit.arms] == [532, 522, 524, 561]
    np.testing.assert_allclose(bandit.means, [336.139, 403.172, 372.038, 374.324], atol=5e-4)
    assert bandit.labels == (
        "zidovudine",
        "zidovudine + didanosine",
        "zidovudine + zalcitabine",
        "didanosine",
    )
    x = bandit.rewards(seed=0, run=0, arm=2, pulls=500)
    assert np.isin(x, bandit.arms[2].parameters["samples"]).all()


def test_open_bandit():
    bandit = open_bandit()
    assert bandit.num_arms == 34
    assert (bandit.means == 0).sum() == 9
    assert bandit.means[0] == 4 / 272
    assert (bandit.rewards(seed=0, run=0, arm=1, pulls=2_000) == 0).all()


def write(tmp_path, text, name="file.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_from_csv_text_arms(tmp_path):
    path = write(tmp_path, "score, group ,note\n1.5,b,x\n2, a,y\n-3e1,b,\n")
    with pytest.raises(ValueError, match="arm must be a column of"):
        from_csv(path, arm="groups", reward="score")
    bandit = from_csv(path, arm="group ", reward="score")
    assert bandit.labels == ("a", "b")
    assert bandit.arms[1].parameters["samples"].tolist() == [-30, 1.5]


def test_from_csv_sorts_numbers_as_numbers(tmp_path):
    path = write(tmp_path, "\ufeffarm,r\n10,1\n9,2\n2,3\n2.0,5\n")
    bandit = from_csv(str(path), arm="arm", reward="r")
    assert bandit.labels == ("2", "9", "10")
    assert bandit.means.tolist() == [4, 2, 1]


def test_from_csv_reads_the_shipped_trial():
    from importlib import resources

    path = str(resources.files("eljax") / "data" / "actg175_cd4.csv")
    assert from_csv(path, arm="arm", reward="cd4_week20").arms == actg175().arms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "path must be a CSV file that is not empty"),
        ("arm,r\n", "path must be a file with at least one row"),
        ("arm,s\n1,2\n", r"reward must be a column of .*, one of 'arm', 's', got 'r'"),
        ("a,r\n1,2\n", "arm must be a column of .*, one of 'a', 'r', got 'arm'"),
        ("arm,r\n1,2\n1,3\n", "arm must be a column with at least two different values"),
        ("arm,r\n1,2\n2,nan\n", r"reward = 'r' must be a column of finite numbers; look at data row 2, got 'nan'"),
        ("arm,r\n1,inf\n2,3\n", "look at data row 1, got 'inf'"),
        ("arm,r\n1,1\n2,high\n", "look at data row 2, got 'high'"),
        ("arm,r\n1,1\n2,\n", "look at data row 2, got ''"),
        ("arm,r\n1,1\n2\n", "look at data row 2, got ''"),
        ("arm,r\n1,1\n,2\n", "arm = 'arm' must be a value in every row; look at data row 2"),
        ("arm,r\n1,1,7\n2,3,8\n", "path must be a readable CSV file"),
        ("arm,r\n1,1\n2,3,8\n", "path must be a readable CSV file"),
        (b"\x89PNG\r\n\x1a\n\x00\xff\xfe\x00", "path must be a readable CSV file"),
        ('{"arm": [1, 2]}', "arm must be a column of|path must be"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        from_csv(write(tmp_path, text), arm="arm", reward="r")


def test_bad_paths_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"path must be an existing CSV file, got .*nowhere"):
        from_csv(tmp_path / "nowhere.csv", arm="arm", reward="r")
    with pytest.raises(ValueError, match="path must be an existing CSV file"):
        from_csv(tmp_path, arm="arm", reward="r")
    with pytest.raises(ValueError, match="path must be the path"):
        from_csv(3, arm="arm", reward="r")
    with pytest.raises(ValueError, match="reward must be a column other than"):
        from_csv(write(tmp_path, "arm,r\n1,2\n2,3\n"), arm="r", reward="r")
