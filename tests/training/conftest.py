"""A tiny tokenizer and tiny shards, made once for all tests of training."""

from __future__ import annotations

import pytest

from tinyruns import TinyRuns


@pytest.fixture(scope="session")
def tiny_runs(tmp_path_factory: pytest.TempPathFactory) -> TinyRuns:
    return TinyRuns(tmp_path_factory.mktemp("tiny"))
