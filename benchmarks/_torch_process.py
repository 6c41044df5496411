"""A process of another Python, with PyTorch, that answers lines of text."""

import json
import subprocess
from pathlib import Path
from typing import Any


class TorchProcess:
    """Runs a script beside this one by ``python``, which has PyTorch.

    Attributes:
      about: the first line that the script prints, read as JSON.
    """

    def __init__(self, python: Path, script: str, *arguments: str | Path):
        path = Path(__file__).resolve().with_name(script)
        self._process = subprocess.Popen(
            [python, path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.about = self._read()

    def ask(self, line: str) -> Any:
        """Returns the script's answer to ``line``, read as JSON."""
        print(line, file=self._process.stdin, flush=True)
        return self._read()

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise SystemExit("The process of --torch_python ended; what it printed says why.")
        return json.loads(line)
