"""Recipes: from a configuration to a finished run. They need the extra ``experiments``."""
