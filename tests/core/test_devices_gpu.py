"""GPU readings: through NVML where there is a driver, else a reason."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tpudeck.devices.gpu import read_gpus


class NVMLError(Exception):
    pass


class FakeNvml(SimpleNamespace):
    """Two GPUs, of which the second reports no utilisation, as a partitioned one does."""

    NVMLError = NVMLError

    def nvmlInit(self) -> None:  # noqa: N802 (here and below: the library's names)
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "NVIDIA A100-SXM4-40GB"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=5 * 2**30, total=40 * 2**30)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        if handle == 1:
            raise NVMLError("Not Supported")
        return SimpleNamespace(gpu=73, memory=20)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of a machine whose NVIDIA driver is loaded."""
    (tmp_path / "driver" / "nvidia").mkdir(parents=True)
    return tmp_path


def test_without_a_driver_there_are_no_gpus_and_nothing_to_say(tmp_path: Path) -> None:
    assert read_gpus(proc_root=tmp_path) == ([], [])


def test_a_gpu_has_its_readings_or_the_librarys_reason(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    (whole, partitioned), notes = read_gpus(proc_root=proc)
    assert (whole.duty_cycle_percent, whole.hbm_used_bytes, whole.hbm_total_bytes) == (73, 5 * 2**30, 40 * 2**30)
    assert list(whole.missing) == ["tensorcore_percent"]
    assert partitioned.hbm_used_bytes == 5 * 2**30
    assert partitioned.duty_cycle_percent is None and partitioned.missing["duty_cycle_percent"] == "Not Supported"
    assert notes == []


def test_a_driver_without_the_package_says_what_to_install(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    cores, (note,) = read_gpus(proc_root=proc)
    assert cores == [] and "pip install nvidia-ml-py" in note


def test_the_real_library_without_a_gpu_is_a_reason_and_no_error(proc: Path) -> None:
    pytest.importorskip("pynvml")
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a GPU")
    cores, (note,) = read_gpus(proc_root=proc)
    assert cores == [] and note.startswith("GPU: ")
