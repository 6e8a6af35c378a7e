"""The runs of a store, browsed from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes import runs as fake_runs
from gcsfaults import ObjectStore, Request
from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.mirror import Mirror, StoreView, is_followed
from tpudeck.runs import transfer
from tpudeck.runs.events import Noticed
from tpudeck.runs.index import RunIndex
from tpudeck.runs.reader import RunReader
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import bucket

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

STORE = "gs://bucket/team"


def written(home: Home, name: str, steps: int) -> Path:
    run = fake_runs.make(home, name=name)
    writer = RunWriter(run, attempt=1)
    for step in range(1, steps + 1):
        writer.metrics(step, loss=1 / step)
    writer.event(Noticed(message=f"at step {steps}"))
    writer.progress(force=True, step=steps)
    writer.close()
    return run


@pytest.fixture
def mirrored(home: Home, object_store: ObjectStore) -> Path:
    run = written(home, "mirrored", 30)
    Mirror(run, f"{STORE}/runs/{run.name}").sync()
    return run


@pytest.fixture
def pushed(home: Home, object_store: ObjectStore) -> Path:
    run = written(home, "pushed", 20)
    transfer.push_run(run, f"{STORE}/runs/{run.name}", deadline_s=60)
    return run


@pytest.fixture
def view(tmp_path: Path) -> StoreView:
    return StoreView(STORE, Home(tmp_path / "elsewhere"))


def test_a_list_shows_mirrored_and_pushed_runs_as_they_are(view: StoreView, mirrored: Path, pushed: Path) -> None:
    view.refresh()
    assert {run.id for run in RunIndex(view.home).refresh()} == {mirrored.name, pushed.name}
    assert all(is_followed(folder) for folder in view.home.runs.iterdir())


def test_one_that_is_looked_at_has_all_it_logged(view: StoreView, mirrored: Path, pushed: Path) -> None:
    for run in (mirrored, pushed):
        here, there = (RunReader(folder).refresh() for folder in (view.fetch(run.name[:-1]), run))
        assert here.metrics["loss"].value.tolist() == there.metrics["loss"].value.tolist()
        assert [line.event for line in here.events] == [line.event for line in there.events]


def test_what_is_known_is_not_fetched_again(object_store: ObjectStore, view: StoreView, mirrored: Path) -> None:
    view.refresh()
    object_store.reset()
    view.refresh()
    assert object_store.count(lambda request: request.reads_content) == 0


def test_a_list_does_not_fetch_logs_or_checkpoints(object_store: ObjectStore, view: StoreView, pushed: Path) -> None:
    bucket.write_bytes(f"{STORE}/runs/{pushed.name}/checkpoints/step-00000001/weights.safetensors", b"large")
    object_store.reset()
    view.refresh()

    def is_large(request: Request) -> bool:
        return request.reads_content and any(name in request.path for name in ("jsonl", "console", "checkpoints"))

    assert object_store.count(is_large) == 0


def test_a_run_that_left_the_store_leaves_the_view(object_store: ObjectStore, view: StoreView, mirrored: Path) -> None:
    view.refresh()
    for stored in list(bucket.scan(f"{STORE}/runs/")):
        bucket.remove(stored)
    view.refresh()
    assert RunIndex(view.home).refresh() == []


def test_names_in_a_bucket_cannot_leave_the_view(object_store: ObjectStore, view: StoreView, tmp_path: Path) -> None:
    bucket.write_bytes(f"{STORE}/runs/../run.json", b"{}")
    bucket.write_bytes(f"{STORE}/runs/.hidden/run.json", b"{}")
    view.refresh()
    assert not list(tmp_path.rglob("run.json"))


def test_a_store_is_in_a_bucket(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a store is gs://"):
        StoreView("team", Home(tmp_path))
