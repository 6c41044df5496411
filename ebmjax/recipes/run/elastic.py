"""Supervises one machine's process of an elastic run: the survivors of a dead one go on.

JAX cannot lose a process and continue. So every machine has a supervisor, without JAX, that starts
the run's process again, each time as one of a new round. Supervisors talk by files in a folder
that all see: ``<id>.json``, whose count rises while its supervisor lives, and ``round<n>.json``.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from ebmjax._phases import say
from ebmjax._records import list_steps, read_json
from ebmjax.recipes.__main__ import STOPS_WITH_STDIN
from ebmjax.recipes.config.errors import FAILED, REFUSED
from ebmjax.recipes.folder.workdir import write_whole

BEAT_SECONDS = 1.0
DEAD_BEATS = 15
"""Beats without a sign of life after which a supervisor counts as dead."""
JOIN_BEATS = 300
"""Beats for which the first round waits for supervisors that have not come yet."""
END_BEATS = 60
"""Beats that a process has to end by itself after another of its round has; JAX needs 30 s."""
MAX_BARREN = 5
"""Rounds in a row without a checkpoint, after which a run is given up."""


class Supervisor:
    """Keeps one process of a run going.

    Args:
      command: starts the process; the three flags of ``processes.NAMES`` are added.
      workdir: folder of the run, which all machines see; the files lie in ``<workdir>.elastic``.
      me: number of this machine, from 0 on.
      total: number of machines at the start.
      num_shards: the number of processes divides it.
      host: name of this machine for the others.
      beat: seconds between two looks.
    """

    def __init__(
        self,
        command: Sequence[str],
        workdir: Path,
        me: int,
        total: int,
        num_shards: int,
        host: str,
        beat: float = BEAT_SECONDS,
    ):
        self.command, self.workdir, self.me, self.total = command, workdir, me, total
        self.num_shards, self.host, self.beat = num_shards, host, beat
        self.folder = workdir.with_name(f"{workdir.name}.elastic")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.child: subprocess.Popen[bytes] | None = None
        self.signum, self.ended, self.count, self.alone = 0, -1, 0, 0
        self.first = self.round = self._newest()
        self.seen: dict[int, int] = {}  # the count at which another one last changed
        self.others: dict[int, dict[str, Any]] = {}

    def supervise(self) -> int:
        """Returns the exit code of the run, or of a signal to this machine."""
        handlers = {one: signal.signal(one, self._stop) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            while self.ended < 0:
                self._say_alive()
                self._look()
                (self._watch if self.child else self._wait)()
                time.sleep(self.beat)
        finally:
            if self.child:
                self.child.kill()
            for one, handler in handlers.items():
                signal.signal(one, handler)
        self._say_alive()
        return self.ended

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        del frame
        self.signum = signum
        if self.child:
            self.child.terminate()

    def _watch(self) -> None:
        """Looks whether the process has ended, or is left alone by the others of its round."""
        assert self.child is not None
        code = self.child.poll()
        if code is None:
            members = [one for one in self._read_round(self.round)["members"] if one in self.seen]
            is_alone = any(self._is_dead(one) or self._is_waiting(one) for one in members)
            self.alone = self.alone + 1 if is_alone else 0
            if self._newest() > self.round or self.alone > END_BEATS:
                self.child.kill()
            return
        self.child.communicate()  # closes its stdin
        self.child, self.alone = None, 0
        if self.signum:
            self.ended = 128 + self.signum
        elif code == 0 or (code == REFUSED and self.round == self.first + 1):
            self.ended = code  # later it may be that the last process of a dead machine still ends

    def _wait(self) -> None:
        """Starts the process if a round has begun; begins one if that is this machine's task."""
        ends = {one["ended"] for one in self.others.values() if one["round"] > self.first}
        ends &= {0, REFUSED, FAILED}
        if self.signum or ends:
            self.ended = 128 + self.signum if self.signum else max(ends)
        elif (newest := self._newest()) > self.round:
            self.round = newest
            found = self._read_round(newest)
            if self.me in found["members"]:
                self._start(found)
        else:
            here = sorted([self.me, *filter(self._is_there, self.others)])
            absent = {*range(self.total)} - {*here, *self.seen}
            waiting = [one for one in here if one == self.me or self._is_waiting(one)]
            is_settled = waiting == here and (not absent or self.count > JOIN_BEATS)
            if is_settled and here[0] == self.me:
                self._begin_round(here)

    def _begin_round(self, here: Sequence[int]) -> None:
        number = max(n for n in range(1, len(here) + 1) if self.num_shards % n == 0)
        before = self._read_round(self.round)
        step = max(list_steps(self.workdir / "checkpoints"), default=-1)
        is_barren = step == before.get("step", -2) and self.round > self.first
        barren = before.get("barren", 0) + 1 if is_barren else 0
        if barren > MAX_BARREN:
            self.ended = FAILED
            say(f"{barren} rounds in a row saved nothing: given up.", "stderr")
            return
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        found = {"members": list(here[:number]), "address": f"{self.host}:{port}"}
        found |= {"step": step, "barren": barren}
        temporary = self.folder / f"{self.me}.tmp"
        temporary.write_text(json.dumps(found))
        with contextlib.suppress(FileExistsError):  # of one that took this one for dead
            os.link(temporary, self.folder / f"round{self.round + 1}.json")
        temporary.unlink()

    def _start(self, found: dict[str, Any]) -> None:
        members = found["members"]
        number, place = len(members), members.index(self.me)
        where = f"from step {found['step']}" if found["step"] >= 0 else "from the start"
        say(f"round {self.round}: process {place} of {number}, {where}", "stderr")
        flags = [
            f"--coordinator_address={found['address']}",
            f"--num_processes={number}",
            f"--process_id={place}",
        ]
        self.child = subprocess.Popen(
            [*self.command, *flags],
            stdin=subprocess.PIPE,  # which closes with this process, however that ends
            env=os.environ | {STOPS_WITH_STDIN: "1"},
            start_new_session=True,  # a Ctrl-C reaches it once, through this process
        )

    def _say_alive(self) -> None:
        self.count += 1
        mine = {"count": self.count, "process": os.getpid(), "round": self.round}
        mine |= {"is_running": self.child is not None, "ended": self.ended}
        write_whole(self.folder / f"{self.me}.json", json.dumps(mine))

    def _look(self) -> None:
        """Reads what the others say, and notes what is new."""
        for one in {*range(self.total)} - {self.me}:
            with contextlib.suppress(OSError, ValueError):
                found = read_json(self.folder / f"{one}.json")
                if found != self.others.get(one, found):  # the first may be of an earlier time
                    self.seen[one] = self.count
                self.others[one] = found

    def _is_dead(self, one: int) -> bool:
        return self.count - self.seen[one] > DEAD_BEATS

    def _is_there(self, one: int) -> bool:
        return one in self.seen and not self._is_dead(one) and self.others[one]["ended"] < 0

    def _is_waiting(self, one: int) -> bool:
        return not self.others[one]["is_running"] and self.others[one]["round"] == self.round

    def _newest(self) -> int:
        names = (path.stem.removeprefix("round") for path in self.folder.glob("round*.json"))
        return max(map(int, names), default=0)

    def _read_round(self, number: int) -> dict[str, Any]:
        path = self.folder / f"round{number}.json"
        return read_json(path) if path.exists() else {"members": []}


def host_of(asked: dict[str, Any]) -> str:
    """Returns the name by which other machines reach this one, by ``processes.read_request``."""
    host = asked["coordinator_address"].rpartition(":")[0]
    if asked["process_id"] == 0:
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:  # nothing is sent
        way.connect((host, 1))
        return way.getsockname()[0]
