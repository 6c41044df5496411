"""One error for optional packages that are not installed."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needs_experiments(function: str, package: str) -> Iterator[None]:
    """Turns a failed import into an error that says which extra installs the package.

    Put only the import in the ``with`` block.

    Args:
      function: the public function that needs the package, for the message.
      package: the name that pip installs it by.

    Raises:
      ImportError: if the block raises one.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{function} needs {package}, which cannot be imported ({error}). Install the extra: "
            'pip install "ebmjax[experiments]"',
            name=error.name,
        ) from error
