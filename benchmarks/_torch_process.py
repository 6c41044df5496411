"""A process of another Python, with PyTorch, that answers lines of text."""

import json
import subprocess
from pathlib import Path
from typing import Any


class TorchProcess:
    """Runs ``_torch.py`` by ``python``, which has PyTorch.

    Attributes:
      about: the first line that the script prints, read as JSON: versions and threads.
    """

    def __init__(self, python: Path):
        script = Path(__file__).resolve().with_name("_torch.py")
        self._process = subprocess.Popen(
            [python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.about = self._read()

    def ask(self, work: str, **asked: Any) -> Any:
        """Returns the script's answer: seconds, or a dict for the work "load"."""
        print(json.dumps({"work": work, **asked}), file=self._process.stdin, flush=True)
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
