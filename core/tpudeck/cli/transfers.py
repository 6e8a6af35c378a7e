"""``tokenizer`` and ``shards`` ``push`` and ``pull``: folders to and from a bucket or the Hub.

TO and FROM are ``gs://…``, ``hub:ORG/NAME``, or a name below the ``store`` of ``[storage]`` in ``config.toml``. What is
pulled lands where this machine looks for it, so that a run finds it ready.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tpudeck.cli.output import emit_json, narrate

if TYPE_CHECKING:
    from tpudeck.hub import Kind
    from tpudeck.storage.sets import Progress

TO = typer.Argument("", metavar="[TO]", help="gs://…, hub:ORG/NAME, or nothing: the store of config.toml.")
FROM = typer.Argument(..., metavar="FROM", help="gs://… or hub:ORG/NAME.")
FOLDER = typer.Argument(None, metavar="[DIR]", help="A new folder; otherwise where tpudeck looks for it.")
PUBLIC = typer.Option(False, "--public", help="On the Hub: for everybody to see; private otherwise.")
REVISION = typer.Option("", "--revision", help="On the Hub: a branch, tag or commit.")
DEADLINE = typer.Option("1 h", "--deadline", help="Give up after so long; the same command goes on.")
JSON = typer.Option(False, "--json", help="Print one JSON document.")


def register(tokenizer: typer.Typer, shards: typer.Typer) -> None:
    """Add ``push`` and ``pull`` to ``tpudeck tokenizer`` and ``tpudeck shards``."""
    tokenizer.command(name="push")(push_tokenizer)
    tokenizer.command(name="pull")(pull_tokenizer)
    shards.command(name="push")(push_shards)
    shards.command(name="pull")(pull_shards)


def push_tokenizer(
    tokenizer: str = typer.Argument(..., metavar="TOKENIZER", help="A folder, a run, or preset:NAME."),
    to: str = TO,
    public: bool = PUBLIC,
    deadline: str = DEADLINE,
    as_json: bool = JSON,
) -> None:
    """Copy a tokenizer to a bucket or the Hub."""
    from tpudeck.cli.tokenizer import find_tokenizer

    _push(find_tokenizer(tokenizer).folder, "tokenizers", to, "model", public, deadline, as_json)


def pull_tokenizer(
    source: str = FROM,
    folder: Path = FOLDER,
    revision: str = REVISION,
    deadline: str = DEADLINE,
    as_json: bool = JSON,
) -> None:
    """Copy a tokenizer from a bucket or the Hub."""
    _pull(source, "tokenizers", "model", folder, revision, deadline, as_json)


def push_shards(
    shards: str = typer.Argument(..., metavar="SHARDS", help="A folder, a run, or preset:NAME."),
    to: str = TO,
    public: bool = PUBLIC,
    deadline: str = DEADLINE,
    as_json: bool = JSON,
) -> None:
    """Copy shards to a bucket or the Hub."""
    from tpudeck.cli.shards import find_shards

    _push(find_shards(shards), "shards", to, "dataset", public, deadline, as_json)


def pull_shards(
    source: str = FROM,
    folder: Path = FOLDER,
    revision: str = REVISION,
    deadline: str = DEADLINE,
    as_json: bool = JSON,
) -> None:
    """Copy shards from a bucket or the Hub."""
    _pull(source, "shards", "dataset", folder, revision, deadline, as_json)


def _push(folder: Path, noun: str, to: str, kind: Kind, public: bool, deadline: str, as_json: bool) -> None:
    from tpudeck.storage import sets
    from tpudeck.units import parse_duration

    if to.startswith("hub:"):
        from tpudeck.hub import push_folder

        pushed = push_folder(
            folder, to.removeprefix("hub:"), kind=kind, public=public,
            deadline_s=parse_duration(deadline), narrate=narrate,
        )  # fmt: skip
        say(pushed.to_dict(), pushed.url, as_json)
        return
    location = destination(to, noun, folder)
    with transfer_progress() as show:
        done = sets.push(folder, location, deadline_s=parse_duration(deadline), on_progress=show)
    say(done.to_dict(), done.location, as_json)


def _pull(source: str, noun: str, kind: Kind, folder: Path | None, revision: str, deadline: str, as_json: bool) -> None:
    from tpudeck.storage import sets
    from tpudeck.units import parse_duration

    if source.startswith("hub:"):
        target = _from_hub(source, noun, kind, folder, revision)
        say({"location": source, "folder": str(target)}, str(target), as_json)
        return
    location = bucket_location(source)
    target = folder.expanduser().absolute() if folder else _home_of(noun, _key_at(location))
    target.parent.mkdir(parents=True, exist_ok=True)
    with transfer_progress() as show:
        done = sets.pull(location, target, deadline_s=parse_duration(deadline), on_progress=show)
    say(done.to_dict(), str(done.folder), as_json)


def _from_hub(source: str, noun: str, kind: Kind, folder: Path | None, revision: str) -> Path:
    """A repository, moved into place when it is whole."""
    import tempfile

    import orjson

    from tpudeck.errors import InputError
    from tpudeck.hub import pull_folder

    wanted = folder.expanduser().absolute() if folder else None
    parent = wanted.parent if wanted else _home_of(noun, "")
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".pull-", ignore_cleanup_errors=True) as temporary:
        aside = Path(temporary) / "set"
        pull_folder(source, aside, kind=kind, revision=revision)
        manifest = aside / "manifest.json"
        target = wanted or _home_of(noun, _key_in(orjson.loads(manifest.read_bytes() if manifest.exists() else b"{}")))
        if target.exists():
            raise InputError(f"{target} exists already", hint="name another folder, or move it")
        aside.replace(target)
    return target


def destination(to: str, noun: str, folder: Path) -> str:
    """Where something of this machine goes: what was named, or its place in the store."""
    return bucket_location(to) if to else f"{store()}/{noun}/{folder.name}"


def bucket_location(text: str) -> str:
    from tpudeck.errors import InputError
    from tpudeck.storage import is_bucket
    from tpudeck.storage.client import split

    if not is_bucket(text):
        raise InputError(f"a place is gs://BUCKET/NAME or hub:ORG/NAME, got {text!r}")
    split(text)  # says so where no bucket is named
    return text.rstrip("/")


def store() -> str:
    from tpudeck.errors import InputError
    from tpudeck.storage.settings import settings

    named = settings().store
    if not named:
        raise InputError(
            "no bucket was named, and config.toml names no store",
            hint='say gs://BUCKET/NAME, or set store = "gs://BUCKET/PREFIX" under [storage] in config.toml',
        )
    return bucket_location(named)


def _home_of(noun: str, name: str) -> Path:
    from tpudeck.config import Home

    home = Home.here()
    return {"tokenizers": home.tokenizers, "shards": home.shards}[noun] / name


def _key_at(location: str) -> str:
    """The name of an artefact's folder, as its manifest in the bucket says."""
    import orjson

    from tpudeck.errors import ArtefactError
    from tpudeck.storage import sets
    from tpudeck.storage.bucket import read_bytes

    try:
        return _key_in(orjson.loads(read_bytes(f"{location}/manifest.json")))
    except (FileNotFoundError, orjson.JSONDecodeError):
        sets.read_contents(location)  # says so where there is no set, or half of one
        raise ArtefactError(f"{location} has no manifest", hint="name a folder to copy it to") from None


def _key_in(manifest: Any) -> str:
    import re

    from tpudeck.errors import ArtefactError

    key = str(manifest.get("key", "")) if isinstance(manifest, dict) else ""
    if not re.fullmatch(r"[0-9a-f]{16,64}", key):
        raise ArtefactError("the manifest holds no key that names its folder", hint="name a folder to copy it to")
    return key


def say(data: dict[str, Any], place: str, as_json: bool) -> None:
    if as_json:
        emit_json(data)
    else:
        print(place)


@contextlib.contextmanager
def transfer_progress() -> Iterator[Callable[[Progress], None]]:
    """One line on standard error: rewritten at a terminal, now and then elsewhere."""
    from tpudeck.cli.source import progress_line
    from tpudeck.units import format_bytes

    def label(progress: dict[str, Any]) -> str:
        done, total = format_bytes(progress["bytes"]), format_bytes(progress["total_bytes"])
        return f"{progress['files']} of {progress['total_files']} files, {done} of {total}"

    with progress_line(label) as show:
        yield lambda progress: show(vars(progress))
