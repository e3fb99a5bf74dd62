"""What the functions of empirical likelihood accept, refuse and return the shape and dtype of."""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eljax import empirical_likelihood as module
from eljax.empirical_likelihood import el_index, el_interval, el_weights, log_el

LADDER = np.arange(5.0)


def test_inputs_dtypes_and_broadcasting():
    default = jnp.result_type(float)
    assert el_index([0, 1, 2], 1).dtype == default
    assert el_index(np.arange(3), 1).dtype == default
    assert el_index([False, True, True], 1).dtype == default
    for function in (log_el, el_weights, el_index):
        assert function(np.float32([0, 1, 2]), np.array(0.5)).dtype == np.float32
    x = np.random.default_rng(0).normal(size=(4, 3, 8))
    assert el_index(x, np.ones((4, 1)), np.ones(8, bool)).shape == (4, 3)
    np.testing.assert_allclose(el_index(x, np.arange(3.0))[2, 1], el_index(x[2], np.arange(3.0))[1], rtol=1e-6)
    shape = lambda function, *arguments: jax.eval_shape(function, *arguments).shape  # noqa: E731
    assert shape(el_index, x, 3.0) == (4, 3)
    assert shape(log_el, x[0, 0], np.linspace(-1, 1, 7)) == (7,)
    assert shape(el_weights, x[0, 0], np.linspace(-1, 1, 7)) == (7, 8)
    assert shape(el_index, x[0, 0], 1.0, np.ones((5, 8), bool)) == (5,)
    assert shape(lambda x: el_interval(x, 3.0, weights=np.ones(8))[0], x) == (4, 3)
    assert shape(lambda x: el_interval(x, confidence=0.9)[1], x) == (4, 3)


NAN, INF = np.nan, np.inf
BAD = [
    ("x", lambda: el_index(3.0, 1.0)),
    ("x", lambda: el_index([], 1.0)),
    ("x", lambda: el_index(np.zeros((3, 0)), 1.0)),
    ("x", lambda: el_index([0.0, NAN], 1.0)),
    ("x", lambda: el_index([0.0, INF], 1.0)),
    ("x", lambda: el_index(jnp.array([0.0, NAN]), 1.0)),
    ("x", lambda: log_el([0.0, -INF], 1.0)),
    ("x", lambda: el_weights([0.0, NAN], 1.0)),
    ("x", lambda: el_interval([0.0, NAN], 1.0)),
    ("x", lambda: el_index(["north", "south"], 1.0)),
    ("x", lambda: el_index("north", 1.0)),
    ("x", lambda: el_index(None, 1.0)),
    ("x", lambda: el_index([1.0, None], 1.0)),
    ("x", lambda: el_index([[1.0, 2.0], [3.0]], 1.0)),
    ("x", lambda: el_index([1j, 2.0], 1.0)),
    ("x", lambda: el_index(np.zeros(3, np.float16), 1.0)),
    ("x", lambda: el_index({"a": 1}, 1.0)),
    ("radius", lambda: el_index(LADDER, -1.0)),
    ("radius", lambda: el_index(LADDER, -1e-12)),
    ("radius", lambda: el_index(LADDER, NAN)),
    ("radius", lambda: el_index(LADDER, [1.0, -1.0])),
    ("radius", lambda: el_index(LADDER, None)),
    ("radius", lambda: el_index(LADDER, "3")),
    ("radius", lambda: el_index(np.zeros((2, 5)), np.ones(3))),
    ("radius", lambda: el_interval(LADDER, -1.0)),
    ("mean", lambda: log_el(LADDER, NAN)),
    ("mean", lambda: log_el(LADDER, None)),
    ("mean", lambda: log_el(np.zeros((2, 5)), np.ones(3))),
    ("where", lambda: el_index(LADDER, 1.0, np.ones(5))),
    ("where", lambda: el_index(LADDER, 1.0, [1, 1, 1, 0, 0])),
    ("where", lambda: el_index(LADDER, 1.0, np.ones(4, bool))),
    ("where", lambda: el_index(np.zeros((3, 1)), 1.0, np.ones(5, bool))),
    ("where", lambda: log_el(LADDER, 1.0, np.ones((2, 4), bool))),
    ("weights", lambda: el_interval(LADDER, 1.0, weights=[1, 1, 1, 1, -1])),
    ("weights", lambda: el_interval(LADDER, 1.0, weights=[1, 1, 1, 1, NAN])),
    ("weights", lambda: el_interval(LADDER, 1.0, weights=[1, 1])),
    ("weights", lambda: el_interval(LADDER, 1.0, weights=["north"] * 5)),
    ("radius, confidence", lambda: el_interval(LADDER)),
    ("radius, confidence", lambda: el_interval(LADDER, 1.0, confidence=0.9)),
    ("confidence", lambda: el_interval(LADDER, confidence=0.0)),
    ("confidence", lambda: el_interval(LADDER, confidence=1.0)),
    ("confidence", lambda: el_interval(LADDER, confidence=95)),
    ("confidence", lambda: el_interval(LADDER, confidence=NAN)),
    ("confidence", lambda: el_interval(LADDER, confidence="95%")),
]


@pytest.mark.parametrize(("name", "call"), BAD)
def test_bad_input(name, call):
    with pytest.raises(ValueError, match=rf"^{name} must be .*, got "):
        call()


@pytest.mark.skipif(not jax.config.jax_enable_x64, reason="prints float64")
def test_docstring_examples():
    results = doctest.testmod(module)
    assert results.attempted >= 4
    assert results.failed == 0
