"""The table of chips, and how accelerator types are read."""

from __future__ import annotations

import pytest

from tpudeck.chips import CHIPS, accelerator_devices, chip_named
from tpudeck.errors import InputError


@pytest.mark.parametrize(
    ("accelerator", "chip", "devices"),
    [
        ("v2-8", "v2", 8), ("v3-8", "v3", 8), ("v4-8", "v4", 4), ("v5p-8", "v5p", 4),
        ("v5litepod-8", "v5e", 8), ("v5e-8", "v5e", 8), ("v6e-8", "v6e", 8), ("v6e-1", "v6e", 1),
    ],
)  # fmt: skip
def test_an_accelerator_type_counts_cores_or_chips_as_its_generation_does(
    accelerator: str, chip: str, devices: int
) -> None:
    found, count = accelerator_devices(accelerator)
    assert (found.name, count) == (chip, devices)


@pytest.mark.parametrize("text", ["v5e", "v5e-", "v5e-x", "v5e-0", "v9-8", "", "-8", "v4-1"])
def test_what_is_no_accelerator_type_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        accelerator_devices(text)


def test_a_device_has_its_share_of_the_chip() -> None:
    v3 = chip_named("v3")
    assert v3.peak_bf16_flops_per_device == 61.5e12
    assert v3.hbm_bytes_per_s_per_device == 450e9


def test_no_two_chips_look_the_same_on_the_pci_bus() -> None:
    assert len({(chip.pci_device, chip.pci_subsystem) for chip in CHIPS.values()}) == len(CHIPS)
