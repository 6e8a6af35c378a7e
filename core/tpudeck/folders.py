"""Some files of a folder, wherever it is: on this machine, in a bucket, or on the Hub.

What is elsewhere is brought here, each version once, and stays as long as this process may need it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tpudeck.corpus.hub import explained, split_id
from tpudeck.errors import ArtefactError
from tpudeck.storage import is_bucket

__all__ = ["Folder", "bring"]

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Folder:
    """Where the files are now."""

    path: Path
    """A folder; or the file itself, where the source names one."""
    commit: str = ""
    """Of a repository on the Hub: what its revision stands for."""


def bring(source: str, revision: str = "", *, patterns: Sequence[str], what: str) -> Folder:
    """The files whose names match a pattern, from ``hub:ORG/NAME``, ``gs://…`` or a path.

    Raises :class:`ArtefactError` where there is nothing; what the Hub or a bucket refuses is explained.
    """
    if source.startswith("hub:"):
        return _from_hub(source, revision, patterns, what)
    if is_bucket(source):
        return _from_bucket(source, patterns, what)
    path = Path(source).expanduser()
    if not path.exists():
        raise ArtefactError(f"there is no {what} {source}", hint=f"a {what} is a folder, gs://… or hub:ORG/NAME")
    return Folder(path)


def _from_hub(source: str, revision: str, patterns: Sequence[str], what: str) -> Folder:
    name = split_id(source)
    with explained(name, what):
        from huggingface_hub import snapshot_download

        path = Path(snapshot_download(name, revision=revision or None, allow_patterns=list(patterns)))
    return Folder(path, path.name if _COMMIT.fullmatch(path.name) else "")


def _from_bucket(source: str, patterns: Sequence[str], what: str) -> Folder:
    from tpudeck.storage import bucket
    from tpudeck.storage.cache import Cache

    prefix = f"{source.rstrip('/')}/"
    names = {stored.location.removeprefix(prefix): stored for stored in bucket.scan(prefix)}
    wanted = [stored for name, stored in names.items() if any(fnmatch(name, pattern) for pattern in patterns)]
    if not wanted:
        raise ArtefactError(f"there is no {what} at {source}", hint=f"it holds none of {', '.join(patterns)}")
    return Folder(Cache.here().hold(wanted).folder)
