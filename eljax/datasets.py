"""Bandits from real data: two that ship with the package, and any CSV file of one's own."""

import math
import warnings
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd

from eljax import checks
from eljax.arms import Bandit, bernoulli, empirical

ACTG175_ARMS = ("zidovudine", "zidovudine + didanosine", "zidovudine + zalcitabine", "didanosine")


def actg175() -> Bandit:
    """The HIV trial ACTG 175: four treatments, each arm the CD4 counts (cells/mm³) at 20 ± 5 weeks of its patients.

    Treatments 0 to 3 with 532, 522, 524 and 561 patients, mean counts 336.139, 403.172, 372.038 and 374.324.
    Source: Hammer et al., "A trial comparing nucleoside monotherapy with combination therapy in HIV-infected adults
    with CD4 cell counts from 200 to 500 per cubic millimeter", N. Engl. J. Med. 335 (1996) 1081-1090.

        >>> from eljax.datasets import actg175
        >>> actg175().means.round(3)
        array([336.139, 403.172, 372.038, 374.324])
    """
    table = _shipped("actg175_cd4.csv")
    arms = [empirical(rewards) for _, rewards in table.groupby("arm")["cd4_week20"]]
    return Bandit(arms, labels=ACTG175_ARMS)


def open_bandit() -> Bandit:
    """Clicks on 34 fashion items: Bernoulli arms with p = clicks / impressions, 9 of them without a click (p = 0).

    Source: Saito et al., "Open Bandit Dataset and Pipeline", NeurIPS 2021 Datasets and Benchmarks; campaign "men",
    logged by the uniformly random policy.

        >>> from eljax.datasets import open_bandit
        >>> open_bandit().num_arms, int((open_bandit().means == 0).sum())
        (34, 9)
    """
    table = _shipped("open_bandit_men_random.csv")
    arms = [bernoulli(clicks / shown) for clicks, shown in zip(table["clicks"], table["impressions"], strict=True)]
    return Bandit(arms, labels=[f"item {item}" for item in table["arm"]])


def from_csv(path: str | Path, *, arm: str, reward: str) -> Bandit:
    """One empirical arm per value of the column `arm`, its samples the column `reward` of the rows with that value.

    The first line of the file names the columns, separated by commas. Arms are labelled by their value and sorted,
    as numbers if all values are numbers, else as text. ValueError for a file that is missing, empty or not CSV, an
    unknown column, fewer than two arms, a row without an arm, or a reward that is not a finite number (with its row).

        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "trial.csv"
        >>> _ = file.write_text("group,score\\nB,1.5\\nA,2\\nB,0.5\\n")
        >>> from_csv(file, arm="group", reward="score").labels
        ('A', 'B')
    """
    table = _read(path)
    for name, column in (("arm", arm), ("reward", reward)):
        if column not in table.columns:
            checks.fail(name, column, f"a column of {path}, one of {', '.join(map(repr, table.columns))}")
    if arm == reward:
        checks.fail("reward", reward, "a column other than that of arm")
    if table.empty:
        checks.fail("path", str(path), "a file with at least one row below its header")
    names = table[arm].str.strip()
    _check_rows("arm", arm, names, (names != "").to_numpy(), "a value in every row")
    rewards = pd.to_numeric(table[reward], errors="coerce").to_numpy(np.float64)
    _check_rows("reward", reward, table[reward], np.isfinite(rewards), "a column of finite numbers")
    labels = _arm_labels(names)
    if len(labels) < 2:
        checks.fail("arm", arm, f"a column with at least two different values, not only {labels[0]!r}")
    key = names.map(_number) if _numeric(labels) else names
    wanted = [_number(label) for label in labels] if _numeric(labels) else labels
    return Bandit([empirical(rewards[(key == value).to_numpy()]) for value in wanted], labels=labels)


def _shipped(file: str) -> pd.DataFrame:
    with resources.as_file(resources.files("eljax") / "data" / file) as path:
        return pd.read_csv(path)


def _read(path: str | Path) -> pd.DataFrame:
    if not isinstance(path, str | Path):
        checks.fail("path", path, "the path of a CSV file")
    if not Path(path).is_file():
        checks.fail("path", str(path), "an existing CSV file")
    options = {"dtype": str, "keep_default_na": False, "skipinitialspace": True, "index_col": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            return pd.read_csv(path, encoding="utf-8-sig", **options).fillna("")
    except pd.errors.EmptyDataError:
        checks.fail("path", str(path), "a CSV file that is not empty")
    except (pd.errors.ParserError, pd.errors.ParserWarning, UnicodeDecodeError, OSError) as error:
        reason = str(error).strip().splitlines()[-1]
        checks.fail("path", str(path), f"a readable CSV file with one header line ({reason})")


def _check_rows(name: str, column: str, values: pd.Series, good: np.ndarray, allowed: str) -> None:
    if not good.all():
        row = int(np.argmin(good))
        checks.fail(f"{name} = {column!r}", values.iloc[row], f"{allowed}; look at data row {row + 1}")


def _arm_labels(names: pd.Series) -> list[str]:
    """The different values in their order; numbers that are equal, such as 1 and 1.0, are one value."""
    distinct = list(dict.fromkeys(names))
    if not _numeric(distinct):
        return sorted(distinct)
    first: dict[float, str] = {}
    for name in distinct:
        first.setdefault(_number(name), name)
    return [first[value] for value in sorted(first)]


def _numeric(names: list[str]) -> bool:
    return all(math.isfinite(_number(name)) for name in names)


def _number(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan
