"""What every test gets: a home of its own, so that nothing touches the user's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpudeck.config import Home


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
    return Home(root)
