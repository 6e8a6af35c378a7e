"""How a run is looked after: ``launch.json``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from tpudeck.storage import read_json, write_atomic

__all__ = ["Options", "read_options", "write_options"]


@dataclass(frozen=True)
class Options:
    """How a run is looked after, as against what it computes: not part of the experiment."""

    notify: tuple[str, ...] = ()
    """Who is told about alerts and the end: names from ``config.toml``, commands, or URLs."""
    tensorboard: bool = False
    """Whether to write TensorBoard event files too."""
    queue: bool = True
    """Whether to wait until the device is free."""
    mirror: str = ""
    """A store, ``gs://…``, below which a copy is kept while the run lasts, at ``runs/ID``."""


def write_options(folder: Path, options: Options) -> None:
    """Only the owner may read them: an address can be a secret."""
    import orjson

    write_atomic(folder / "launch.json", orjson.dumps(asdict(options)), mode=0o600)


def read_options(folder: Path) -> Options:
    try:
        data = read_json(folder / "launch.json")
    except FileNotFoundError:
        return Options()
    return Options(
        notify=tuple(data.get("notify", ())),
        tensorboard=bool(data.get("tensorboard")),
        queue=bool(data.get("queue", True)),
        mirror=str(data.get("mirror", "")),
    )
