"""Duty cycle and memory of TPU devices, as the process that owns the chip tells it.

libtpu serves ``tpu.monitoring.runtime.RuntimeMetricService`` on port 8431 of that process, or on the ports that
``TPU_RUNTIME_METRICS_PORTS`` lists where several processes share a host. Memory is told per device, the duty cycle per
chip, which on v2 and v3 is two devices. The stubs come with the package ``tpu-info``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpudeck.devices.readings import Core

__all__ = ["metric_ports", "read_runtime"]

DEADLINE_S = 0.5
_DEFAULT_PORT = 8431
_METRICS = {
    "hbm_total_bytes": "tpu.runtime.hbm.memory.total.bytes",
    "hbm_used_bytes": "tpu.runtime.hbm.memory.usage.bytes",
    "duty_cycle_percent": "tpu.runtime.tensorcore.dutycycle.percent",
}


def metric_ports(environ: Mapping[str, str] = os.environ) -> list[int]:
    """Where the runtimes of this host listen."""
    listed = [part.strip() for part in environ.get("TPU_RUNTIME_METRICS_PORTS", "").split(",")]
    return [int(part) for part in listed if part.isdecimal()] or [_DEFAULT_PORT]


@dataclass(frozen=True)
class _PortReading:
    """What one port told: for each reading the values by device id, or why there are none."""

    values: dict[str, dict[int, float]]
    reasons: dict[str, str]


def read_runtime(
    ports: Sequence[int], *, name: str = "", deadline_s: float = DEADLINE_S
) -> tuple[list[Core], list[str]]:
    """The devices that the runtimes behind `ports` tell of, and a note for each port that tells nothing.

    All ports are asked at once, so that this takes `deadline_s` at most.
    """
    try:
        import grpc
        from tpu_info.proto import tpu_metric_service_pb2 as messages
        from tpu_info.proto import tpu_metric_service_pb2_grpc as service
    except ImportError:
        return [], ["TPU: nothing can be read without grpcio and tpu-info (the extra `tpu`)"]
    credentials = grpc.local_channel_credentials()
    channels = {port: grpc.secure_channel(f"localhost:{port}", credentials) for port in ports}
    try:
        calls = {
            port: {
                reading: service.RuntimeMetricServiceStub(channel).GetRuntimeMetric.future(
                    messages.MetricRequest(metric_name=metric), timeout=deadline_s
                )
                for reading, metric in _METRICS.items()
            }
            for port, channel in channels.items()
        }
        told = {port: _collect(grpc, port, futures, deadline_s) for port, futures in calls.items()}
    finally:
        for channel in channels.values():
            channel.close()
    return _numbered([_cores(reading, name) for reading in told.values()]), _notes(told)


def _collect(grpc: Any, port: int, futures: Mapping[str, Any], deadline_s: float) -> _PortReading:
    values: dict[str, dict[int, float]] = {}
    reasons: dict[str, str] = {}
    for reading, future in futures.items():
        try:
            values[reading] = _by_device(future.result().metric.metrics)
        except grpc.RpcError as error:
            reasons[reading] = _reason(grpc.StatusCode, error, port, deadline_s)
            continue
        if not values[reading]:
            reasons[reading] = "no program has been loaded yet"
    return _PortReading(values, reasons)


def _reason(codes: Any, error: Any, port: int, deadline_s: float) -> str:
    known = {
        codes.UNAVAILABLE: f"nothing answers on port {port}: no process that serves metrics holds the chip",
        codes.DEADLINE_EXCEEDED: f"no answer from port {port} within {deadline_s:g} s",
        codes.UNIMPLEMENTED: f"the runtime on port {port} does not offer it",
    }
    return known.get(error.code()) or f"port {port}: {error.code().name}: {error.details()}"


def _by_device(metrics: Sequence[Any]) -> dict[int, float]:
    """Device id → value. Where ids are missing or doubled, the position stands for the id."""
    ids = [_device_id(metric.attribute) for metric in metrics]
    if None in ids or len(set(ids)) != len(ids):
        ids = list(range(len(metrics)))
    return {index: _number(metric) for index, metric in zip(ids, metrics, strict=True) if index is not None}


def _device_id(attribute: Any) -> int | None:
    """The device's number: an integer in older runtimes, text or a list of key and value in newer ones."""
    value = attribute.value
    which = value.WhichOneof("attr")
    if which == "int_attr":
        return int(value.int_attr)
    if which == "string_attr":
        return int(value.string_attr) if value.string_attr.isdecimal() else None
    if which == "kvlist_attr":
        found = (_device_id(item) for item in value.kvlist_attr.attributes if "device" in item.key)
        return next((number for number in found if number is not None), None)
    return None


def _number(metric: Any) -> float:
    measure = getattr(metric, metric.WhichOneof("measure") or "gauge")
    which = measure.WhichOneof("value") if hasattr(measure, "as_int") else None
    return float(getattr(measure, which)) if which in {"as_int", "as_double"} else 0.0


def _cores(told: _PortReading, name: str) -> list[Core]:
    """One entry per device that any reading speaks of."""
    total, used = told.values.get("hbm_total_bytes", {}), told.values.get("hbm_used_bytes", {})
    duty_cycle = told.values.get("duty_cycle_percent", {})
    devices = sorted({*total, *used}) or sorted(duty_cycle)
    by_reading = {
        "hbm_total_bytes": total,
        "hbm_used_bytes": used,
        "duty_cycle_percent": _per_device(duty_cycle, devices),
    }
    return [_core(device, name, by_reading, told.reasons) for device in devices]


def _per_device(per_chip: Mapping[int, float], devices: Sequence[int]) -> Mapping[int, float]:
    """A chip's value for both of its devices, where there are twice as many devices as values."""
    if len(devices) != 2 * len(per_chip):
        return per_chip
    values = [per_chip[chip] for chip in sorted(per_chip)]
    return {device: values[position // 2] for position, device in enumerate(devices)}


def _core(device: int, name: str, by_reading: Mapping[str, Mapping[int, float]], reasons: Mapping[str, str]) -> Core:
    missing = {
        reading: reasons.get(reading) or f"the runtime told of {len(values)} devices, and this is not one of them"
        for reading, values in by_reading.items()
        if device not in values
    }
    total, used = by_reading["hbm_total_bytes"].get(device), by_reading["hbm_used_bytes"].get(device)
    return Core(
        index=device,
        kind="tpu",
        name=name,
        duty_cycle_percent=by_reading["duty_cycle_percent"].get(device),
        hbm_used_bytes=None if used is None else int(used),
        hbm_total_bytes=None if total is None else int(total),
        missing=missing,
    )


def _numbered(groups: Sequence[Sequence[Core]]) -> list[Core]:
    """The devices of all ports; where two processes count from zero, numbered on."""
    cores = [core for group in groups for core in group]
    if len({core.index for core in cores}) == len(cores):
        return sorted(cores, key=lambda core: core.index)
    return [Core(**(vars(core) | {"index": index})) for index, core in enumerate(cores)]


def _notes(told: Mapping[int, _PortReading]) -> list[str]:
    """What ports that tell nothing at all give as the reason, each once."""
    silent = [reading.reasons["hbm_total_bytes"] for reading in told.values() if len(reading.reasons) == len(_METRICS)]
    return [f"TPU: {reason}" for reason in dict.fromkeys(silent)]
