"""Makes the weights of the packaged digits' feature extractor, which ship with the package.

    python experiments/digits_features.py --out=FOLDER

writes digits_8.npz and digits_16.npz, in about three minutes on two cores. The files that ship were
made once: another machine rounds differently, and other weights are another extractor.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict

from ebmjax import data, networks
from ebmjax.recipes.__main__ import make_parser
from ebmjax.types import Key, PyTree

SIDES, NUM_CLASSES = (8, 16), 10
STEPS, BATCH_SIZE = 2000, 64
LEARNING_RATE, WEIGHT_DECAY, NOISE = 2e-3, 1e-3, 0.1


def make(side: int, num_steps: int = STEPS) -> dict[str, np.ndarray]:
    """Returns tensors by their names: float16 weights of a classifier, and its "test_accuracy".

    It sees the 1,440 training images shifted by up to an eighth of their side, with a little noise.
    Features then differ less between training and test images.
    """
    train, test = (data.load_images("digits", s, image_size=side).data for s in ("train", "test"))
    network = networks.WideResNet(10, 1, NUM_CLASSES)
    images, labels = data.to_signed_unit(jnp.asarray(train.images)), jnp.asarray(train.labels)
    schedule = optax.cosine_decay_schedule(LEARNING_RATE, num_steps)
    optimizer = optax.adamw(schedule, weight_decay=WEIGHT_DECAY)

    def step(carry: tuple[PyTree, Any], key: Key) -> tuple[tuple[PyTree, Any], None]:
        params, state = carry
        index_key, crop_key, noise_key = jax.random.split(key, 3)
        index = jax.random.choice(index_key, len(images), (BATCH_SIZE,), replace=False)
        x = data.reflect_pad_crop(crop_key, images[index], padding=side // 8)
        x = data.add_gaussian_noise(noise_key, x, scale=NOISE)

        def loss_fn(params: PyTree) -> jax.Array:
            logits: Any = network.apply({"params": params}, x)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels[index]).mean()

        updates, state = optimizer.update(jax.grad(loss_fn)(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    params = network.init(jax.random.key(0), images[:2])["params"]
    keys = jax.random.split(jax.random.key(1), num_steps)
    (params, _), _ = jax.jit(lambda c, k: jax.lax.scan(step, c, k))(
        (params, optimizer.init(params)), keys
    )
    kept = jax.tree.map(lambda leaf: np.asarray(leaf, np.float16), jax.device_get(params))
    used = jax.tree.map(np.float32, kept)
    logits: Any = network.apply({"params": used}, data.to_signed_unit(jnp.asarray(test.images)))
    accuracy = np.mean(np.argmax(np.asarray(logits), axis=1) == test.labels)
    tensors: dict[str, Any] = dict(flatten_dict(kept, sep="/"))
    return {**tensors, "test_accuracy": np.asarray(accuracy)}


def main() -> None:
    """Trains the extractors of both sides and writes them to the folder of the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the files")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        tensors = make(side)
        np.savez(out / f"digits_{side}.npz", allow_pickle=False, **tensors)
        print(f"{out}/digits_{side}.npz: test accuracy {tensors['test_accuracy']:.4f}", flush=True)


if __name__ == "__main__":
    main()
