"""NVIDIA devices, through NVML (the package ``nvidia-ml-py``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpudeck.devices.readings import Core

__all__ = ["compute_capabilities", "read_gpus"]

_NO_TENSORCORE = "NVML does not report how busy the matrix units are"


def read_gpus(*, proc_root: Path = Path("/proc")) -> tuple[list[Core], list[str]]:
    """Every GPU with its readings, and notes; nothing of either where there is no driver."""
    if not (proc_root / "driver" / "nvidia").is_dir():
        return [], []
    try:
        import pynvml
    except ImportError:
        return [], ["GPU: a driver is loaded, but nothing can be read: pip install nvidia-ml-py"]
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return [], [f"GPU: {error}"]
    return [_read(pynvml, index) for index in range(count)], []


def compute_capabilities(*, proc_root: Path = Path("/proc")) -> list[tuple[int, int]]:
    """Of every GPU; empty where there is no driver, or nobody to ask."""
    if not (proc_root / "driver" / "nvidia").is_dir():
        return []
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []


def _read(nvml: Any, index: int) -> Core:
    name, total, used, duty_cycle = "", None, None, None
    missing = {"tensorcore_percent": _NO_TENSORCORE}
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name = str(nvml.nvmlDeviceGetName(handle))
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        used, total = int(memory.used), int(memory.total)
        duty_cycle = float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except nvml.NVMLError as error:
        told = {"hbm_used_bytes": used, "hbm_total_bytes": total, "duty_cycle_percent": duty_cycle}
        missing |= {reading: str(error) for reading, value in told.items() if value is None}
    return Core(index, "gpu", name, duty_cycle, None, used, total, missing)
