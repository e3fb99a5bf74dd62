"""A strict configuration: x64 on (ELJAX_TEST_X64=0 turns it off), no silent rank promotion, no key used twice.

What one worker has compiled the others load: a compilation cache in a temporary folder, for this run of the tests.
"""

import os
import sys
import tempfile
from pathlib import Path

import jax
import pytest

# `experiments` is not installed; appended, so that the installed eljax is the one tested.
sys.path.append(str(Path(__file__).parent.parent))

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # workers and subprocesses inherit the environment
    _FOLDER = tempfile.TemporaryDirectory(prefix="eljax-tests-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _FOLDER.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    jax.config.update("jax_compilation_cache_dir", _FOLDER.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

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
    """A list that grows by one with every XLA compilation of this process, loaded from the cache or not."""
    return _COMPILATIONS
