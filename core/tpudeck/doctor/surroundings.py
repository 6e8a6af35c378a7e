"""Everything the doctor looks at, in one place, so that a test can make up a machine."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tpudeck.config import Home
from tpudeck.devices.inventory import Holder, InstalledChip, find_chips, find_holders

__all__ = ["Surroundings"]

PACKAGES = (
    "tensorflow", "tensorflow-cpu", "tensorflow-tpu", "tf-keras", "libtpu", "transformers", "tokenizers", "datasets",
    "huggingface-hub", "textual", "typer", "numpy", "grpcio", "tpu-info", "nvidia-ml-py", "jax", "jaxlib",
)  # fmt: skip
"""The distributions whose versions matter."""


def installed(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Distribution → version, of those that are installed; none of them is imported."""
    versions = {}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


@dataclass(frozen=True)
class Surroundings:
    """This machine, this environment, this user."""

    home: Home = field(default_factory=Home.here)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    versions: Mapping[str, str] = field(default_factory=installed)
    """Distribution → version, of those that are installed."""
    python: tuple[int, int] = sys.version_info[:2]
    user: str = field(default_factory=getpass.getuser)
    root: Path = Path("/")
    """Where ``sys``, ``proc``, ``dev``, ``etc`` and ``var`` are."""
    temporary: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    metadata_timeout_s: float = 1.0

    def chips(self) -> list[InstalledChip]:
        return find_chips(sys_root=self.root / "sys")

    def holders(self) -> tuple[list[Holder], int]:
        """Who has a chip open, and how many processes could not be looked into."""
        return find_holders(proc_root=self.root / "proc")

    def read(self, path: str) -> str:
        """A file below the root; empty where it can't be read."""
        try:
            return (self.root / path).read_text(errors="replace")
        except OSError:
            return ""

    @property
    def on_google_cloud(self) -> bool:
        """Whether there should be a metadata server: the firmware says so, or a variable names one."""
        firmware = self.read("sys/class/dmi/id/product_name")
        return "Google" in firmware or "GCE_METADATA_HOST" in self.environ
