"""A repository of the Hub as a local folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from tpudeck.corpus.hub import explained, split_id
from tpudeck.hub.upload import Kind

__all__ = ["pull_folder"]


def pull_folder(source: str, folder: Path, *, kind: Kind = "model", revision: str = "") -> None:
    """Copy ``hub:ORG/NAME`` into a folder; a missing or gated one is explained."""
    name = split_id(source)
    with explained(name, "repository"):
        from huggingface_hub import snapshot_download

        snapshot_download(name, repo_type=kind, revision=revision or None, local_dir=folder)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the library's notes about what it fetched
