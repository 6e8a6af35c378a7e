"""A run that ends badly is explained, where what it said is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tpudeck.cli.run import end
from tpudeck.errors import WorkError


def ended(folder: Path, status: str, *, error: str = "", log: str = "") -> Any:
    (folder / "console.log").write_text(log)
    summary = SimpleNamespace(
        id="1", name="a", path=folder, status=status, error=error, evidence="it ended", exit_code=1
    )
    return SimpleNamespace(summary=summary)


def test_a_known_error_is_explained_with_its_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        end(ended(tmp_path, "failed", error="OSError: [Errno 28] No space left on device"), as_json=False)
    assert "the disk is full\n  → make room" in capsys.readouterr().err


def test_what_a_run_printed_before_it_was_killed_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "loading\nF0000 tpu_library_init_fns.inc:52] TfTpu_Initialize not available in this library.\n"
    with pytest.raises(WorkError):
        end(ended(tmp_path, "killed", log=log), as_json=False)
    assert "libtpu is newer than this TensorFlow can use" in capsys.readouterr().err


def test_a_fix_that_the_error_names_already_is_not_told_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "Socket closed\n  → tpudeck runs resume RUN goes on from the last checkpoint"
    with pytest.raises(typer.Exit):
        end(ended(tmp_path, "failed", error=told), as_json=False)
    assert capsys.readouterr().err.count("goes on from the last checkpoint") == 1
