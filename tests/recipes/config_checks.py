"""Fields of a configuration file, by dotted name."""

import importlib

from ebmjax.recipes.config.errors import flatten


def fields(file):
    name, _, variant = file.partition(":")
    module = importlib.import_module(f"experiments.configs.{name}")
    return flatten(module.get_config(variant).to_dict())


def chosen(file, names):
    found = fields(file)
    return {name: found[name] for name in names}
