"""GPU readings: through NVML where there is a driver, else a reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tpudeck.devices.gpu import compute_capabilities, read_gpus


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

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> list[int]:  # noqa: N802
        return [8, handle]

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


def test_compute_capabilities_are_those_that_the_library_tells(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert compute_capabilities(proc_root=proc) == [(8, 0), (8, 1)]
    assert compute_capabilities(proc_root=proc / "elsewhere") == []


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


LIBRARY = """
#include <string.h>
/* The functions of NVIDIA's management library that a look uses, for two GPUs; the second is partitioned. */
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
static int devices[2];
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &devices[index]; return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned size) { strncpy(name, "NVIDIA L4", size); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    memory->total = 24ull << 30; memory->used = 6ull << 30; memory->free = 18ull << 30; return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *rates) {
    if (device == &devices[1]) return 3;
    rates->gpu = 87; rates->memory = 40; return 0;
}
"""
LOOK = (
    "import json, sys; from pathlib import Path; from tpudeck.devices.gpu import read_gpus; cores, notes = read_gpus("
)
LOOK += "proc_root=Path(sys.argv[1])); print(json.dumps([[vars(core) for core in cores], notes]))"


def test_readings_come_through_the_real_package_from_a_library_with_the_drivers_functions(proc: Path) -> None:
    """As far as a GPU can be proved without one: the package's own calls and structures, and a library behind them."""
    pytest.importorskip("pynvml")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = proc / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=LIBRARY.encode(), check=True)
    environ = dict(os.environ, LD_LIBRARY_PATH=str(proc))
    done = subprocess.run([sys.executable, "-c", LOOK, proc], env=environ, capture_output=True, text=True, check=True)
    (whole, partitioned), notes = json.loads(done.stdout)
    assert (whole["name"], whole["duty_cycle_percent"]) == ("NVIDIA L4", 87)
    assert (whole["hbm_used_bytes"], whole["hbm_total_bytes"]) == (6 * 2**30, 24 * 2**30)
    assert partitioned["hbm_used_bytes"] == 6 * 2**30
    assert partitioned["missing"]["duty_cycle_percent"] == "Not Supported"
    assert notes == []
