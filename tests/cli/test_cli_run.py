"""The commands around runs, as a person or a script uses them: real processes over faked stages."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fakes import cli, runs
from fakes.stages import loss_after
from tpudeck import launch
from tpudeck.config import Home
from tpudeck.runs.index import find_run

COMMAND = [sys.executable, str(Path(cli.__file__))]


@pytest.fixture(autouse=True)
def _nothing_outlives_a_test(home: Home) -> Iterator[None]:
    yield
    runs.end_everything(home)


def environment(behaviour: Mapping[str, Any]) -> dict[str, str]:
    return dict(os.environ) | {"TPUDECK_FAKE": json.dumps(behaviour), "COLUMNS": "100", "TERM": "xterm-256color"}


def tpudeck(*arguments: str, **behaviour: Any) -> subprocess.CompletedProcess[str]:
    """A command, to its end, in pipes."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=environment(behaviour), timeout=120
    )


def started(*arguments: str, **behaviour: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(behaviour)
    )


def the_run(home: Home) -> Path:
    """The newest run, when there is one."""
    runs.wait_until(lambda: any(home.runs.glob("[!.]*")))
    return find_run(home, "last")


def shown(run: str = "last") -> Any:
    return json.loads(tpudeck("runs", "show", run, "--json").stdout)


def test_a_run_in_a_pipe_prints_its_id_as_data_and_the_rest_as_narration(home: Home) -> None:
    done = tpudeck("run", "quickstart", "--set", "train.steps=40", "--name", "first")
    assert done.returncode == 0, done.stderr
    assert done.stdout == the_run(home).name + "\n"
    assert "tokenizer done" in done.stderr and "evaluated at step 40" in done.stderr


def test_run_json_is_lines_of_events_and_the_last_line_is_the_run_itself(home: Home) -> None:
    done = tpudeck("run", "quickstart", "--set", "train.steps=40", "--json", "--tag", "a", "--tag", "b")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1] == shown()
    assert lines[-1]["tags"] == ["a", "b"]
    assert [line["step"] for line in lines if line.get("event") == "step_logged"] == list(range(1, 41))
    assert {"run_launched", "stage_started", "stage_finished", "evaluated", "status_changed"} <= {
        line["event"] for line in lines[:-1]
    }


def test_the_listing_and_the_detail_carry_the_promised_keys(home: Home) -> None:
    tpudeck("run", "quickstart", "--set", "train.steps=40")
    keys = {"id", "name", "path", "status", "step", "loss", "eval_loss", "tokens_per_s", "trainer_pid"}
    (listed,) = json.loads(tpudeck("runs", "list", "--json").stdout)
    assert keys <= set(listed) and keys <= set(shown())
    assert listed["status"] == "finished"
    assert listed["step"] == 40
    assert listed["loss"] == loss_after(40)
    assert listed["eval_loss"] == loss_after(40) + 0.1


def test_a_preset_with_a_fault_ends_with_2_and_writes_nothing(home: Home) -> None:
    done = tpudeck("run", "quickstart", "--set", "train.stepz=40")
    assert done.returncode == 2
    assert "train.stepz" in done.stderr and "Traceback" not in done.stderr
    assert not home.runs.exists()


def test_a_corpus_that_is_not_there_ends_with_2_and_writes_nothing(home: Home, tmp_path: Path) -> None:
    done = tpudeck("run", "quickstart", "--set", f"corpus.source={tmp_path}/no.txt")
    assert done.returncode == 2
    assert "no.txt" in done.stderr and "Traceback" not in done.stderr
    assert not home.runs.exists()


def test_a_home_that_cannot_be_written_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TPUDECK_HOME", str(tmp_path / "file" / "home"))
    done = tpudeck("run", "quickstart")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_mistake_found_by_a_stage_reaches_the_terminal_with_its_hint_and_code(home: Home) -> None:
    done = tpudeck("run", "quickstart", tokenizer_error="there is no file corpus.txt")
    assert done.returncode == 2
    assert "there is no file corpus.txt\n  → say which one" in done.stderr
    assert "Traceback" not in done.stderr
    assert shown()["status"] == "failed"


def test_a_run_whose_trainer_is_killed_ends_with_1_and_says_how_to_go_on(home: Home) -> None:
    process = started("run", "quickstart", "--set", "train.steps=10000", step_s=0.01)
    folder = the_run(home)
    runs.kill(runs.at_step(folder, 5).summary.trainer_pid)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert told.count("SIGKILL") == 1 and "signal 9" not in told and f"tpudeck runs resume {folder.name}" in told


def test_the_step_at_which_a_run_ended_is_the_same_in_the_list_and_in_the_detail(home: Home) -> None:
    tpudeck("run", "quickstart", "--set", "train.steps=30", exit_at=17, exit_code=1)

    def listed() -> int:
        return int(json.loads(tpudeck("runs", "list", "--json").stdout)[0]["step"])

    assert listed() == shown()["step"] == 16
    status = json.loads((the_run(home) / "status.json").read_text())
    (the_run(home) / "status.json").write_text(json.dumps(status | {"latest": status["latest"] | {"step": 18}}))
    assert listed() == shown()["step"] == 18


def test_ctrl_c_saves_a_checkpoint_and_ends_with_130(home: Home) -> None:
    process = started("run", "quickstart", "--set", "train.steps=10000", step_s=0.01, checkpoint_every=10_000)
    folder = the_run(home)
    runs.at_step(folder, 5)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped at step" in told
    assert list((folder / "checkpoints").glob("*/manifest.json"))
    assert shown()["status"] == "stopped"


def test_a_second_ctrl_c_returns_at_once_and_the_run_still_stops_by_itself(home: Home) -> None:
    process = started("run", "quickstart", "--set", "train.steps=10", step_s=6.0)
    folder = the_run(home)
    runs.wait(folder, lambda now: now.summary.progress is not None)
    process.send_signal(signal.SIGINT)
    runs.wait_until((folder / "requests" / "stop.json").exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=15)
    assert process.returncode == 130
    assert runs.ended(folder).summary.status == "stopped"


@pytest.mark.pty
def test_when_the_terminal_goes_away_the_run_goes_on(home: Home) -> None:
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "run", "quickstart", "--set", "train.steps=300"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        env=environment({"step_s": 0.005}),
    )
    os.close(inside)
    folder = the_run(home)
    runs.at_step(folder, 5)
    os.kill(process.pid, signal.SIGHUP)
    os.close(terminal)
    process.wait(timeout=60)
    assert runs.ended(folder).summary.status == "finished"


def on_a_terminal(*arguments: str, **behaviour: Any) -> tuple[int, str]:
    """A command on a terminal of its own, to its end."""
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=inside, stdout=inside, stderr=inside, env=environment(behaviour)
    )
    os.close(inside)
    seen = b""
    deadline = time.monotonic() + runs.PATIENCE_S
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 65536)
            elif process.poll() is not None:
                break
    os.close(terminal)
    return process.wait(timeout=60), seen.decode()


@pytest.mark.pty
def test_a_terminal_shows_the_stages_with_a_tick_and_the_numbers(home: Home) -> None:
    code, seen = on_a_terminal("run", "quickstart", "--set", "train.steps=200", "--name", "seen", step_s=0.005)
    assert code == 0
    assert "✓" in seen and "tokenizer" in seen
    assert "eval loss" in seen and "200 steps" in seen


@pytest.mark.pty
def test_a_listing_is_no_wider_than_its_terminal_and_whole_in_a_pipe(home: Home) -> None:
    done = tpudeck("run", "quickstart", "--set", "train.steps=3", "--name", "a" * 30, shards_error="x" * 90)
    assert done.returncode == 2
    _, seen = on_a_terminal("runs", "list")
    assert "failed" in seen
    assert max(len(line) for line in seen.splitlines()) <= 100
    assert "x" * 90 in tpudeck("runs", "list").stdout


def test_a_detached_run_goes_on_and_can_be_watched_and_stopped(home: Home) -> None:
    done = tpudeck("run", "quickstart", "--detach", "--set", "train.steps=10000", step_s=0.01)
    assert done.returncode == 0
    run = done.stdout.strip()
    runs.at_step(home.runs / run, 5)
    with started("runs", "watch", run) as watching:
        assert watching.stderr is not None
        assert watching.stderr.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=60) == 130
    assert shown(run)["status"] == "running"
    assert tpudeck("runs", "stop", run).returncode == 0
    assert runs.ended(home.runs / run).summary.status == "stopped"


def test_resume_goes_on_where_the_run_was_and_ends_as_it_ends(home: Home) -> None:
    run = tpudeck("run", "quickstart", "--detach", "--set", "train.steps=200", step_s=0.01).stdout.strip()
    runs.kill(runs.at_step(home.runs / run, 35).summary.trainer_pid)
    runs.ended(home.runs / run)
    done = tpudeck("runs", "resume", run, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert {line["attempt"] for line in lines[:-1]} == {2}
    assert lines[-1]["status"] == "finished" and lines[-1]["step"] == 200


def test_after_a_resume_no_line_carries_what_is_no_longer_so(home: Home) -> None:
    folder = runs.begin(home, steps=60, step_s=0.02, checkpoint_every=10)
    runs.at_step(folder, 25)
    runs.kill(runs.RunReader(folder).refresh().summary.trainer_pid)
    runs.ended(folder)
    lines = tpudeck("runs", "resume", folder.name).stderr.splitlines()
    resumed = next(number for number, line in enumerate(lines) if line.startswith("resumed from step"))
    assert not any(line.startswith("step ") for line in lines[:resumed])


def test_export_has_one_line_per_step_also_after_a_resume(home: Home) -> None:
    run = tpudeck("run", "quickstart", "--detach", "--set", "train.steps=80", step_s=0.01).stdout.strip()
    runs.kill(runs.at_step(home.runs / run, 35).summary.trainer_pid)
    runs.ended(home.runs / run)
    tpudeck("runs", "resume", run)
    text = tpudeck("runs", "export", run, "--metric", "loss", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["step", "loss"]
    assert [(int(row["step"]), float(row["loss"])) for row in rows] == [(n, loss_after(n)) for n in range(1, 81)]


def test_export_knows_json_parquet_and_smoothing(home: Home, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    tpudeck("run", "quickstart", "--set", "train.steps=30")
    rows = json.loads(tpudeck("runs", "export", "last", "--format", "json").stdout)
    assert rows[2] == {"step": 3, "loss": loss_after(3)}
    out = tmp_path / "metrics.parquet"
    tpudeck("runs", "export", "last", "--metric", "loss", "--metric", "step_s", "--format", "parquet", "-o", str(out))
    assert pq.read_table(out).column_names == ["step", "loss", "step_s"]
    smoothed = json.loads(tpudeck("runs", "export", "last", "--format", "json", "--smooth", "0.5").stdout)
    assert smoothed[1]["loss"] == pytest.approx((0.5 * loss_after(1) + loss_after(2)) / 1.5)


def test_a_metric_that_is_not_there_is_told_with_those_that_are(home: Home) -> None:
    tpudeck("run", "quickstart", "--set", "train.steps=3")
    done = tpudeck("runs", "export", "last", "--metric", "los")
    assert done.returncode == 2
    assert "loss" in done.stderr


def test_logs_are_what_the_stages_printed_brackets_and_all(home: Home) -> None:
    tpudeck("run", "quickstart", "--set", "train.steps=3")
    assert "train says [1.2] hello" in tpudeck("runs", "logs", "last").stdout.splitlines()


def test_tags_notes_names_and_the_archive(home: Home) -> None:
    tpudeck("run", "quickstart", "--set", "train.steps=3")
    tpudeck("runs", "tag", "last", "a", "b")
    tpudeck("runs", "tag", "last", "--remove", "a", "c")
    tpudeck("runs", "note", "last", "a [note]")
    tpudeck("runs", "rename", "last", "better")
    run = shown("better")
    assert (run["tags"], run["note"], run["name"]) == (["b", "c"], "a [note]", "better")
    tpudeck("runs", "archive", "last")
    assert json.loads(tpudeck("runs", "list", "--json").stdout) == []
    assert len(json.loads(tpudeck("runs", "list", "--json", "--all").stdout)) == 1


def test_delete_moves_to_the_trash_and_refuses_what_is_running(home: Home) -> None:
    run = tpudeck("run", "quickstart", "--detach", "--set", "train.steps=10000", step_s=0.01).stdout.strip()
    runs.at_step(home.runs / run, 1)
    refused = tpudeck("runs", "delete", run)
    assert refused.returncode == 3 and "running" in refused.stderr
    launch.request_stop(home.runs / run, now=True)
    runs.ended(home.runs / run)
    assert tpudeck("runs", "delete", run).returncode == 0
    assert not (home.runs / run).exists()
    assert (home.trash / run / "metrics.jsonl").exists()


def test_a_run_that_is_not_running_cannot_be_profiled(home: Home) -> None:
    done = tpudeck("runs", "profile", runs.make(home).name)
    assert done.returncode == 2 and "is not running here" in done.stderr


def test_a_profile_that_never_comes_is_not_waited_for_beyond_the_run(home: Home) -> None:
    folder = runs.begin(home, steps=50, step_s=0.1)
    runs.at_step(folder, 1)
    done = tpudeck("runs", "profile", folder.name)
    assert done.returncode == 1 and "ended before it could be profiled" in done.stderr
    assert not list((folder / "requests").iterdir())


def test_what_was_deleted_can_be_restored(home: Home) -> None:
    folder = runs.make(home)
    (folder / "note").write_text("mine")
    assert tpudeck("runs", "delete", folder.name).returncode == 0
    assert tpudeck("runs", "show", folder.name).returncode == 2
    missing = tpudeck("runs", "restore", "another")
    assert missing.returncode == 2 and folder.name in missing.stderr
    assert tpudeck("runs", "restore", folder.name[:20]).returncode == 0
    assert (folder / "note").read_text() == "mine"
    assert not list(home.trash.iterdir())


def test_a_restored_run_takes_nobody_s_place(home: Home) -> None:
    folder = runs.make(home)
    tpudeck("runs", "delete", folder.name)
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    done = tpudeck("runs", "restore", folder.name)
    assert done.returncode == 2 and "there is a run" in done.stderr
    assert list(home.trash.iterdir())


def test_a_fork_is_a_new_run_with_the_changed_settings(home: Home) -> None:
    tpudeck("run", "quickstart", "--set", "train.steps=5")
    old = the_run(home)
    assert tpudeck("runs", "fork", old.name, "--set", "train.steps=7", "--name", "other").returncode == 0
    new = shown("other")
    assert (new["step"], new["forked_from"]) == (7, {"run": old.name, "step": 0})
    assert shown(old.name)["step"] == 5


def test_log_lines_as_json_are_strings(home: Home) -> None:
    tpudeck("run", "quickstart", "--set", "train.steps=2")
    plain = tpudeck("runs", "logs", "last").stdout.splitlines()
    assert [json.loads(line) for line in tpudeck("runs", "logs", "last", "--json").stdout.splitlines()] == plain
    assert any("[1.2]" in line for line in plain)


def test_an_error_keeps_its_lines_in_the_detail(home: Home) -> None:
    tpudeck("run", "quickstart", shards_error="first\nsecond")
    lines = tpudeck("runs", "show", "last").stdout.splitlines()
    at = lines.index("error\tfirst")
    assert lines[at + 1] == "\tsecond"


def test_the_queue_is_shown_in_its_order_and_can_be_changed(home: Home) -> None:
    first = tpudeck("run", "quickstart", "--detach", "--set", "train.steps=10000", step_s=0.01).stdout.strip()
    waiting = [tpudeck("run", "quickstart", "--detach", "--set", "train.steps=3").stdout.strip() for _ in range(2)]
    for run in waiting:
        runs.wait(home.runs / run, lambda now: now.summary.status == "queued")
    tpudeck("runs", "priority", waiting[1], "3")
    rows = json.loads(tpudeck("runs", "queue", "--json").stdout)
    assert [(row["id"], row["place"], row["used_by"]) for row in rows] == [
        (waiting[1], 1, first),
        (waiting[0], 2, first),
    ]


def test_compare_shows_results_and_only_the_settings_that_differ(home: Home) -> None:
    for steps in (10, 20):
        tpudeck("run", "quickstart", "--set", f"train.steps={steps}", "--name", f"of-{steps}")
    rows = json.loads(tpudeck("runs", "compare", "of-10", "of-20", "--json").stdout)
    assert [row["train.steps"] for row in rows] == [10, 20]
    assert not any(key.startswith("model.") for key in rows[0])


def test_a_run_that_is_not_there_is_told_as_such(home: Home) -> None:
    for arguments in (("show", "x"), ("logs", "last"), ("resume", "x"), ("export", "x")):
        done = tpudeck("runs", *arguments)
        assert done.returncode == 2
        assert "there is no run" in done.stderr and "Traceback" not in done.stderr
