"""Autoregressive densities by enumeration: 2x2 images of three bins have 81 cells."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.evidence import tilted_log_partition
from ebmjax.samplers import Autoregressive, fit_autoregressive, tilted_metropolis
from ebmjax.samplers._autoregressive import _find_edges, _init

SHAPE, NUM = (2, 2, 1), 6000
EDGES = jnp.array([-1.0, -0.5, 0.2, 1.0])


def make_density(shape=SHAPE) -> Autoregressive:
    """Two components, whose parameters are all random."""
    params = _init(shape, 2, 8, 3)
    keys = jax.random.split(jax.random.key(3), len(params))
    params = {
        name: 0.7 * jax.random.normal(key, x.shape)
        for key, (name, x) in zip(keys, params.items(), strict=True)
    }
    return Autoregressive(params, EDGES, jnp.log(jnp.array([0.3, 0.7])))


def make_cells(shape=SHAPE) -> tuple[jax.Array, jax.Array]:
    """Returns the middles (3 ** d, *shape) of all cells, and their log volumes."""
    cells = np.array([*itertools.product(range(3), repeat=int(np.prod(shape)))])
    volumes = np.log(np.diff(EDGES))[cells].sum(axis=1)
    return (0.5 * (EDGES[1:] + EDGES[:-1]))[cells].reshape(-1, *shape), volumes


def count_cells(x: jax.Array) -> np.ndarray:
    """Returns frequencies of cells, in the order of ``make_cells``."""
    symbols = np.searchsorted(EDGES[1:-1], np.asarray(x).reshape(len(x), -1))
    places = symbols @ 3 ** np.arange(symbols.shape[1])[::-1]
    return np.bincount(places, minlength=3 ** symbols.shape[1]) / len(x)


def agree(found: np.ndarray, expected: np.ndarray, num: int) -> bool:
    """Returns whether all frequencies are within 5 standard errors, and one count more."""
    return bool(np.all(np.abs(found - expected) < 5 * np.sqrt(expected / num) + 1 / num))


def tilt(x: jax.Array) -> jax.Array:
    """Returns f, which is constant in a cell."""
    x = jnp.searchsorted(EDGES[1:-1], x.ravel()) - 1.0
    return 0.6 * x[0] * x[-1] - 0.4 * x[1]


@pytest.mark.parametrize("shape", [SHAPE, (1, 2, 2)])
def test_every_component_integrates_to_one_and_draws_follow_it(shape):
    density, (cells, volumes) = make_density(shape), make_cells(shape)
    shares = np.exp(jax.vmap(density.log_densities)(cells) + volumes[:, None])
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-4)
    keys = jax.random.split(jax.random.key(0), NUM)
    for component in range(2):
        draws = jax.jit(jax.vmap(density.draw, (0, None)))(keys, component)
        assert agree(count_cells(draws), shares[:, component], NUM)
        assert not agree(count_cells(draws), shares[:, 1 - component], NUM)
    wide = make_density((1, 40, 1))  # whose last pixels do not see the first one, but a mean
    terms = [wide.log_terms(jnp.zeros(wide.shape).at[0, 0].set(x), 0)[0] for x in (0.0, 0.9)]
    assert jnp.all(terms[0] != terms[1])


def run_chains(density: Autoregressive, starts: jax.Array, f, num_steps: int) -> jax.Array:
    sampler = tilted_metropolis(f, base=density, temperature=0.5)

    def run(key, start):
        state = sampler.init(start, key)
        step = lambda state, key: (sampler.step(key, state)[0], None)  # noqa: E731
        return jax.lax.scan(step, state, jax.random.split(key, num_steps))[0].position

    return jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(5), len(starts)), starts)


def test_chains_follow_the_tilted_density_whatever_they_start_from():
    """T = 0.5 doubles f. Starts are of q, which the bound tells apart."""
    density, (cells, volumes) = make_density(), make_cells()
    log_q = jax.vmap(density.log_density)(cells) + volumes
    expected = np.asarray(jax.nn.softmax(log_q + 2 * jax.vmap(tilt)(cells)))
    starts = jax.vmap(density.draw_any)(jax.random.split(jax.random.key(1), NUM))
    assert not agree(count_cells(starts), expected, NUM)
    assert agree(count_cells(run_chains(density, starts, tilt, 300)), expected, NUM)


def test_chains_of_free_pixels_follow_the_conditional_density():
    """The first and the third pixel are free, and the others have middles of their bins."""
    density, (cells, volumes) = make_density(), make_cells()
    given, places = cells[41], jnp.array([0, 2])
    flat, others = cells.reshape(len(cells), -1), np.array([1, 3])
    is_own = np.all(np.asarray(flat)[:, others] == np.asarray(given).ravel()[others], axis=1)
    log_q = jax.vmap(density.log_density)(cells) + volumes + 2 * jax.vmap(tilt)(cells)
    expected = np.asarray(jax.nn.softmax(log_q[is_own]))
    some = density._replace(given=given, places=places)
    starts = jax.vmap(some.draw_any)(jax.random.split(jax.random.key(1), NUM))
    f = lambda x: tilt(given.ravel().at[places].set(x))  # noqa: E731
    assert agree(count_cells(run_chains(some, starts, f, 300)), expected, NUM)
    assert not agree(count_cells(starts), expected, NUM)


def test_a_fit_finds_rows_that_repeat_the_first_one():
    """Eight coins a picture, and 64 binary pixels whose levels are 1/128 wide."""
    rng = np.random.default_rng(0)
    coins = rng.integers(0, 2, (600, 1, 8, 1))
    images = np.broadcast_to(255 * coins, (600, 8, 8, 1)).astype(np.uint8)
    labels, is_held = np.zeros(600, int), np.arange(600) < 100
    density, nats = fit_autoregressive(images, labels, is_held, num_steps=1200, width=16)
    best = 64 * np.log(128) - 8 * np.log(2)
    assert best - 1.0 < nats < best + 1e-3
    draws = jax.vmap(density.draw_any)(jax.random.split(jax.random.key(0), 200)) > 0
    assert np.mean(draws == draws[:, :1]) > 0.99


def test_common_levels_have_bins_of_their_own():
    counts = np.zeros(256)
    counts[[0, 255]], counts[10:50] = 1000, 1
    edges = _find_edges(counts, 8)
    assert {0, 1, 255, 256} <= {*edges.tolist()}
    assert 8 <= len(edges) - 1 <= 12


@pytest.mark.parametrize("seed", range(2))
def test_log_z_of_a_tilted_density_comes_from_both_sides(seed):
    """Within 5 standard errors of the enumeration, from both sides."""
    density, (cells, volumes) = make_density(), make_cells()
    log_q = jax.vmap(density.log_density)(cells) + volumes
    truth = float(jax.nn.logsumexp(log_q + 3 * jax.vmap(tilt)(cells)))
    key = jax.random.key(seed)
    found = tilted_log_partition(key, lambda x: 3 * tilt(x), density, num_powers=20)
    assert found.is_closed
    for side in (found.lower, found.upper):
        assert abs(side.value - truth) < 5 * side.standard_error
