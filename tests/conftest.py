"""What every test gets: a home of its own, so that nothing touches the user's."""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tpudeck.config import Home

if TYPE_CHECKING:
    from gcsfaults import ObjectStore

# How long an example takes says more of the machine than of the code.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")


def pytest_configure() -> None:
    """Signals that whoever started the tests ignores (`nohup`, a shell's `&`) would be ignored by our children too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `torch` wait for `make torch`, which names the Python that has it."""
    if "TPUDECK_TORCH_PYTHON" in os.environ:
        return
    for item in items:
        if "torch" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="run by `make torch`"))


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty ``TPUDECK_HOME``, for this process and the children it starts."""
    root: Path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("TPUDECK_HOME", str(root))
    monkeypatch.setenv("TPUDECK_LOCKS", str(root / "locks"))
    return Home(root)


@pytest.fixture(scope="session")
def _object_store() -> Iterator[ObjectStore]:
    from gcsfaults import object_store

    with object_store() as store:
        yield store


@pytest.fixture
def object_store(_object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A real object-store server with an empty ``gs://bucket``, where nothing goes wrong until the test says so."""
    _object_store.reset()
    _object_store.empty_bucket("bucket")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", _object_store.url)
    yield _object_store
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client drops the connection of an answer it retries
        gc.collect()
