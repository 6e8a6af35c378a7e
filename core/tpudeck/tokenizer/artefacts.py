"""Where finished tokenizers are kept: ``tokenizers/KEY/``, found again by what they were made from.

The key is a hash of everything that goes in: text, settings, special tokens, library and recipe. The *file* is the
artefact of record: a second training on the same text may differ in the last digits (or, rarely, in a piece), so
nothing is trained twice, and shards and runs refer to the hash of the file. A folder appears whole, by one rename; its
manifest says what is in it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

import tpudeck
from tpudeck.config import Home
from tpudeck.errors import ArtefactError
from tpudeck.storage import hash_file, write_json
from tpudeck.tokenizer.loaded import manifest_of

__all__ = ["find", "find_by_hash", "input_key", "keep", "versions"]

_FORMAT_VERSION = 1
_RECIPE_VERSION = 2
"""Goes up when the same input gives another tokenizer than before, be it trained or brought along: what was made in the
old way must not be found again."""


def versions() -> dict[str, str]:
    """What a tokenizer file depends on."""
    import tokenizers

    return {"tokenizers": tokenizers.__version__}


def input_key(inputs: Mapping[str, Any]) -> str:
    """The name of the folder for these inputs."""
    inputs = {"format": _FORMAT_VERSION, "made": _RECIPE_VERSION, "versions": versions(), **inputs}
    return hashlib.sha256(orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def find(home: Home, key: str) -> dict[str, Any] | None:
    """The manifest of a finished tokenizer; none where there is none.

    Raises :class:`~tpudeck.errors.ArtefactError` where its file is not the one that was finished: runs refer to it, so
    it is not replaced in silence.
    """
    folder = home.tokenizers / key
    manifest = manifest_of(folder)
    if not manifest:
        return None
    try:
        found = hash_file(folder / "tokenizer.json")
    except FileNotFoundError:
        found = "no file"
    if found != manifest.get("hash"):
        raise ArtefactError(
            f"{folder / 'tokenizer.json'} is not the file that was made here (SHA-256 {found[:12]}, made: "
            f"{str(manifest.get('hash'))[:12]})",
            hint=f"put it back, or remove {folder} to make it again; shards made with it have to be made again too",
        )
    return manifest


def find_by_hash(home: Home, hash_: str) -> dict[str, Any] | None:
    """The manifest of the finished tokenizer whose file this is; none where there is none."""
    for path in sorted(home.tokenizers.glob("*/manifest.json")):
        if manifest_of(path.parent).get("hash") == hash_:
            return find(home, path.parent.name)
    return None


def keep(home: Home, key: str, write: Callable[[Path], None], about: Mapping[str, Any]) -> dict[str, Any]:
    """Write a tokenizer's files into its folder and return its manifest.

    Where another process finished the same one first, theirs stays.
    """
    home.tokenizers.mkdir(parents=True, exist_ok=True)
    aside = home.tokenizers / f".{key}.{os.getpid()}-{secrets.token_hex(3)}"
    aside.mkdir()
    try:
        write(aside)
        manifest = {
            "format_version": _FORMAT_VERSION,
            "key": key,
            "hash": hash_file(aside / "tokenizer.json"),
            **about,
            "versions": {"tpudeck": tpudeck.__version__, "python": platform.python_version(), **versions()},
        }
        write_json(aside / "manifest.json", manifest)
        return _put_in_place(aside, home, key) or manifest
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _put_in_place(aside: Path, home: Home, key: str) -> dict[str, Any] | None:
    """Rename into place; the manifest of the one that is there already, if any."""
    folder = home.tokenizers / key
    try:
        aside.rename(folder)
    except OSError:
        if there := find(home, key):
            return there
        shutil.rmtree(folder)  # without a manifest it is nothing
        aside.rename(folder)
    return None
