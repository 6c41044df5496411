"""Log evidence of test images under a latent EBM."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, evaluate, latent
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.image_model import floats
from ebmjax.recipes.evaluators.latent.keys import keys_of
from ebmjax.types import Key


@dataclass(frozen=True)
class Evidence(Evaluator):
    """Log evidence by the run's powers; after training by other methods, too.

    It uses ``model.evidence``, and of a finished model ``model.networks``. The methods are those of
    ``evaluate.evidence``.
    """

    num_images: int = 32
    num_chains: int = 64
    divergences: bool = True
    methods: tuple[str, ...] = ("thermodynamic", "stepping_stone", "ais")
    num_intervals: int = 40
    num_steps: int = 10
    step_size: float = 0.02

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns means over the images; "evidence" has each method's, and those of each image."""
        keys, images = keys_of(key), test.images[: self.num_images]
        of_each = evidence_of_each(
            keys.evidence, model, images, num_chains=self.num_chains, divergences=self.divergences
        )
        row = {name: float(values.mean()) for name, values in of_each.items()}
        if not (model.is_finished and self.methods):
            return Found(row, row)
        say_part(f"evidence of {len(images):,} images by {', '.join(self.methods)}")
        found = evaluate.evidence(
            keys.methods,
            model.params,
            model.networks,
            images,
            latent_dim=model.chains.latent_dim,
            methods=self.methods,
            num_chains=self.num_chains,
            num_intervals=self.num_intervals,
            num_steps=self.num_steps,
            step_size=self.step_size,
            with_divergences=self.divergences,
        )
        per_image = {f"evidence.{k}.mean": {"test": v["log_evidence"]} for k, v in found.items()}
        report = jax.tree.map(lambda values: np.asarray(values).tolist(), found)
        return Found({**row, "evidence": report}, row, per_image=per_image)


def evidence_of_each(
    key: Key, model: Any, images: Any, *, num_chains: int, divergences: bool
) -> dict[str, np.ndarray]:
    """Returns the log evidence of every image, each with separate chains and Gaussians.

    The correction has weight 1 and full covariances, whatever the objective does, so that runs are
    comparable.

    Args:
      key: of the chains.
      model: a latent EBM.
      images: uint8 (N, H, W, C).
      num_chains: chains of an image, at each of the model's powers.
      divergences: whether the trapezium rule is corrected.

    Returns:
      Nats, (N,): "test_trapezium_log_evidence"; with divergences also "test_log_evidence", and
      "quadrature_discrepancy", the error of the trapezium rule on these powers.
    """

    def of_one(params: Any, key: Key, x: jax.Array) -> dict[str, jax.Array]:
        observations = jnp.repeat(x[None], num_chains, axis=0)
        nodes = model.draw_ladder(key, params, observations)
        of_chain = jax.vmap(lambda z: latent.log_likelihood(params, model.networks, z, x))
        energies = jax.vmap(of_chain)(nodes).mean(axis=1)
        row = {"test_trapezium_log_evidence": latent.log_evidence(energies, model.powers)}
        if not divergences:
            return row
        forward, backward = latent.fitted_divergences(nodes)
        corrected = latent.log_evidence(
            energies, model.powers, kl_forward=forward, kl_backward=backward
        )
        discrepancy = 0.5 * jnp.sum(forward - backward)
        return row | {"test_log_evidence": corrected, "quadrature_discrepancy": discrepancy}

    def of_all(params: Any, keys: Key, images: jax.Array) -> dict[str, jax.Array]:
        return map_groups(lambda pair: of_one(params, *pair), (keys, images))

    keys = jax.random.split(key, len(images))
    program = model.program(("evidence", num_chains, divergences), lambda: jax.jit(of_all))
    return jax.device_get(program(model.params, keys, floats(images)))
