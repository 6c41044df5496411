"""Recognises the names of splits, in any case and in the usual words."""

import re
from collections.abc import Iterable

TRAIN = "train"
WORDS = {
    TRAIN: ("train", "training"),
    "test": ("test", "testing"),
    "validation": ("validation", "valid", "val", "dev"),
    "eval": ("eval", "evaluation"),
}
"""Words that name a split. Case does not count."""

NAMES = ", ".join(word for words in WORDS.values() for word in words)
WITHIN = re.compile(rf"(?<![a-z])({NAMES.replace(', ', '|')})(set|data|images?|split)?(?![a-z])")


class MissingSplitError(ValueError):
    """A data set exists, but has no such split.

    Attributes:
      others: splits that it has, without the training images.
    """

    def __init__(self, message: str, splits: Iterable[str] = ()):
        super().__init__(message)
        self.others = sorted(name for name in splits if not is_alike(name, TRAIN))


def is_split(name: str) -> bool:
    """Returns whether ``name`` is a word that names a split."""
    return _meaning(name) in WORDS


def is_alike(name: str, split: str) -> bool:
    """Returns whether two names mean the same split."""
    return _meaning(name) == _meaning(split)


def find_split(names: Iterable[str], split: str, where: object) -> str:
    """Returns which of ``names`` means ``split``.

    Args:
      names: splits that there are.
      split: the one that is asked for.
      where: data set, for messages.

    Raises:
      MissingSplitError: if none does.
      ValueError: if several do.
    """
    names = sorted(set(names))
    found = [name for name in names if is_alike(name, split)]
    if not found:
        raise MissingSplitError(f"{where} has the splits {names}, and no {split!r}.", names)
    if len(found) > 1 and (split == TRAIN or split not in found):
        raise ValueError(f"{where} must have one split {split!r}, got {found}. Rename all but one.")
    return split if split in found else found[0]


def look_like_splits(names: Iterable[str]) -> list[str]:
    """Returns the names that hold the word of a split, as "train_set" and "val2017" do.

    It returns none unless training images and others are among them: a class may be a "test tube".
    """
    held = {name: match[1] for name in names if (match := WITHIN.search(name.lower()))}
    is_train = {word in WORDS[TRAIN] for word in held.values()}
    return sorted(held) if len(is_train) == 2 else []


def _meaning(name: str) -> str:
    word = name.lower()
    return next((meaning for meaning, words in WORDS.items() if word in words), word)
