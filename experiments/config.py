"""The type of a configuration."""

from typing import Any

Config = Any
"""An ``ml_collections.ConfigDict``; its fields are beyond the sight of type checkers."""
