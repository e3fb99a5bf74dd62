"""What certifies a decision: forced, disjoint intervals, a tie, indices known to within a tie, or solved ones."""

import jax.numpy as jnp
import pytest

import eljax
from eljax import numerics
from eljax.policies import _forcing

DTYPE = jnp.result_type(float)
TIE = float(numerics.tie_tolerance(jnp.ones((), DTYPE)))
COARSE = 10 * numerics.index_tolerance(DTYPE)


def decide(index, error, *, count=(50, 50), solved=False):
    """Two arms with largest reward 1 and mean 0, at round 100."""
    index, error = jnp.asarray(index, DTYPE), jnp.asarray(error, DTYPE)
    zero, one = jnp.zeros(2, DTYPE), jnp.ones(2, DTYPE)
    t = jnp.asarray(100, jnp.int32)
    count = jnp.asarray(count, jnp.int32)
    return _forcing.decide(eljax.log_squared(), t, count, one, zero, index, error, solved=solved)


@pytest.mark.parametrize(
    ("index", "error", "certified", "by_value"),
    [
        ([0.5, 0.4], [0.04, 0.04], True, False),  # disjoint
        ([0.5, 0.4], [0.06, 0.06], False, True),
        ([0.5, 0.5], [0.0, 0.0], True, False),  # tied
        ([0.5, 0.5 - TIE], [TIE / 4, TIE / 4], True, True),  # tied or not, but known as well as the exact index is
        ([0.5, 0.5 - TIE], [TIE / 4, 2 * TIE], False, True),
        ([jnp.nan, 0.5], [0.0, 0.0], False, True),
        ([jnp.inf, 0.5], [0.0, 0.3], True, False),  # an arm not yet pulled
    ],
)
def test_what_certifies_a_decision(index, error, certified, by_value):
    decision = decide(index, error)
    assert bool(decision.certified) == certified
    assert not by_value or bool((decision.index_error >= 0).all())
    assert by_value or bool((decision.index_error == 0).all())


def test_solved_indices_certify_to_the_tolerance():
    open_, coarse = decide([0.5, 0.5 - 1e-12], [COARSE / 100] * 2), decide([0.5, 0.5 - 1e-6], [COARSE] * 2, solved=True)
    assert not open_.certified
    assert decide([0.5, 0.5 - 1e-12], [COARSE / 100] * 2, solved=True).certified
    assert not coarse.certified
    assert float(coarse.index_error.max()) == pytest.approx(COARSE / 0.5, rel=1e-2)


def test_a_forced_decision_is_certified_whatever_the_indices():
    decision = decide([jnp.nan, 0.5], [jnp.inf, jnp.inf], count=(50, 2))
    assert (int(decision.arm), bool(decision.forced), bool(decision.certified)) == (1, True, True)
