"""What tells policies apart across processes: two sweeps share a store only if theirs are the same."""

import hashlib
import re
from types import CodeType
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from eljax import engine
from eljax.types import Policy, describe


def identity(policy: Policy) -> str:
    """One line that tells policies apart: name, hyperparameters, and a digest of all numbers and of foreign code."""
    parts = [x.tobytes() for x in jax.tree.leaves(engine.prepared(policy, np.dtype(np.float64)))]
    parts += [text.encode() for slot in policy[:3] for text in _foreign_code(slot)]
    return f"{describe(policy)} {hashlib.blake2b(b'|'.join(parts), digest_size=8).hexdigest()}"


def _foreign_code(value: Any) -> list[str]:
    """What the functions of a slot that are not eljax's do: two lambdas have one name."""
    if isinstance(value, Partial):
        return [text for part in (value.func, *value.args, *value.keywords.values()) for text in _foreign_code(part)]
    if not hasattr(value, "__code__") or value.__module__.startswith("eljax."):
        return []
    enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
    text = repr((value.__qualname__, _instructions(value.__code__), value.__defaults__, enclosed))
    return [re.sub(r" at 0x[0-9a-f]+", "", text)]


def _instructions(code: CodeType) -> tuple:
    constants = [_instructions(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.co_code, code.co_names, constants
