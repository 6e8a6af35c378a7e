"""Rows of a data set on the Hub, streamed by the ``datasets`` library in batches; and the Hub's errors in plain words.

A branch or tag is resolved to its commit first, so that what is read and what the fingerprint names are the same, and
remembered, so that tokenizers and shards made before are found again without the network. Code that comes with a data
set is never run.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tpudeck.config import Home
from tpudeck.corpus.files import check_column
from tpudeck.errors import CorpusError, RetryLaterError, TpudeckError
from tpudeck.storage import read_json, write_json

__all__ = ["commit", "explained", "rows", "split_id"]

_BATCH_ROWS = 1000
_TIMEOUT_S = 30.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NETWORKING = frozenset({"requests", "urllib3", "httpx", "aiohttp"})
"""Packages whose errors, once those of the Hub's own are told apart, mean that it could not be reached."""
_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


def split_id(source: str) -> str:
    """``hub:ORG/NAME`` → ``ORG/NAME``."""
    name = source.removeprefix("hub:")
    if not _ID.fullmatch(name):
        raise CorpusError(f"a source on the Hub is hub:ORG/NAME, got {source!r}")
    return name


def commit(name: str, revision: str, *, home: Home) -> str:
    """The commit that a branch or tag of a data set stands for (empty: the main branch).

    Without the network it is the one it stood for when last asked.
    """
    if _COMMIT.fullmatch(revision):
        return revision
    remembered = home.cache / "hub" / f"{name.replace('/', '--')}@{revision.replace('/', '--') or 'main'}.json"
    try:
        with explained(name, "data set"):
            from huggingface_hub import HfApi

            found = str(HfApi().dataset_info(name, revision=revision or None, timeout=_TIMEOUT_S).sha)
    except TpudeckError:
        with contextlib.suppress(FileNotFoundError, orjson.JSONDecodeError):
            return str(read_json(remembered)["commit"])
        raise
    remembered.parent.mkdir(parents=True, exist_ok=True)
    write_json(remembered, {"commit": found})
    return found


def rows(name: str, *, config: str, split: str, column: str, revision: str) -> Iterator[list[Any]]:
    """The rows of one split, in batches."""
    with explained(name, "data set"):
        stream = _open(name, config, split, revision)
        checked = False
        for batch in stream.iter(batch_size=_BATCH_ROWS):
            if not checked:
                check_column(column, batch.column_names, name)
                checked = True
            yield batch.column(column).to_pylist()


def _open(name: str, config: str, split: str, revision: str) -> Any:
    import datasets

    if Path(name).is_dir():
        raise CorpusError(
            f"hub:{name} is also a folder here, which the datasets library would read instead",
            hint=f"read the folder with ./{name}, or start from another folder",
        )
    datasets.disable_progress_bars()
    stream = datasets.load_dataset(name, config or None, split=split, revision=revision, streaming=True)
    return stream.with_format("arrow")


@contextlib.contextmanager
def explained(name: str, what: str) -> Iterator[None]:
    """Turn what the Hub's libraries raise into this project's errors; their own texts hold addresses and advice."""
    try:
        yield
    except TpudeckError:
        raise
    except Exception as error:
        explanation = _explanation(error, name, what)
        if explanation is None:
            raise
        raise explanation from error


def _explanation(error: Exception, name: str, what: str) -> TpudeckError | None:
    from huggingface_hub import errors as hub

    text = str(error)
    first_line = text.strip().partition("\n")[0]
    if isinstance(error, hub.GatedRepoError) or "is a gated dataset" in text:
        return CorpusError(
            f"the {what} {name} is gated: its authors want to know who reads it",
            hint="ask for access on its page on the Hub, then log in with `hf auth login` or set HF_TOKEN",
        )
    if isinstance(error, hub.RevisionNotFoundError) or text.startswith("Revision "):
        return CorpusError(f"the {what} {name} has no such revision", hint="give a branch, a tag or a commit")
    if isinstance(error, hub.RepositoryNotFoundError) or "doesn't exist on the Hub" in text:
        return CorpusError(
            f"there is no {what} {name} on the Hub, or it is private",
            hint="check the name (ORG/NAME); for a private one log in with `hf auth login` or set HF_TOKEN",
        )
    if isinstance(error, hub.HFValidationError):
        return CorpusError(f"{name!r} is no name on the Hub: {first_line}")
    if "scripts are no longer supported" in text:
        return CorpusError(
            f"{name} is a script, and code that comes with a data set is never run",
            hint="look for a copy in Parquet: many have one under the same name, or in the branch refs/convert/parquet",
        )
    if isinstance(error, ValueError) and text.startswith(("Config name is missing", "BuilderConfig", "Bad split")):
        choices = text.replace("\n", " ").partition("Example of usage")[0].strip()
        return CorpusError(f"{name}: {choices}", hint="set corpus.config and corpus.split")
    if isinstance(error, hub.HfHubHTTPError):
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is not None and status < 500 and status != 429:
            return CorpusError(f"the Hub refused the {what} {name} with status {status}")
        return _unreachable(name, what)
    networking = type(error).__module__.partition(".")[0] in _NETWORKING
    if isinstance(error, (hub.LocalEntryNotFoundError, ConnectionError, TimeoutError)) or networking:
        return _unreachable(name, what)
    return _damaged(error, name, what, first_line)


def _unreachable(name: str, what: str) -> TpudeckError:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return CorpusError(
            f"the {what} {name} is on the Hub, and the Hub is switched off (HF_HUB_OFFLINE)",
            hint="unset HF_HUB_OFFLINE, or download the files and give their folder",
        )
    return RetryLaterError(
        f"the Hub could not be reached for the {what} {name}",
        hint="try again later; without a network, download the files and give their folder",
    )


def _damaged(error: Exception, name: str, what: str, text: str) -> TpudeckError | None:
    """What the data itself makes the libraries raise; none for anything that looks like a fault of ours."""
    import pyarrow

    if isinstance(error, (pyarrow.ArrowException, FileNotFoundError, UnicodeDecodeError)) or (
        type(error).__module__.startswith("datasets.")
    ):
        return CorpusError(f"the {what} {name} cannot be read: {text}")
    return None
