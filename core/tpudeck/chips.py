"""The TPU chips there are: how fast, how much memory, and how they appear on a host.

Peaks are the vendor's published bfloat16 figures; PCI ids are those of the kernel's sysfs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpudeck.errors import InputError

__all__ = ["CHIPS", "Chip", "accelerator_devices", "chip_named"]


@dataclass(frozen=True)
class Chip:
    """One generation of TPU. A *device* is what TensorFlow sees; a v2 or v3 chip shows two of them."""

    name: str
    pci_device: int
    pci_subsystem: int | None
    peak_bf16_flops: float
    """Matrix FLOP/s of one chip in bfloat16."""
    hbm_bytes_per_s: float
    hbm_bytes_per_device: int
    devices_per_chip: int
    topology: str
    """The smallest topology the compiler accepts for it."""
    chip_config: str = "default"
    """How the compiler sees the two cores of a chip: ``megacore`` is one device with the memory of both."""
    tensorflow: bool = True
    """Whether TensorFlow 2.20 runs on it."""

    @property
    def peak_bf16_flops_per_device(self) -> float:
        return self.peak_bf16_flops / self.devices_per_chip

    @property
    def hbm_bytes_per_s_per_device(self) -> float:
        return self.hbm_bytes_per_s / self.devices_per_chip


_GIB = 1024**3

CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip("v2", 0x0027, 0x004E, 46e12, 700e9, 8 * _GIB, 2, "v2:2x2"),
        Chip("v3", 0x0027, 0x004F, 123e12, 900e9, 16 * _GIB, 2, "v3:2x2"),
        Chip("v4", 0x005E, None, 275e12, 1200e9, 32 * _GIB, 1, "v4:2x2x1", "megacore"),
        Chip("v5e", 0x0063, None, 197e12, 819e9, 16 * _GIB, 1, "v5e:2x2"),
        Chip("v5p", 0x0062, None, 459e12, 2765e9, 95 * _GIB, 1, "v5p:2x2x1", "megacore"),
        Chip("v6e", 0x006F, None, 918e12, 1640e9, 32 * _GIB, 1, "v6e:2x2"),
        Chip("7x", 0x0076, None, 2307e12, 7380e9, 96 * _GIB, 2, "7x:2x2x1", tensorflow=False),
    )
}

_COUNTED_IN_CORES = {"v2", "v3", "v4", "v5p"}
"""Their accelerator types count TensorCores, of which these chips have two; the others count chips."""

_ALIASES = {"v5litepod": "v5e", "v5lite": "v5e"}


def chip_named(name: str) -> Chip:
    """The chip of a generation's name, also as accelerator types spell it (``v5litepod``)."""
    try:
        return CHIPS[_ALIASES.get(name, name)]
    except KeyError:
        raise InputError(f"a TPU chip is one of {', '.join(CHIPS)}, got {name!r}") from None


def accelerator_devices(accelerator: str) -> tuple[Chip, int]:
    """An accelerator type such as ``v3-8`` or ``v5litepod-8`` → its chip and how many devices TensorFlow sees.

    The number in ``v2-8``, ``v3-8``, ``v4-8`` and ``v5p-8`` counts TensorCores, in ``v5litepod-8`` and ``v6e-8`` chips.
    """
    generation, _, number = accelerator.partition("-")
    chip = chip_named(generation)
    if not number.isdecimal() or int(number) < 1:
        raise InputError(f"an accelerator type is CHIP-NUMBER such as v5litepod-8, got {accelerator!r}")
    if chip.name not in _COUNTED_IN_CORES:
        return chip, int(number)
    if int(number) % 2:
        raise InputError(f"a {chip.name} has two cores a chip, so its number is even, got {accelerator!r}")
    return chip, int(number) // 2 * chip.devices_per_chip
