"""Which features judge a run's samples."""

import numpy as np
import pytest

from ebmjax import evaluate
from ebmjax.data import ImageData
from ebmjax.recipes.config import families
from ebmjax.recipes.evaluators.evaluations import make_distances
from ebmjax.recipes.parts import image_data
from experiments.configs import jem_digits

OWN = "ebmjax.data.load_digits:any"  # a name of data other than the packaged digits


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "digits_features"),
        ({"data.image_size": 16, "data.num_classes": None}, "digits_features"),
        ({"data.holdout": 20, "data.max_train": 100}, "digits_features"),
        ({"data.num_classes": 0}, "digits_features"),
        ({"data.image_size": 12}, "classifier_features"),
        ({"data.name": OWN, "data.num_classes": 5}, "classifier_features"),
        ({"data.name": OWN, "data.num_classes": 4}, "random_features"),
        ({"data.name": OWN, "data.num_classes": 0}, "random_features"),
        ({"data.name": OWN, "data.num_classes": None}, "classifier_features_or_random_features"),
        ({"evals.inception_weights": "weights.npz"}, "inception_v3"),
    ],
)
def test_the_data_decide_the_features(fields, name, monkeypatch):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict(fields)
    assert families.extractor_name(config) == name
    if name == families.OPEN:
        return  # the images say how many classes there are, and then it is one of the two
    monkeypatch.setattr(
        evaluate, "inception", lambda *_: evaluate.Extractor("inception_v3", lambda _: _, {})
    )
    images = ImageData(np.zeros((2, 8, 8, 1), np.uint8), np.zeros(2, np.int32))
    assert make_distances(config, name, images, images).extractor.name == name


def test_labels_that_are_not_used_are_no_classes_of_scores():
    """The Gaussian of the reference is then one, and test images are the first ones."""
    config = jem_digits.get_config("smoke")
    config.data.num_classes = 0
    images, _ = image_data.load(config)
    assert not any(split.labels.any() for split in images[:3])
