"""All runs: newest first, in true states, found by what people type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tpudeck.config import Home
from tpudeck.errors import InputError
from tpudeck.runs import index as indexing
from tpudeck.runs import locks
from tpudeck.runs.index import RunIndex, find_run
from tpudeck.runs.processes import ProcessIdentity, host_name
from tpudeck.runs.status import judge
from tpudeck.storage import write_json


def make(home: Home, number: int, *, name: str = "run", status: str = "finished", **more: Any) -> Path:
    folder = home.runs / f"20260101-0000{number:02d}-{name}-{number:04x}"
    folder.mkdir(parents=True)
    write_json(folder / "run.json", {"name": name, "created": 1000.0 + number, "device": "cpu"})
    write_json(folder / "meta.json", {"tags": ["t"]})
    if status:
        said = {"status": status, "attempt": 1, "heartbeat": 0.0, "latest": {"step": number, "loss": 1.5}}
        write_json(folder / "status.json", said | more)
    return folder


def test_runs_come_newest_first_with_their_numbers(home: Home) -> None:
    for number in range(3):
        make(home, number)
    summaries = RunIndex(home).refresh()
    assert [run.step for run in summaries] == [2, 1, 0]
    assert summaries[0].loss == 1.5 and summaries[0].tags == ("t",)


def test_a_home_without_runs_has_none(home: Home) -> None:
    assert RunIndex(home).refresh() == []


def test_what_is_no_run_is_left_out(home: Home) -> None:
    make(home, 1)
    (home.runs / ".new-half").mkdir()
    (home.runs / "other").mkdir()
    (home.runs / "file").touch()
    assert len(RunIndex(home).refresh()) == 1


def test_ended_runs_are_remembered_and_looked_at_again_when_they_change(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [make(home, number) for number in range(3)]
    RunIndex(home).refresh()
    read: list[Path] = []
    summary_of = indexing._summary_of
    monkeypatch.setattr(indexing, "_summary_of", lambda folder: (read.append(folder), summary_of(folder))[1])
    assert len(RunIndex(home).refresh()) == 3
    assert read == []
    write_json(folders[1] / "meta.json", {"note": "new"})
    assert [run.note for run in RunIndex(home).refresh()] == ["", "new", ""]
    assert read == [folders[1]]


def test_a_run_that_is_gone_is_no_longer_listed(home: Home) -> None:
    folder = make(home, 1)
    make(home, 2)
    index = RunIndex(home)
    index.refresh()
    folder.rename(home.root / "elsewhere")
    assert [run.step for run in index.refresh()] == [2]


@pytest.mark.parametrize("content", ["", "[]", '{"version": 1}', "garbage"])
def test_a_damaged_memory_of_the_list_is_ignored(home: Home, content: str) -> None:
    make(home, 1)
    home.cache.mkdir()
    (home.cache / "runs.json").write_text(content)
    assert len(RunIndex(home).refresh()) == 1


def test_a_home_that_cannot_be_written_is_listed_all_the_same(home: Home) -> None:
    make(home, 1)
    home.cache.write_text("a file where the folder should be")
    assert len(RunIndex(home).refresh()) == 1


def test_a_run_is_found_by_id_beginning_name_path_and_last(home: Home) -> None:
    first, second = make(home, 1, name="first"), make(home, 2, name="second")
    assert find_run(home, first.name) == first
    assert find_run(home, first.name[:-6]) == first
    assert find_run(home, "second") == second
    assert find_run(home, str(first)) == first
    assert find_run(home, "last") == second


def test_a_beginning_that_fits_several_runs_is_an_error(home: Home) -> None:
    make(home, 1), make(home, 2)
    with pytest.raises(InputError, match="names 2 runs"):
        find_run(home, "2026")
    with pytest.raises(InputError, match="there is no run"):
        find_run(home, "nothing")


# States and their evidence


@pytest.fixture
def locked(home: Home) -> Iterator[Path]:
    """A run whose lock is held."""
    folder = make(home, 1, status="")
    lock = locks.acquire(folder / "run.lock")
    assert lock is not None
    yield folder
    locks.release(lock)


def said(**more: Any) -> dict[str, Any]:
    owner = ProcessIdentity.of().to_dict()
    return {"status": "running", "heartbeat": 1000.0, "heartbeat_promise_s": 30.0, "supervisor": owner} | more


def test_a_file_that_says_running_proves_nothing(home: Home) -> None:
    folder = make(home, 1)
    gone = ProcessIdentity.of().to_dict() | {"started": 1.0}
    state = judge(folder, said(supervisor=gone), now=1010.0)
    assert state.status == "lost"
    assert "gone without a word, the last one 10s ago" in state.evidence


def test_a_held_lock_is_life(locked: Path) -> None:
    assert judge(locked, said(), now=1010.0).status == "running"
    assert judge(locked, {}, now=1010.0).status == "starting"


def test_a_supervisor_that_has_not_spoken_in_time_is_stalled_with_the_evidence(locked: Path) -> None:
    state = judge(locked, said(), now=1240.0)
    assert state.status == "stalled"
    assert state.evidence == "supervisor silent for 4m00s, promised within 30s"


def test_a_clock_that_jumps_back_ends_nothing(locked: Path) -> None:
    assert judge(locked, said(), now=-1e6).status == "running"


def test_a_live_process_counts_where_the_lock_does_not(home: Home) -> None:
    assert judge(make(home, 1), said(), now=1010.0).status == "running"


def test_a_run_on_another_host_lives_by_its_promise(home: Home) -> None:
    folder = make(home, 1)
    elsewhere = ProcessIdentity.of().to_dict() | {"host": host_name() + "-other"}
    assert judge(folder, said(supervisor=elsewhere), now=1010.0).status == "running"
    lost = judge(folder, said(supervisor=elsewhere), now=1240.0)
    assert lost.status == "lost" and "promised within 30s" in lost.evidence


def test_a_new_attempt_of_an_ended_run_is_starting(locked: Path) -> None:
    assert judge(locked, said(status="stopped"), now=1010.0).status == "starting"


def test_a_run_that_never_started_is_lost_after_a_moment(home: Home) -> None:
    folder = make(home, 1, status="")
    made = folder.stat().st_mtime
    assert judge(folder, {}, now=made + 1).status == "starting"
    assert judge(folder, {}, now=made + 60).status == "lost"


def test_a_stage_that_outlives_its_supervisor_is_stopping(home: Home) -> None:
    folder = make(home, 1)
    gone = ProcessIdentity.of().to_dict() | {"started": 1.0}
    lock = locks.acquire(folder / "stage.lock")
    assert lock is not None
    assert judge(folder, said(supervisor=gone), now=1010.0).status == "stopping"
    locks.release(lock)


def test_a_summary_is_plain_json(home: Home) -> None:
    make(home, 1, latest={"loss": "NaN"})
    (summary,) = RunIndex(home).refresh()
    assert json.loads(json.dumps(summary.to_dict(), allow_nan=False))["loss"] == "NaN"


def test_the_newest_runs_are_known_before_all_are_looked_at(home: Home) -> None:
    for number in range(5):
        make(home, number)
    index = RunIndex(home)
    assert [run.id for run in index.newest(2)] == [run.id for run in index.refresh()][:2]


def test_a_quick_look_sees_new_and_live_runs_and_a_thorough_one_also_what_became_of_ended_ones(home: Home) -> None:
    ended, other = make(home, 1), make(home, 2, status="")
    index = RunIndex(home)
    index.refresh()
    for folder in (ended, other):
        write_json(folder / "status.json", {"status": "finished", "latest": {"step": 77}})
    make(home, 3)
    assert [run.step for run in index.refresh(thorough=False)] == [3, 77, 1]
    assert [run.step for run in index.refresh()] == [3, 77, 77]
