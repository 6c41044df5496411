"""Another Python with PyTorch, ebmkit and torchebm, made once, and a process that it runs."""

import contextlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

PACKAGES = ("torch==2.13.0", "numpy", "ebmkit==0.16.0", "torchebm==0.8.9")
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"  # a tenth of the size of those for GPUs
SCRIPT = Path(__file__).resolve().with_name("_torch.py")


class PeersUnavailableError(Exception):
    """The environment of the other libraries cannot be made; the message says why."""


def environment() -> Path:
    """Returns the folder of the peers' environment: ``EBMJAX_PEERS``, or one in the cache."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    return Path(os.environ.get("EBMJAX_PEERS", cache_home / "ebmjax" / "peers")).expanduser()


@cache
def make(folder: Path) -> str:
    """Makes the environment if it is not there; returns why it cannot be made, or nothing."""
    if (folder / "made").exists():
        return ""
    say = f"Makes an environment with {', '.join(PACKAGES)} in {folder}: once, some minutes."
    print(say, file=sys.stderr, flush=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--retries=1"]
    pip.append(f"--extra-index-url={CPU_WHEELS}")
    for command in ([sys.executable, "-m", "venv", "--clear", folder], [*pip, *PACKAGES]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip() or done.stdout.strip() or "no reason").splitlines()[-1]
    (folder / "made").touch()
    return ""


def python() -> Path:
    """Returns the peers' Python; raises PeersUnavailableError if it cannot be made."""
    folder = environment()
    if reason := make(folder):
        raise PeersUnavailableError(f"no environment in {folder}: {reason}")
    return folder / "bin" / "python"


class TorchProcess:
    """A process of the peers' Python that runs ``_torch.py``, and answers lines of JSON.

    Attributes:
      about: versions, and the number of threads.
    """

    def __init__(self, num_threads: int):
        threads = {"OMP_NUM_THREADS": str(num_threads), "MKL_NUM_THREADS": str(num_threads)}
        self._process = subprocess.Popen(
            [python(), SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **threads},
            text=True,
        )
        self.about = self._read()

    def ask(self, work: str, **asked: Any) -> Any:
        """Returns the script's answer; raises PeersUnavailableError if it cannot do the work."""
        with contextlib.suppress(BrokenPipeError):  # of a process that has ended
            print(json.dumps({"work": work, **asked}), file=self._process.stdin, flush=True)
        return self._read()

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended"}
        if isinstance(answer, dict) and "error" in answer:
            raise PeersUnavailableError(answer["error"])
        return answer
