"""Log evidence of test images under a latent EBM."""

from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import evaluate, latent
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax._ranges import COUNT, EIGHTS, one_of
from ebmjax.data import ImageData, to_signed_unit
from ebmjax.recipes.evaluators import Found
from ebmjax.types import Key

METHODS = ("thermodynamic", "stepping_stone", "ais")


USES = ("samples", "powers", "evidence", "gradients", "generated", "methods", "cost")


def keys_of(key: Key) -> dict[str, Key]:
    """Returns the keys that a latent EBM's evaluators make of an evaluation's key, by ``USES``."""
    distances, *others = jax.random.split(jax.random.fold_in(key, 4), 3)
    keys = (*jax.random.split(key, 4), jax.random.split(distances)[0], *others)
    return dict(zip(USES, keys, strict=True))


def evidence(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, COUNT] = 32,
    num_chains: Annotated[int, EIGHTS] = 64,
    methods: Annotated[Sequence[str], one_of(*METHODS, "smc")] = METHODS,
    **options: Any,
) -> Found:
    """Returns mean log evidence by the run's powers; after training by other methods, too.

    "evidence" has each method's, and those of each image. ``options`` are those of
    ``evaluate.evidence``.

    Args:
      num_images: images whose log evidence is estimated
      num_chains: chains of an image; from 3 for each latent dimension on they give divergences
      methods: methods that are compared after training; empty: none
    """
    keys, images = keys_of(key), data.images[:num_images]
    of_each = evidence_of_each(keys["evidence"], model, images, num_chains=num_chains)
    row = {name: float(values.mean()) for name, values in of_each.items()}
    if not (model.is_finished and methods):
        return Found(row)
    say_part(f"evidence of {len(images):,} images by {', '.join(methods)}")
    found = evaluate.evidence(
        keys["methods"],
        model.params,
        model.networks,
        images,
        latent_dim=model.chains.latent_dim,
        methods=methods,
        num_chains=num_chains,
        with_divergences="test_log_evidence" in row,
        **options,
    )
    per_image = {f"evidence.{k}.mean": {"test": v["log_evidence"]} for k, v in found.items()}
    report = jax.tree.map(lambda values: np.asarray(values).tolist(), found)
    return Found({**row, "evidence": report}, row, per_image=per_image)


def evidence_of_each(key: Key, model: Any, images: Any, *, num_chains: int) -> dict[str, Any]:
    """Returns the log evidence of every image, each with separate chains and Gaussians.

    The correction has weight 1 and full covariances, whatever the objective does, so that runs are
    comparable. It takes 3 chains for each latent dimension: d + 3 would be free of bias, with a
    spread of tens of nats (docs/evidence.md).

    Args:
      key: of the chains.
      model: a latent EBM.
      images: uint8 (N, H, W, C).
      num_chains: chains of an image, at each of the model's powers.

    Returns:
      Nats, (N,): "test_trapezium_log_evidence"; with chains enough also "test_log_evidence".
    """

    def of_one(params: Any, key: Key, x: jax.Array) -> dict[str, jax.Array]:
        observations = jnp.repeat(x[None], num_chains, axis=0)
        nodes = model.draw_ladder(key, params, observations)
        of_chain = jax.vmap(lambda z: latent.log_likelihood(params, model.networks, z, x))
        energies = jax.vmap(of_chain)(nodes).mean(axis=1)
        row = {"test_trapezium_log_evidence": latent.log_evidence(energies, model.powers)}
        if num_chains >= 3 * model.chains.latent_dim:
            forward, backward = latent.fitted_divergences(nodes)
            kl = {"kl_forward": forward, "kl_backward": backward}
            row["test_log_evidence"] = latent.log_evidence(energies, model.powers, **kl)
        return row

    @jax.jit
    def of_all(params: Any, keys: Key, images: jax.Array) -> dict[str, jax.Array]:
        return map_groups(lambda pair: of_one(params, *pair), (keys, images))

    program = model.program(("evidence", num_chains), lambda: of_all)
    keys = jax.random.split(key, len(images))
    return jax.device_get(program(model.params, keys, to_signed_unit(jnp.asarray(images))))
