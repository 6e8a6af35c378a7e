"""TPU chips found on the PCI bus, and the processes that hold them: works without any workload and without libtpu."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tpudeck.chips import CHIPS, Chip

__all__ = ["Holder", "InstalledChip", "find_chips", "find_holders"]

_VENDOR = 0x1AE0
_DEVICE_FILE = re.compile(r"/dev/(accel\d+|vfio/\d+)")


@dataclass(frozen=True)
class InstalledChip:
    """A chip in this machine."""

    address: str
    """On the PCI bus."""
    chip: Chip | None
    """None where the table doesn't know it."""
    device_file: str
    """What a process opens to use it: ``/dev/accelN`` up to v4, ``/dev/vfio/GROUP`` from v5 on; empty where unknown."""


@dataclass(frozen=True)
class Holder:
    """A process that has a chip open."""

    pid: int
    command: str
    device_file: str


def find_chips(*, sys_root: Path = Path("/sys")) -> list[InstalledChip]:
    """The TPU chips on the PCI bus, in the order of their device files."""
    folder = sys_root / "bus" / "pci" / "devices"
    found = [chip for path in sorted(_entries(folder)) if (chip := _chip_at(path)) is not None]
    return sorted(found, key=lambda chip: [int(number) for number in re.findall(r"\d+", chip.device_file)])


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _chip_at(path: Path) -> InstalledChip | None:
    """The chip at a PCI address; none where something else is there, or nothing can be read."""
    if _identifier(path / "vendor") != _VENDOR:
        return None
    device, subsystem = _identifier(path / "device"), _identifier(path / "subsystem_device")
    kinds = [chip for chip in CHIPS.values() if chip.pci_device == device and chip.pci_subsystem in (None, subsystem)]
    if not kinds and device not in {chip.pci_device for chip in CHIPS.values()}:
        return None  # another device of the vendor: a network card, a disk
    return InstalledChip(path.name, kinds[0] if kinds else None, _device_file(path))


def _identifier(path: Path) -> int | None:
    try:
        return int(path.read_text().strip(), 16)
    except (OSError, ValueError):
        return None


def _device_file(path: Path) -> str:
    accelerators = [entry.name for entry in _entries(path / "accel")]
    if accelerators:
        return f"/dev/{accelerators[0]}"
    try:
        return f"/dev/vfio/{(path / 'iommu_group').readlink().name}"
    except OSError:
        return ""


def find_holders(*, proc_root: Path = Path("/proc")) -> tuple[list[Holder], int]:
    """Processes that have a TPU device file open, and how many processes could not be looked into (another user's)."""
    holders, hidden = [], 0
    for folder in _entries(proc_root):
        if not folder.name.isdecimal():
            continue
        try:
            targets = {str(link.readlink()) for link in (folder / "fd").iterdir() if link.is_symlink()}
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        files = {target for target in targets if _DEVICE_FILE.fullmatch(target)}
        holders += [Holder(int(folder.name), _command(folder), file) for file in sorted(files)]
    return sorted(holders, key=lambda holder: (holder.pid, holder.device_file)), hidden


def _command(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
