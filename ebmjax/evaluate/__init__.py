"""The numbers of a run's evaluation, for your own loop: functions and arrays in, dictionaries out.

Names are those of ``evaluation.json``. Images are uint8 (N, H, W, C), as ``ImageData`` holds them.
Your functions of images see float32 (N, H, W, C) in [-1, 1]. They are traced at every call; new
parameters of the same shapes compile nothing again.
"""

from ebmjax.evaluate._baselines import fit_baselines as fit_baselines
from ebmjax.evaluate._characters import characters as characters
from ebmjax.evaluate._classifier import LogitsFn as LogitsFn
from ebmjax.evaluate._classifier import classifier as classifier
from ebmjax.evaluate._classifier import scores as scores
from ebmjax.evaluate._distances import Distances as Distances
from ebmjax.evaluate._distances import Scores as Scores
from ebmjax.evaluate._evidence import evidence as evidence
from ebmjax.evaluate._extractors import Extractor as Extractor
from ebmjax.evaluate._extractors import digits_features as digits_features
from ebmjax.evaluate._extractors import inception as inception
from ebmjax.evaluate._extractors import own_classifier as own_classifier
from ebmjax.evaluate._extractors import own_extractor as own_extractor
from ebmjax.evaluate._extractors import random_features as random_features
from ebmjax.evaluate._generation import Chains as Chains
from ebmjax.evaluate._generation import along_training as along_training
from ebmjax.evaluate._generation import finite_images as finite_images
from ebmjax.evaluate._generation import generation as generation
from ebmjax.evaluate._grid import Grid as Grid
from ebmjax.evaluate._nats import Normalised as Normalised
from ebmjax.evaluate._nats import normalise as normalise
from ebmjax.evaluate._out_of_distribution import ood_sets as ood_sets
from ebmjax.evaluate._out_of_distribution import out_of_distribution as out_of_distribution
from ebmjax.evaluate._robustness import robustness as robustness
