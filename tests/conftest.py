"""A strict configuration: x64 on (ELJAX_TEST_X64=0 turns it off), no silent rank promotion, warnings are errors."""

import os

import jax
import pytest

jax.config.update("jax_enable_x64", os.environ.get("ELJAX_TEST_X64", "1") == "1")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        skip = pytest.mark.skip(reason="takes over a minute; run with --slow")
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(skip)


_COMPILATIONS = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: (
        _COMPILATIONS.append(event) if event == "/jax/core/compile/backend_compile_duration" else None
    )
)


@pytest.fixture
def compilations():
    """A list that grows by one with every XLA compilation of this process."""
    return _COMPILATIONS
