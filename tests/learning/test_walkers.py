"""Weighted walkers: log Z of moving Gaussians, mirrors, moves, shards, resampling."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.learning import advance_walkers, init_walkers, systematic_indices

NUM, DIM = 512, 2


def log_start(x):
    return -0.5 * jnp.sum(jnp.square(x)) - 0.5 * DIM * jnp.log(2 * jnp.pi)


def start(num=NUM, seed=0):
    draw = lambda key, label: jax.random.normal(key, (DIM,))  # noqa: E731
    return init_walkers(jax.random.key(seed), num, draw, log_start)


def gaussian(precision):
    return lambda x: 0.5 * precision * jnp.sum(jnp.square(x - 0.3), axis=1)


def follow(key, walkers, precisions, axis_name=None, **options):
    """Returns the last walkers, samples and metrics of the energies, one after the other."""

    def step(walkers, inputs):
        key, precision = inputs
        walkers, samples, metrics = advance_walkers(
            key, walkers, gaussian(precision), axis_name=axis_name, **options
        )
        return walkers, (samples, metrics)

    keys = jax.random.split(key, len(precisions))
    walkers, reports = jax.lax.scan(step, walkers, (keys, precisions))
    return walkers, jax.tree.map(lambda leaf: leaf[-1], reports)


@pytest.mark.parametrize(("num_moves", "min_fraction"), [(1, 0.0), (1, 0.9), (2, 0.5)])
def test_log_z_of_a_gaussian_of_moving_precision(num_moves, min_fraction):
    """The mean of exp(log Z - truth) over 100 populations is 1, within 5 standard errors.

    Z of finitely many walkers is unbiased at every step size, with resampling and without. The
    weighted mean of |x - m|^2 is DIM / precision, up to a bias of order 1 / NUM.
    """
    precisions = jnp.linspace(1.0, 3.0, 8)
    options = {"step_size": 0.25, "num_moves": num_moves, "min_fraction": min_fraction}

    def population(key):
        first, second = jax.random.split(key)
        draw = lambda key, label: jax.random.normal(key, (DIM,))  # noqa: E731
        walkers = init_walkers(first, NUM, draw, log_start)
        _, (samples, metrics) = follow(second, walkers, precisions, **options)
        squares = jnp.sum(jnp.square(samples.positions - 0.3), axis=1)
        return metrics, jnp.sum(samples.weights * squares), jnp.sum(samples.weights)

    found = jax.jit(jax.vmap(population))(jax.random.split(jax.random.key(1), 100))
    metrics, squares, totals = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)
    truth = 0.5 * DIM * np.log(2 * np.pi / 3.0)
    ratios = np.exp(metrics["log_normalizer"] - truth)
    assert abs(ratios.mean() - 1) < 5 * ratios.std(ddof=1) / 10
    assert ratios.std(ddof=1) < 0.3  # or 5 standard errors would let anything pass
    np.testing.assert_allclose(totals, 1.0, rtol=1e-5)
    # The bias of a ratio of means is about its variance times the mean, 1 / 100 of it here.
    bound = 5 * squares.std(ddof=1) / 10 + squares.var(ddof=1)
    assert abs(squares.mean() - DIM / 3.0) < bound


@pytest.mark.slow
def test_walkers_between_mirrors():
    """exp(-c x) on [0, 1] has Z = (1 - exp(-c)) / c, whatever walls a move meets on its way."""

    def population(key):
        first, *keys = jax.random.split(key, 7)
        uniform = lambda key, label: jax.random.uniform(key, (1,))  # noqa: E731
        walkers = init_walkers(first, NUM, uniform, lambda x: jnp.zeros(()))
        for one, slope in zip(keys, (1.0, 1.5, 2.0, 2.5, 3.0, 3.0), strict=True):
            energy = lambda x, slope=slope: slope * x[:, 0]  # noqa: E731
            walkers, _, metrics = advance_walkers(
                one, walkers, energy, step_size=0.02, box=(0.0, 1.0)
            )
        return metrics["log_normalizer"], walkers.positions

    keys = jax.random.split(jax.random.key(2), 200)
    found, positions = jax.jit(jax.vmap(population))(keys)
    ratios = np.exp(np.asarray(found, np.float64)) / ((1 - np.exp(-3.0)) / 3.0)
    assert abs(ratios.mean() - 1) < 5 * ratios.std(ddof=1) / np.sqrt(200)
    assert ratios.std(ddof=1) < 0.2
    assert 0.0 <= float(positions.min()) < float(positions.max()) <= 1.0


def test_the_first_weights_are_those_of_importance_sampling():
    walkers = start()
    _, samples, metrics = advance_walkers(jax.random.key(3), walkers, gaussian(2.0), step_size=0.1)
    x = np.asarray(walkers.positions, np.float64)
    log_weights = -np.square(x - 0.3).sum(1) + 0.5 * np.square(x).sum(1) + np.log(2 * np.pi)
    weights = np.exp(log_weights)
    np.testing.assert_allclose(samples.weights, weights / weights.sum(), rtol=1e-4)
    np.testing.assert_allclose(metrics["log_normalizer"], np.log(weights.mean()), rtol=1e-4)
    effective = weights.sum() ** 2 / np.square(weights).sum() / NUM
    np.testing.assert_allclose(metrics["effective_sample_fraction"], effective, rtol=1e-4)


@pytest.mark.parametrize("is_poor", [False, True])
def test_shards_with_an_axis_are_one_population(is_poor):
    """Weights, log Z and the resampled positions are those of one shard with all walkers."""
    whole = start(12)._replace(log_weights=jnp.linspace(0.0, 4.0, 12) * is_poor)
    options = {"step_size": 0.1, "min_fraction": 0.6}
    energy = gaussian(1.3)
    shards = whole._replace(
        **{
            name: getattr(whole, name).reshape(3, 4, -1).squeeze()
            for name in ("positions", "reverse", "log_weights")
        },
        step_size=jnp.zeros(3),
        log_normalizer=jnp.zeros(3),
    )
    keys = jax.random.split(jax.random.key(4), 3)
    advance = partial(advance_walkers, energy_fn=energy, **options)
    _, one, of_one = jax.jit(advance)(keys[0], whole)
    advance_all = jax.vmap(partial(advance, axis_name="shard"), axis_name="shard")
    moved, many, of_many = jax.jit(advance_all)(keys, shards)
    np.testing.assert_allclose(many.weights.reshape(-1) / 3, one.weights, rtol=1e-5)
    for name, value in of_one.items():
        np.testing.assert_allclose(of_many[name], np.full(3, value), rtol=1e-5)
    poor = float(of_one["effective_sample_fraction"]) < 0.6
    assert poor == is_poor
    if poor:
        chosen = systematic_indices(
            jax.random.split(keys[0])[0],
            whole.log_weights - energy(whole.positions),
        )
        origins = (moved.positions + moved.reverse).reshape(12, DIM)
        np.testing.assert_allclose(origins, whole.positions[chosen], atol=1e-5)
        np.testing.assert_allclose(moved.log_normalizer, np.full(3, of_one["log_normalizer"]))


def test_systematic_indices_take_every_entry_as_often_as_its_share():
    shares = np.array([0.05, 0.45, 0.1, 0.4])
    for seed in range(20):
        chosen = systematic_indices(
            jax.random.key(seed), jnp.log(jnp.asarray(np.repeat(shares, 5)))
        )
        counts = np.bincount(chosen, minlength=20)
        assert (np.abs(counts - 20 * np.repeat(shares, 5) / 5) < 1).all()
    means = jax.vmap(partial(systematic_indices, log_weights=jnp.log(jnp.asarray(shares))))(
        jax.random.split(jax.random.key(0), 1000)
    )
    counts = np.stack([np.bincount(row, minlength=4) for row in np.asarray(means)])
    error = counts.std(axis=0, ddof=1) / np.sqrt(1000)
    assert (np.abs(counts.mean(axis=0) - 4 * shares) < 5 * error + 1e-6).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "step_size must be positive"),
        ({"step_size": 0.1, "num_moves": 0}, "num_moves must be an integer of at least 1"),
        ({"step_size": 0.1, "min_fraction": 1.5}, "min_fraction must"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        advance_walkers(jax.random.key(0), start(4), gaussian(1.0), **options)


def test_one_walker_is_none():
    with pytest.raises(ValueError, match="num must be an integer of at least 2, got num=1"):
        start(1)


@pytest.mark.slow
def test_the_model_learns_the_mass_of_modes_that_no_walker_leaves():
    """Data have 0.2 and 0.8 of two modes five apart; one parameter is the model's log odds.

    Walkers begin half and half and cross in no move. Their weights hold the model's odds, up to
    the odds of the starts, whose log has standard error 2 / sqrt(num): 0.0035 of the left mass,
    and 0.02 is over 5 of it. Equal weights say 0.5 for ever, so the left mass goes to 0.
    """
    num, modes = 8192, jnp.array([-2.5, 2.5])

    def energy(log_odds, x):
        shares = jnp.stack([log_odds, 0.0 * log_odds])
        return -jax.nn.logsumexp(shares[None] - 2.0 * jnp.square(x - modes[None]), axis=-1)

    def train(is_weighted):
        def start(key, label):
            side, noise = jax.random.split(key)
            return modes[jax.random.bernoulli(side).astype(int)] + 0.5 * jax.random.normal(
                noise, (1,)
            )

        def log_start(x):
            return -energy(0.0, x[None])[0] - jnp.log(jnp.sqrt(2 * jnp.pi))

        def step(state, key):
            log_odds, walkers = state
            walkers, samples, metrics = advance_walkers(
                key,
                walkers,
                partial(energy, log_odds),
                step_size=0.05,
                min_fraction=0.5 * is_weighted,
            )

            def loss(log_odds):
                weights = samples.weights if is_weighted else jnp.full(num, 1 / num)
                # The mean energy of the data is -0.2 log_odds, up to a constant.
                return -0.2 * log_odds - jnp.sum(weights * energy(log_odds, samples.positions))

            return (log_odds - jax.grad(loss)(log_odds), walkers), metrics["log_normalizer"]

        state = jnp.zeros(()), init_walkers(jax.random.key(6), num, start, log_start)
        keys = jax.random.split(jax.random.key(7), 60)
        (log_odds, _), log_normalizer = jax.lax.scan(step, state, keys)
        return jax.nn.sigmoid(log_odds), log_normalizer[-1]

    mass, log_normalizer = train(True)
    assert float(mass) == pytest.approx(0.2, abs=0.02)
    # Z = (exp(log odds) + 1) sd sqrt(2 pi); by the starts' odds its log has standard error 0.0066.
    truth = np.log((0.25 + 1) * 0.5 * np.sqrt(2 * np.pi))
    assert float(log_normalizer) == pytest.approx(truth, abs=0.05)
    assert float(train(False)[0]) < 1e-3
