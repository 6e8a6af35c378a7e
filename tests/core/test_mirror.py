"""A run in a bucket while it runs."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import runs as fake_runs
from gcsfaults import Fault, ObjectStore, Request
from tpudeck import launch
from tpudeck.config import Home
from tpudeck.errors import ArtefactError, InputError, RetryLaterError, TpudeckError
from tpudeck.mirror import Follower, Mirror, is_mirror, keep_followed, keep_mirrored, pull_mirrored
from tpudeck.presets import resolve
from tpudeck.runs import locks
from tpudeck.runs.events import Noticed
from tpudeck.runs.reader import RunReader
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import bucket, sets, write_json

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


class Run:
    """A run that the test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = RunWriter(folder, attempt=1)
        self.step = 0

    def go_on(self, steps: int = 10) -> None:
        for _ in range(steps):
            self.step += 1
            self.writer.metrics(self.step, loss=1 / self.step)
        self.writer.event(Noticed(message=f"at step {self.step}"))
        self.writer.progress(force=True, step=self.step)

    def save(self, step: int) -> None:
        folder = self.folder / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        (folder / "weights.bin").write_bytes(os.urandom(5000))
        write_json(folder / "manifest.json", {"step": step})

    def say(self, status: str, *, host: str = "elsewhere", ago_s: float = 0.0) -> None:
        supervisor = {"pid": 1, "started": 1.0, "boot_id": "boot", "host": host}
        said = {"status": status, "heartbeat": time.time() - ago_s, "heartbeat_promise_s": 60.0}
        write_json(self.folder / "status.json", said | {"supervisor": supervisor})

    @property
    def location(self) -> str:
        return f"gs://bucket/runs/{self.folder.name}"


@pytest.fixture
def run(home: Home) -> Iterator[Run]:
    run = Run(fake_runs.make(home))
    yield run
    run.writer.close()


def logs(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("events.jsonl", "metrics.jsonl", "progress.json")}


def segments(run: Run) -> list[str]:
    return [stored.location for stored in bucket.scan(f"{run.location}/live/metrics.jsonl/")]


def test_a_follower_sees_what_the_run_wrote_pass_by_pass(object_store: ObjectStore, run: Run, tmp_path: Path) -> None:
    mirror, follower = Mirror(run.folder, run.location), Follower(run.location, tmp_path / "copy")
    for _ in range(4):
        run.go_on()
        mirror.sync()
        follower.sync()
        assert logs(tmp_path / "copy") == logs(run.folder)
    snapshot = RunReader(tmp_path / "copy").refresh()
    assert snapshot.metrics["loss"].step.tolist() == list(range(1, 41))
    assert snapshot.summary.name == "fake"


def test_a_pass_without_news_sends_nothing(object_store: ObjectStore, run: Run) -> None:
    mirror = Mirror(run.folder, run.location)
    run.go_on()
    mirror.sync()
    object_store.reset()
    mirror.sync()
    assert object_store.count(lambda request: request.sends_content) == 0


def test_half_a_line_waits_for_its_end(object_store: ObjectStore, run: Run, tmp_path: Path) -> None:
    mirror, follower = Mirror(run.folder, run.location), Follower(run.location, tmp_path / "copy")
    with (run.folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 1}\n{"st')
        file.flush()
        mirror.sync()
        follower.sync()
        assert (tmp_path / "copy" / "metrics.jsonl").read_bytes() == b'{"step": 1}\n'
        file.write(b'ep": 2}\n')
    mirror.sync()
    follower.sync()
    assert (tmp_path / "copy" / "metrics.jsonl").read_bytes() == b'{"step": 1}\n{"step": 2}\n'


def test_a_rotated_file_begins_anew_for_the_follower_too(object_store: ObjectStore, run: Run, tmp_path: Path) -> None:
    log = run.folder / "console.log"
    mirror, follower = Mirror(run.folder, run.location), Follower(run.location, tmp_path / "copy")
    log.write_bytes(b"old line\n" * 10)
    mirror.sync()
    follower.sync()
    log.write_bytes(b"new line\n")
    mirror.sync()
    follower.sync()
    assert (tmp_path / "copy" / "console.log").read_bytes() == b"new line\n"


def test_segments_stay_few_however_long_the_run(object_store: ObjectStore, run: Run, tmp_path: Path) -> None:
    mirror, follower = Mirror(run.folder, run.location), Follower(run.location, tmp_path / "copy")
    for _ in range(70):
        run.go_on(1)
        mirror.sync()
        if run.step == 20:
            follower.sync()
    assert len(segments(run)) <= 32
    follower.sync()
    assert logs(tmp_path / "copy") == logs(run.folder)


def test_another_mirror_goes_on_where_the_first_ended(object_store: ObjectStore, run: Run, tmp_path: Path) -> None:
    run.go_on()
    Mirror(run.folder, run.location).sync()
    before = segments(run)
    run.go_on()
    Mirror(run.folder, run.location).sync()
    assert len(segments(run)) == len(before) + 1
    Follower(run.location, tmp_path / "copy").sync()
    assert logs(tmp_path / "copy") == logs(run.folder)


@pytest.mark.faults
def test_faults_delay_the_mirror_and_change_nothing(
    object_store: ObjectStore, run: Run, tmp_path: Path, home: Home
) -> None:
    home.settings_file.write_text('[storage]\ndeadline = "0.5 s"\n')
    kinds: list[Fault] = ["429", "503", "cut", "lost"]
    chance, lock = random.Random(3), threading.Lock()

    def plan(request: Request) -> Fault | None:
        with lock:
            return chance.choice(kinds) if chance.random() < 0.3 else None

    mirror, failed = Mirror(run.folder, run.location), 0
    object_store.reset(plan)
    for _ in range(50):
        run.go_on(2)
        try:
            mirror.sync()
        except RetryLaterError:
            failed += 1
    injected = len(object_store.injected)
    object_store.reset()
    mirror.sync()
    Follower(run.location, tmp_path / "copy").sync()
    assert failed and injected > 30
    assert logs(tmp_path / "copy") == logs(run.folder)


def test_checkpoints_come_and_go_with_the_run(object_store: ObjectStore, run: Run) -> None:
    mirror = Mirror(run.folder, run.location)
    run.save(10)
    mirror.sync()
    where = f"{run.location}/checkpoints/step-00000010"
    assert sets.read_contents(where) == sets.contents_of(run.folder / "checkpoints" / "step-00000010")
    (run.folder / "checkpoints" / "step-00000010").rename(run.folder / "gone")
    mirror.sync()
    with pytest.raises(ArtefactError, match="there is nothing"):
        sets.read_contents(where)


def test_a_lost_run_goes_on_elsewhere_from_whole_checkpoints_only(
    object_store: ObjectStore, run: Run, tmp_path: Path
) -> None:
    run.go_on()
    run.save(10)
    run.save(20)
    run.say("running", ago_s=3600)
    Mirror(run.folder, run.location).sync()
    bucket.remove(bucket.describe(f"{run.location}/checkpoints/step-00000020/{sets.CONTENTS}"))
    assert is_mirror(run.location)
    there = pull_mirrored(run.location, Home(tmp_path / "elsewhere"))
    assert logs(there) == logs(run.folder)
    assert [path.name for path in (there / "checkpoints").iterdir()] == ["step-00000010"]
    assert (there / "experiment.toml").read_bytes() == (run.folder / "experiment.toml").read_bytes()


def test_a_run_that_lives_elsewhere_is_not_taken_over(object_store: ObjectStore, run: Run, tmp_path: Path) -> None:
    run.go_on()
    run.say("running")
    Mirror(run.folder, run.location).sync()
    with pytest.raises(InputError, match="is running: on elsewhere") as caught:
        pull_mirrored(run.location, Home(tmp_path / "elsewhere"))
    assert "two machines" in caught.value.hint


def test_the_mirror_ends_after_the_run_with_all_it_wrote(
    object_store: ObjectStore, run: Run, tmp_path: Path, home: Home
) -> None:
    home.settings_file.write_text('[storage]\ndeadline = "0.2 s"\n')
    lock = locks.acquire(run.folder / "run.lock")
    assert lock is not None
    told: list[str] = []
    object_store.reset(lambda request: "503")
    mirror = threading.Thread(
        target=keep_mirrored, args=(run.folder, run.location), kwargs={"period_s": 0.05, "narrate": told.append}
    )
    mirror.start()
    run.go_on()
    while not told:
        time.sleep(0.02)
    object_store.reset()
    run.go_on()
    locks.release(lock)
    mirror.join()
    assert "the run goes on" in told[0]
    Follower(run.location, tmp_path / "copy").sync()
    assert logs(tmp_path / "copy") == logs(run.folder)


def test_following_ends_with_the_run_and_never_touches_a_run_of_ours(
    object_store: ObjectStore, run: Run, tmp_path: Path
) -> None:
    run.go_on()
    run.say("finished")
    Mirror(run.folder, run.location).sync()
    keep_followed(run.location, tmp_path / "copy", period_s=0.05)
    assert logs(tmp_path / "copy") == logs(run.folder)
    with pytest.raises(InputError, match="was not followed"):
        keep_followed(run.location, run.folder, period_s=0.05)


def test_two_mirrors_of_one_run_are_refused(object_store: ObjectStore, run: Run) -> None:
    lock = locks.acquire(run.folder / "mirror.lock")
    assert lock is not None
    with pytest.raises(TpudeckError, match="mirrored by another process"):
        keep_mirrored(run.folder, run.location)
    locks.release(lock)


@pytest.mark.faults
def test_a_run_that_is_told_to_is_mirrored_from_its_start_to_its_end(
    object_store: ObjectStore, home: Home, tmp_path: Path
) -> None:
    folder = fake_runs.make(home, steps=20)
    launch.write_options(folder, launch.Options(mirror="gs://bucket/store"))
    with fake_runs.faked_supervisor():
        launch.start(folder)
    end = time.monotonic() + fake_runs.PATIENCE_S
    while "has all of the run" not in (folder / "mirror.log").read_text():
        assert time.monotonic() < end, (folder / "mirror.log").read_text()
        time.sleep(0.1)
    copy = tmp_path / "copy"
    keep_followed(f"gs://bucket/store/runs/{folder.name}", copy, period_s=0.05)
    for name in ("events.jsonl", "metrics.jsonl", "supervisor.jsonl", "status.json"):
        assert (copy / name).read_bytes() == (folder / name).read_bytes()
    assert not (copy / "launch.json").exists()
    with pytest.raises(InputError, match="only followed here"):
        launch.resume(copy)


def test_nobody_controls_a_run_where_it_is_only_followed(object_store: ObjectStore, run: Run, tmp_path: Path) -> None:
    Mirror(run.folder, run.location).sync()
    here = tmp_path / run.folder.name
    Follower(run.location, here).sync()
    for control in (launch.request_stop, launch.request_checkpoint, launch.resume):
        with pytest.raises(InputError, match="only followed here"):
            control(here)
    assert not (here / "requests").exists()


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("/local/folder", "mirrored to gs://"),
        ("gs://", "a bucket location is gs://BUCKET/NAME"),
        ("gs://no-such-bucket/team", "there is no bucket no-such-bucket"),
    ],
)
def test_a_store_that_cannot_be_is_refused_at_launch(
    object_store: ObjectStore, home: Home, store: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        launch.create(resolve("quickstart", home=home).experiment, home=home, options=launch.Options(mirror=store))
    assert not list(home.runs.glob("*"))


def test_a_store_that_is_out_of_reach_is_no_reason_not_to_train(object_store: ObjectStore, home: Home) -> None:
    object_store.reset(lambda request: "503")
    options = launch.Options(mirror="gs://bucket/team")
    assert launch.create(resolve("quickstart", home=home).experiment, home=home, options=options).exists()
    object_store.reset(lambda request: "403")
    with pytest.raises(InputError, match="may not do this"):
        launch.create(resolve("quickstart", home=home).experiment, home=home, options=options)
