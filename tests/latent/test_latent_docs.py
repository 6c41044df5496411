"""The examples in the docstrings of ebmjax.latent and in its page run and say what they print."""

import doctest
import importlib
from pathlib import Path

import pytest

import ebmjax.latent

ROOM = Path(ebmjax.latent.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "docs" / "latent.md"


@pytest.mark.parametrize("name", sorted(path.stem for path in ROOM.glob("_[a-z]*.py")))
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(f"ebmjax.latent.{name}")).failed == 0


def test_page_examples():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0
