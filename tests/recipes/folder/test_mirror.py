"""A mirror has one whole moment of a run's folder, wherever a copy was cut off."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial

import fsspec
import pytest
from experiment_runs import RUN, contents, launch, rows_of, summary_of, wait_until
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import known_implementations
from linear_family import LINEAR, NAME, hold, linear

from ebmjax._records import json_digest, list_steps
from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.folder import mirror, workdir
from ebmjax.recipes.folder.mirror import Mirror


class FrailFileSystem(MemoryFileSystem):
    """Fails or stands still, and keeps what a kill at any of its operations would leave."""

    protocol = "frail"
    store = {}  # noqa: RUF012 (as its parent)
    pseudo_dirs = [""]  # noqa: RUF012
    is_failing, may_go = False, threading.Event()
    past = []  # noqa: RUF012

    @classmethod
    def reset(cls, is_failing=False):
        cls.is_failing = is_failing
        cls.may_go.set()

    def _operate(self):
        self.may_go.wait()
        self.past.append({place: file.getvalue() for place, file in self.store.items()})
        if self.is_failing:
            raise OSError("no connection")

    def ls(self, path, detail=True, **options):
        self._operate()
        return super().ls(path, detail, **options)

    def pipe_file(self, path, value, **options):
        for size in (0, len(value) // 2, len(value)):
            super().pipe_file(path, value[:size])
            self._operate()

    def put_file(self, lpath, rpath, **options):
        with open(lpath, "rb") as file:
            self.pipe_file(rpath, file.read())

    def rm_file(self, path):
        self._operate()
        super().rm_file(path)


fsspec.register_implementation("frail", FrailFileSystem, clobber=True)


@pytest.fixture
def frail():
    """An empty file system that works."""
    FrailFileSystem.store.clear()
    FrailFileSystem.reset()
    yield FrailFileSystem
    FrailFileSystem.reset()


@pytest.fixture
def urls(tmp_path, frail):
    MemoryFileSystem.store.clear()
    return {"file": f"file://{tmp_path}/mirror", "memory": "memory://mirror", "frail": "frail://m"}


def save(folder, step):
    """Leaves what a run does at a save: of three checkpoints the newest, rows, and a picture."""
    if not folder.exists():
        workdir.prepare(folder, linear())
    for name, kept in (("checkpoints", 3), ("best", 1)):
        place = folder / name / str(step) / "state"
        place.mkdir(parents=True)
        (place / "array").write_text(f"{name} {step}" * 9)
        (place / "shape").write_text("(9,)")  # the same in all
        for old in list_steps(folder / name)[:-kept]:
            shutil.rmtree(folder / name / str(old))
    (folder / "checkpoints" / f"{step + 1}.orbax-checkpoint-tmp").mkdir()
    (folder / "metrics.jsonl").write_text("".join(f'{{"step": {i}}}\n' for i in range(step)))
    (folder / "plots" / "samples.png").write_text(f"picture {step}")


def copied(folder):
    """Name to bytes of what a mirror has of a folder."""
    found = contents(folder)
    return {name: text for name, text in found.items() if text is not None and "tmp" not in name}


def fetched(url, folder):
    Mirror(url, folder).fetch(linear())
    return copied(folder)


@pytest.mark.slow
def test_200_kills_lose_nothing(frail, tmp_path):
    """At every operation of nine saves: the newest whole moment is there, and can go on."""
    writer, moments, left = Mirror("frail://m", tmp_path / "first"), [{}], []
    writer.fetch(linear())
    writer.take_over()
    for step in range(1, 10):
        save(tmp_path / "first", step)
        moments.append(copied(tmp_path / "first"))
        frail.past.clear()
        writer.copy()
        left += [(step - 1, store) for store in frail.past]
    assert len(left) == 207
    for number, (num_whole, store) in enumerate(left):
        frail.store.clear()
        for place, text in store.items():
            MemoryFileSystem.pipe_file(frail(), place, text)
        here = tmp_path / f"{number}"
        found = fetched("frail://m", here / "second")
        assert found in moments[num_whole : num_whole + 2]  # this one may have come through, too

        after = Mirror("frail://m", here / "second")
        after.fetch(linear())
        after.take_over()
        save(here / "second", 30)
        after.copy()
        assert fetched("frail://m", here / "third") == copied(here / "second")
        files = {place for place in frail.store if "/files/" in place}
        assert len(files) == len(set(copied(here / "second").values()))  # no others are left
        shutil.rmtree(here)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_run_goes_on_from_its_mirror_to_the_same_bits(kind, urls, tmp_path, finished):
    """On a machine whose disk is empty; interrupted by a SIGTERM, as by a preemption."""
    held, first, second = (tmp_path / name for name in ("held", "first", "second"))
    held.mkdir()
    hold(held, 4)
    config = linear(**{"data.path": str(held)})

    def interrupt():
        wait_until((first / "plots" / "weight_000004.txt").exists)
        os.kill(os.getpid(), signal.SIGTERM)
        (held / "hold").unlink()

    threading.Thread(target=interrupt).start()
    assert launch(config, NAME, str(first), mirror=urls[kind]) == signal.SIGTERM
    left = copied(first)
    shutil.rmtree(first)
    assert launch(config, NAME, str(second), mirror=urls[kind]) is None
    assert left["config.json"] == copied(second)["config.json"]
    assert rows_of(second) == rows_of(finished)
    assert summary_of(second)["params_sha256"] == summary_of(finished)["params_sha256"]
    assert fetched(urls[kind], tmp_path / "third") == copied(second)
    assert not list(tmp_path.rglob("*.tmp"))


def is_mirrored(mirror, name):
    with contextlib.suppress(FileNotFoundError):  # another manifest has taken its place
        return any(name in path.read_text() for path in mirror.glob("manifests/*"))
    return False


@pytest.mark.slow
def test_machines_that_are_killed_take_nothing_with_them(tmp_path):
    """kill -9 and an empty disk, twice."""
    workdir, whole, held = (tmp_path / name for name in ("run", "whole", "held"))
    held.mkdir()
    assert launch(linear("long"), NAME, str(whole)) is None
    command = [sys.executable, str(RUN), f"--config={LINEAR}:long", f"--config.data.path={held}"]
    command += [f"--workdir={workdir}", f"--mirror={tmp_path / 'mirror'}"]
    for step in (40, 80):
        hold(held, step)
        process = subprocess.Popen(command)
        wait_until((workdir / "plots" / f"weight_{step:06d}.txt").exists)
        wait_until(partial(is_mirrored, tmp_path / "mirror", f"checkpoints/{step - 10}/"))
        process.kill()
        process.wait()
        shutil.rmtree(workdir)
    (held / "hold").unlink()
    assert subprocess.run(command).returncode == 0
    assert rows_of(workdir) == rows_of(whole)
    assert summary_of(workdir)["params_sha256"] == summary_of(whole)["params_sha256"]


def test_a_mirror_that_stands_still_does_not_stop_the_run(frail, tmp_path):
    folder, options = tmp_path / "run", {"mirror": "frail://m"}
    run = threading.Thread(target=launch, args=(linear(), NAME, str(folder)), kwargs=options)
    started = threading.Event()

    def begin(self):
        take_over(self)
        frail.may_go.clear()
        started.set()

    take_over = Mirror.take_over
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mirror, "take_over", begin)
        run.start()
        wait_until((folder / "summary.json").exists)
    assert started.is_set()
    assert run.is_alive()
    assert not any("/files/" in place for place in frail.store)
    frail.reset()
    run.join()
    assert fetched("frail://m", tmp_path / "other") == copied(folder)


def test_a_mirror_that_fails_is_said_and_made_up_for(frail, tmp_path, caplog, monkeypatch):
    take_over = Mirror.take_over

    def break_after(self):
        take_over(self)
        frail.reset(is_failing=True)

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "take_over", break_after)
        patch.setattr(mirror, "POLL_SECONDS", 0.01)
        assert launch(linear(), NAME, str(run), mirror="frail://m") is None
    first, last = (one.getMessage() for one in caplog.records if "frail:" in one.getMessage())
    assert first.startswith("--mirror=frail://m could not be written: no connection. The run goes")
    expected = "not mirrored to frail://m: the checkpoints of the steps 6, 8, 10 and "
    assert last.startswith(expected)
    assert "(no connection)" in last
    assert not list(run.rglob("*.tmp"))
    frail.reset()
    assert launch(linear(), NAME, str(run), mirror="frail://m") is None
    assert fetched("frail://m", tmp_path / "other") == copied(run)


def test_a_mirror_that_cannot_be_opened_is_refused_before_anything(tmp_path, frail):
    absent = {"class": "absent_package.AbsentFileSystem", "err": "Install absent_package"}
    known_implementations["absent"] = absent
    for url, message in (
        ("absent://bucket/run", "cannot be opened: Install absent_package"),
        ("nowhere://bucket", "cannot be opened: Protocol not known: nowhere"),
        (f"file://{tmp_path}/run/mirror", "must not lie in the run's folder"),
    ):
        with pytest.raises(WorkdirError, match=message):
            launch(linear(), NAME, str(tmp_path / "run"), mirror=url)
    frail.reset(is_failing=True)
    with pytest.raises(WorkdirError, match="cannot be read: no connection"):
        launch(linear(), NAME, str(tmp_path / "run"), mirror="frail://m")
    assert not (tmp_path / "run").exists()


def test_a_mirror_of_another_run_or_of_a_later_one_is_refused(frail, tmp_path):
    for name, step in (("one", 2), ("two", 4)):
        save(tmp_path / name, step)
    writer = Mirror("frail://m", tmp_path / "two")
    writer.fetch(linear())
    writer.take_over()
    writer.copy()
    with pytest.raises(WorkdirError, match=r"--mirror=frail://m belongs to a run .* seed was 0"):
        Mirror("frail://m", tmp_path / "new").fetch(linear(seed=1))
    with pytest.raises(WorkdirError, match=r"holds step 4 of this run, .* only step 2"):
        Mirror("frail://m", tmp_path / "one").fetch(linear())
    (tmp_path / "one" / "recoveries.json").write_text("[]")  # it has gone back
    Mirror("frail://m", tmp_path / "one").fetch(linear())
    assert not (tmp_path / "new").exists()


def test_whoever_began_last_has_the_mirror(frail, tmp_path):
    """A new machine has it, while the old one is not quite dead."""
    writers = []
    for name in ("old", "new"):
        save(tmp_path / name, 2)
        writers.append(Mirror("frail://m", tmp_path / name))
        writers[-1].fetch(linear())
        writers[-1].take_over()
    with pytest.raises(WorkdirError, match="another process has begun to mirror"):
        writers[0].copy()
    writers[1].copy()
    assert fetched("frail://m", tmp_path / "other") == copied(tmp_path / "new")


def test_a_checkpoint_removed_meanwhile_is_copied_whole(frail, tmp_path, monkeypatch):
    """A slow copy has the files of the moment at which it began."""
    save(tmp_path / "run", 2)
    before = copied(tmp_path / "run")
    writer = Mirror("frail://m", tmp_path / "run")
    writer.take_over()
    hold_files = writer._hold

    def hold_and_train_on(part):
        try:
            return hold_files(part)
        finally:
            for step in range(3, 7):
                save(tmp_path / "run", step)

    monkeypatch.setattr(writer, "_hold", hold_and_train_on)
    writer.copy()
    assert fetched("frail://m", tmp_path / "other") == before


def test_a_folder_that_is_gone_empties_no_mirror(frail, tmp_path):
    save(tmp_path / "run", 2)
    writer = Mirror("frail://m", tmp_path / "run")
    writer.take_over()
    writer.copy()
    before = copied(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(OSError, match=r"has no config\.json"):
        writer.copy()
    assert fetched("frail://m", tmp_path / "other") == before


def test_a_fetch_that_is_cut_off_is_made_again(frail, tmp_path, monkeypatch):
    save(tmp_path / "run", 2)
    writer = Mirror("frail://m", tmp_path / "run")
    writer.take_over()
    writer.copy()
    replace = type(tmp_path).replace

    def kill(path, target):
        replace(path, target)
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "replace", kill)
        with pytest.raises(WorkdirError, match="ZeroDivisionError"):
            fetched("frail://m", tmp_path / "other")
    assert fetched("frail://m", tmp_path / "other") == copied(tmp_path / "run")
    assert not list((tmp_path / "other").glob("*.tmp"))


@pytest.mark.parametrize(
    "name",
    ["../out", "/out", "plots/../../out", "a\\out", "C:out", "checkpoints/x", "a.tmp/x"],
)
def test_a_mirror_writes_nowhere_else(name, frail, tmp_path):
    save(tmp_path / "run", 2)
    writer = Mirror("frail://m", tmp_path / "run")
    writer.take_over()
    writer.copy()
    (place,) = (place for place in frail.store if "manifests" in place)
    files = json.loads(frail.store[place].getvalue())["files"]
    files[name] = files["metrics.jsonl"]
    text = json.dumps({"files": files, "digest": json_digest(files)})
    frail().pipe_file(place, text.encode())
    before = contents(tmp_path)
    with pytest.raises(WorkdirError, match="odd entry"):
        fetched("frail://m", tmp_path / "inner" / "other")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("text", [b"", b"shorter", b"x" * 10**6])
def test_a_file_that_is_not_the_mirrored_one_is_refused(text, frail, tmp_path):
    save(tmp_path / "run", 2)
    writer = Mirror("frail://m", tmp_path / "run")
    writer.take_over()
    writer.copy()
    place = next(p for p, file in frail.store.items() if file.getvalue().startswith(b"checkpoints"))
    frail().pipe_file(place, text)
    with pytest.raises(WorkdirError, match="checkpoints/2/state/array is not the file"):
        fetched("frail://m", tmp_path / "other")
    assert not (tmp_path / "other" / "config.json").exists()
