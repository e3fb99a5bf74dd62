"""The import order: a module imports only from the layers below its own."""

import ast
from pathlib import Path

import pytest

import eljax

ROOT = Path(eljax.__file__).parent
LAYERS = [  # from the bottom up; the modules of one layer do not import each other, but for a package's own files
    ["checks"],
    ["types", "numerics", "random"],
    ["empirical_likelihood", "streaming_el", "arms", "results"],
    ["exact_el", "datasets"],
    ["schedules"],
    ["policies"],
    ["engine", "notation"],
    ["tails"],
    ["relaxed", "sensitivity"],
    ["sweeps"],
    ["comparisons"],
    ["plots"],
    ["cli"],
]
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}
NO_JAX = ("results", "plots")
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def imported(path):
    """Dotted names a file imports, `from a import b` giving a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_point_downwards(path):
    own = path.relative_to(ROOT).with_suffix("").parts[0]
    assert own in LEVEL, f"give {own} a place in LAYERS"
    for name in imported(path):
        parts = name.split(".")
        if parts == ["eljax"]:
            assert own == "cli", "only the command line stands above the whole package"
        elif parts[0] == "eljax":
            assert parts[1] == own or LEVEL[parts[1]] < LEVEL[own], f"{own} imports {parts[1]}"
        if own in NO_JAX:
            assert parts[0] not in ("jax", "jaxlib")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_modules_can_be_read_in_a_sitting(path):
    assert len(path.read_text().splitlines()) <= 500


def test_policies_never_see_the_laws_and_the_engine_never_sees_a_policy():
    for path in (ROOT / "policies").glob("*.py"):
        assert not [name for name in imported(path) if name.startswith(("eljax.arms", "eljax.engine"))]
    assert not [name for name in imported(ROOT / "engine.py") if name.startswith("eljax.policies")]
