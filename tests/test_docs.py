"""Code that readers copy: the README's Python blocks and every docstring example run."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import eljax

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
MODULES = [name for _, name, _ in pkgutil.walk_packages(eljax.__path__, "eljax.")]


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_code_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(README), "exec"), {})
    assert ("curves.png" in block) == (tmp_path / "curves.png").exists()


def test_the_readme_opens_with_the_two_commands():
    lines = [line.partition("#")[0].strip() for line in README.read_text().splitlines()[2:6]]
    assert lines[1:3] == ["pip install . && python -m experiments.table3", "pip install '.[test]' && pytest"]
    quickstart = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(quickstart) == 10


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_run(module):
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0
