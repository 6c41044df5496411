"""Builds a latent EBM run from its configuration, and draws its plots."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import latent
from ebmjax.learning import init_latent_carry, numbers_of
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.families import ABOUT, extractor_name
from ebmjax.recipes.evaluators.evaluations import make_distances
from ebmjax.recipes.evaluators.gradient_variance import over_coordinates
from ebmjax.recipes.evaluators.plots import column, figure, step_colours, tiles
from ebmjax.recipes.folder.run_folder import read_arrays, snapshots
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent import checks, parts
from ebmjax.recipes.models.latent.model import LatentEBM
from ebmjax.recipes.parts import image_data
from ebmjax.recipes.parts.start_distributions import rescale_images

SHOWN = 10
"""Images side by side in a picture."""


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``latent/fields.py`` for the fields)."""
    images, config = image_data.load(config)
    checks.check(config)
    train, extractor = images.train, extractor_name(config)
    images = images._replace(about=(*images.about, *ABOUT.get(extractor, ())))
    networks, init = parts.model_of(config, train.images.shape[1:])
    chains = parts.chains(config, train)
    powers = latent.power_schedule(config.loss.num_intervals, config.loss.exponent)
    gradient_fn = parts.gradient_fn(config, networks, chains, powers)
    examples = parts.Examples(train, jnp.arange(len(train.images)))
    numbers = numbers_of({"model": networks, "chains": chains})
    numbers["loss_fn"] = {"energy_l2": config.loss.energy_l2}
    numbers["optimizer"] = {name: dict(config.optimizer[name]) for name in parts.PARTS}
    if config.loss.name != "vanilla":
        numbers["powers"] = powers

    params_key, carry = common.root_keys(config.seed)[0], ()
    if config.sampler.persistent:  # chains for every example and power
        start, num_examples = None, len(train.labels)
        if chains.posterior_start is not None:
            images_of = rescale_images(train)
            blocks = np.array_split(np.arange(num_examples), -(-num_examples // 1000))
            start = jnp.concatenate([chains.posterior_start(images_of[rows]) for rows in blocks])
        carry = init_latent_carry(
            jax.random.fold_in(params_key, 2),  # the networks' keys use 0 and 1
            num_shards=config.mesh.num_shards,
            batch_size=config.train.batch_size,
            num_examples=num_examples,
            num_powers=2 if config.loss.name == "vanilla" else config.loss.num_intervals + 1,
            latent_dim=config.model.latent_dim,
            num_chains=config.loss.chains_per_observation,
            posterior_start=start,
            exchange=bool(chains.exchange_every),
            placed_powers=powers if config.sampler.get("place_powers") else None,
        )
    model = LatentEBM(
        train=train,
        distances=make_distances(config, extractor, train, images.monitored),
        config=config,
        networks=networks,
        chains=chains,
        powers=powers,
        gradient_fn=gradient_fn,
        examples=examples,
    )
    return common.assemble(
        model,
        workdir,
        images,
        plan=common.plan(config, len(train.images)),
        data=examples,
        params=init(params_key),
        carry=carry,
        optimizer=partial(
            parts.make_optimizer, config, len(train.images) // config.train.batch_size
        ),
        numbers=numbers,
        gradient_fn=gradient_fn,
        draw=partial(draw, workdir, np.asarray(powers)),
        kept=("prior", "posterior") if config.sampler.persistent else (),
        gradient_metrics_fn=over_coordinates,
    )


def draw(workdir: Path, powers: np.ndarray, rows: list[dict[str, Any]]) -> None:
    """Draws samples over training and mean log likelihoods; adds a number to ``rows``."""
    plots, strips = workdir / "plots", {}
    for path in snapshots(workdir):
        arrays = read_arrays(path, "samples")
        if "samples" in arrays:
            strips[str(int(path.stem))] = arrays["samples"][:SHOWN]
    if strips:
        size, title = (7, 0.75 * len(strips) + 0.6), "samples of the prior chains"
        with figure(plots / "samples_over_training.png", size=size) as ((axes,),):
            tiles(axes, np.concatenate([*strips.values()]), SHOWN, title, [*strips])
            axes.set_ylabel("step")
    steps, values = column(rows, "test_mean_log_likelihoods")
    with figure(plots / "mean_log_likelihood.png", size=(5.5, 3.6)) as grid:
        colour = step_colours(grid, max(steps, default=0))
        for step, along in zip(steps, values, strict=True):
            grid[0, 0].plot(powers, along, "o-", color=colour(step))
        grid[0, 0].set(xlabel="power t", ylabel="E_t [log p(x|z)] of test images, nats")
    for row in rows:
        if "posterior_acceptance" in row:
            row["posterior, t = 1"] = np.ravel(row["posterior_acceptance"])[-1]
