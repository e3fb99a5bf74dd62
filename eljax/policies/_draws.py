"""Normal and Gamma numbers for policies that sample, in a fixed number of operations: nothing is rejected.

Bits: word s of a draw is fold_in(key, s) (`random`), so a number is a function of the key and its place alone.

Gamma(n), n = 1, 2, ..., is exact in law for n ≤ 4 (−log of a product of n uniforms). From n = 5 it is the quantile
function of a normal number z, as a polynomial fitted on the host to scipy's: with η = z/√n

    log(G/n) ≈ Σ_{k,j} c_kj η^k n^−j / (1 + η⁴/(16 π²))        k + 5j ≤ 18, c_00 = 0, c_10 = 1

(G/n at the quantile is an analytic function of η and 1/n with its nearest singularities at η⁴ = −16π².) The fit is off
by at most 3e-6 standard deviations of log G while |z| ≤ 9.2, and further out there are no bits: the distribution
function of G is off by 3e-7 at most. jax.random.gamma, by rejection, takes ten times as long in a batch.

What several loops read is put behind optimization barriers: XLA on CPUs would otherwise compute the bits again in each
of them, which doubles the time of a whole simulation.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from scipy import special

from eljax import random

EXACT = 4  # shapes up to this are sums of exponentials
DEGREE, STEP, LARGEST_Z = 18, 5, 9.2


def key_data(key: jax.Array) -> random.KeyData:
    """The words of a typed threefry key."""
    words = jax.random.key_data(key)
    return random.KeyData(words[0], words[1])


def numbers(key: random.KeyData, count: int) -> jax.Array:
    """[count, 1, ...]: 0, 1, ... before the axes of the key."""
    return jnp.arange(count, dtype=jnp.int32).reshape(-1, *[1] * key.low.ndim)


def uniform(key: random.KeyData, place: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """A uniform number strictly inside (0, 1) for each place."""
    dtype = jnp.dtype(dtype)
    p, upper = random.tail_uniform(key, place, dtype)
    return jnp.where(upper, jnp.minimum(1 - p, 1 - jnp.finfo(dtype).epsneg), p)


def normal(key: random.KeyData, place: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """A standard normal number for each place, resolved to tails of 2^−64."""
    p, upper = jax.lax.optimization_barrier(random.tail_uniform(key, place, jnp.dtype(dtype)))
    z = ndtri(p)
    return jax.lax.optimization_barrier(jnp.where(upper, -z, z))


def log_gamma(key: random.KeyData, place: jax.Array, shape: jax.Array) -> jax.Array:
    """log(G/n) of a Gamma(n) number for each place, n = `shape` ≥ 1 whole numbers in a float dtype.

    G/n has mean 1, and its logarithm keeps the relative precision of n large and of G small. Places 2p and 2p + 1 are
    used for p.
    """
    uniforms = [*_uniforms(key, 2 * place, shape.dtype), *_uniforms(key, 2 * place + 1, shape.dtype)]
    product = uniforms[0]
    for k in range(1, EXACT):
        product = jnp.where(shape > k, product * uniforms[k], product)
    few = jnp.log(-jnp.log(jax.lax.optimization_barrier(product)) / shape)
    many = log_quantile(normal(key, 2 * place, shape.dtype), shape)
    return jax.lax.optimization_barrier(jnp.where(shape <= EXACT, few, many))


def log_quantile(z: jax.Array, shape: jax.Array) -> jax.Array:
    """log(G/n) where Gamma(n) has its quantile of the standard normal z, n = `shape` > EXACT."""
    root = jax.lax.rsqrt(jnp.maximum(shape, EXACT + 1))
    eta, inverse = z * root, root * root
    total = jnp.zeros_like(eta)
    for row in reversed(_coefficients()):
        factor = jnp.zeros_like(eta)
        for coefficient in reversed(row):
            factor = factor * inverse + coefficient
        total = total * eta + factor
    return total / _poles(eta)


def _uniforms(key: random.KeyData, place: jax.Array, dtype: jnp.dtype) -> list[jax.Array]:
    """Two numbers of 23 bits strictly inside (0, 1), exact in float32."""
    return [((word >> 9).astype(jnp.int32).astype(dtype) + 0.5) * 2.0**-23 for word in random.fold_in(key, place)]


@functools.lru_cache(maxsize=1)
def _coefficients() -> list[list[float]]:
    """c_kj as rows k: least squares on Chebyshev nodes in z and 1/n, of errors in standard deviations of log G."""
    nodes = lambda count: np.cos(np.pi * (np.arange(count) + 0.5) / count)  # noqa: E731
    z, inverse = (x.ravel() for x in np.meshgrid(LARGEST_Z * nodes(61), (1 + nodes(25)) / 2 / (EXACT + 1)))
    shape, eta = 1 / inverse, z * np.sqrt(inverse)
    tail = special.ndtr(-np.abs(z))
    quantile = np.where(z < 0, special.gammaincinv(shape, tail), special.gammainccinv(shape, tail))
    weight = np.sqrt(shape) / _poles(eta)
    wanted = np.log(quantile / shape) * _poles(eta) - eta
    places = [(k, j) for k in range(DEGREE + 1) for j in range((DEGREE - k) // STEP + 1)]
    places = [place for place in places if place not in ((0, 0), (1, 0))]
    terms = np.stack([eta**k * inverse**j for k, j in places], -1)
    scale = np.abs(terms).max(0)
    solution = np.linalg.lstsq(terms / scale * weight[:, None], wanted * weight, rcond=None)[0]
    rows = [[0.0] * ((DEGREE - k) // STEP + 1) for k in range(DEGREE + 1)]
    rows[1][0] = 1.0
    for (k, j), coefficient in zip(places, solution / scale, strict=True):
        rows[k][j] = float(coefficient)
    return rows


def _poles(eta):
    return 1 + eta**4 / (16 * np.pi**2)
