"""A strict configuration: x64 on (ELJAX_TEST_X64=0 turns it off), no silent rank promotion, warnings are errors."""

import os
import sys
from pathlib import Path

import jax
import pytest

# `experiments` is not installed; appended, so that the installed eljax is the one tested.
sys.path.append(str(Path(__file__).parent.parent))

jax.config.update("jax_enable_x64", os.environ.get("ELJAX_TEST_X64", "1") == "1")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)


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
