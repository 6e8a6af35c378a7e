"""What the last digits of a run depend on besides its seed."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpudeck.training.strategy import Machine

__all__ = ["differences", "environment"]

_PACKAGES = ("numpy", "tensorflow", "tf-keras", "tpudeck", "transformers")


def environment(machine: Machine) -> dict[str, Any]:
    """Packages, processor, threads, replicas: where one of these differs, a resumed run is not the same to the bit."""
    versions = {name: importlib.metadata.version(_installed(name)) for name in _PACKAGES}
    return versions | {
        "processor": _processor(),
        "device": machine.kind,
        "replicas": machine.replicas,
        "threads": machine.threads,
        "xla": machine.xla,
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """What changed, each as ``threads: 2 → 4``; nothing where nothing was recorded before."""
    return tuple(f"{key}: {before[key]} → {now.get(key)}" for key in sorted(before) if before[key] != now.get(key))


def _installed(package: str) -> str:
    """The distribution that brings a package: TensorFlow comes as several."""
    if package == "tensorflow":
        for name in ("tensorflow-tpu", "tensorflow-cpu"):
            if any(importlib.metadata.distributions(name=name)):
                return name
    return package


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
