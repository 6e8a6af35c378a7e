"""Readings of TPU devices, asked over the real protocol from servers built from the published stubs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from tpu_info.proto import tpu_metric_service_pb2 as messages
from tpu_info.proto import tpu_metric_service_pb2_grpc as service

from tpudeck.devices import Core
from tpudeck.devices.runtime import metric_ports, read_runtime

TOTAL = "tpu.runtime.hbm.memory.total.bytes"
USED = "tpu.runtime.hbm.memory.usage.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
GIB = 1024**3
PATIENCE_S = 60

Answer = Callable[[str, Any], "list[messages.Metric]"]


class Servicer(service.RuntimeMetricServiceServicer):  # type: ignore[misc]
    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def GetRuntimeMetric(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        metrics = self.answer(request.metric_name, context)
        return messages.MetricResponse(metric=messages.TPUMetric(name=request.metric_name, metrics=metrics))


@contextmanager
def served(answer: Answer, *, local: bool = True) -> Iterator[int]:
    """A metric server as libtpu runs one; its port."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    service.add_RuntimeMetricServiceServicer_to_server(Servicer(answer), server)
    if local:
        port = server.add_secure_port("localhost:0", grpc.local_server_credentials())
    else:
        port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=None).wait()


def metric(device: int | None, *, attr: str = "int", **value: float) -> messages.Metric:
    """One value; the device's number as older (`int`) or newer (`text`, `list`) runtimes write it."""
    attributes = {
        "int": lambda: messages.AttrValue(int_attr=device),
        "text": lambda: messages.AttrValue(string_attr=str(device)),
        "list": lambda: messages.AttrValue(
            kvlist_attr=messages.KeyValueList(
                attributes=[
                    messages.Attribute(key="host", value=messages.AttrValue(string_attr="w-0")),
                    messages.Attribute(key="device_ordinal", value=messages.AttrValue(string_attr=str(device))),
                ]
            )
        ),
        "none": messages.AttrValue,
    }
    attribute = messages.Attribute(key="device-id", value=attributes[attr]())
    return messages.Metric(attribute=attribute, gauge=messages.Gauge(**value))


def chips(count: int, *, devices_per_chip: int = 1, attr: str = "int") -> Answer:
    """A host with so many chips, all of them different."""

    def answer(name: str, context: Any) -> list[messages.Metric]:
        devices = range(count * devices_per_chip)
        return {
            TOTAL: [metric(device, attr=attr, as_int=16 * GIB) for device in devices],
            USED: [metric(device, attr=attr, as_int=(device + 1) * GIB) for device in devices],
            DUTY: [metric(chip, attr=attr, as_double=10.0 * (chip + 1)) for chip in range(count)],
        }[name]

    return answer


def look(ports: list[int], *, name: str = "", deadline_s: float = PATIENCE_S) -> tuple[list[Core], list[str]]:
    """As the sampler looks, but with patience for a busy machine where nothing is to hang."""
    return read_runtime(ports, name=name, deadline_s=deadline_s)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("attr", ["int", "text", "list"])
@pytest.mark.parametrize("local", [True, False])
def test_every_device_has_its_own_readings_whatever_way_its_number_is_written(attr: str, local: bool) -> None:
    with served(chips(4, attr=attr), local=local) as port:
        cores, notes = look([port], name="v5e")
    assert [core.index for core in cores] == [0, 1, 2, 3]
    assert [core.hbm_used_bytes for core in cores] == [GIB, 2 * GIB, 3 * GIB, 4 * GIB]
    assert [core.duty_cycle_percent for core in cores] == [10, 20, 30, 40]
    assert all(core.hbm_total_bytes == 16 * GIB and core.name == "v5e" and not core.missing for core in cores)
    assert notes == []


def test_the_duty_cycle_of_a_chip_with_two_devices_is_that_of_both() -> None:
    with served(chips(4, devices_per_chip=2)) as port:
        cores, _ = look([port])
    assert [core.duty_cycle_percent for core in cores] == [10, 10, 20, 20, 30, 30, 40, 40]


def test_devices_without_numbers_go_by_position() -> None:
    with served(chips(2, attr="none")) as port:
        cores, _ = look([port])
    assert [(core.index, core.hbm_used_bytes) for core in cores] == [(0, GIB), (1, 2 * GIB)]


def test_values_that_come_in_another_order_go_to_the_device_they_are_of() -> None:
    def answer(name: str, context: Any) -> list[messages.Metric]:
        metrics = chips(4)(name, context)
        return metrics[::-1] if name == USED else metrics

    with served(answer) as port:
        cores, _ = look([port])
    assert [core.hbm_used_bytes for core in cores] == [GIB, 2 * GIB, 3 * GIB, 4 * GIB]


def test_nothing_on_the_port_is_a_reason_and_no_error() -> None:
    port = free_port()
    cores, notes = look([port])
    assert cores == []
    assert notes == [f"TPU: nothing answers on port {port}: no process that serves metrics holds the chip"]


def test_empty_lists_mean_that_no_program_has_been_loaded() -> None:
    with served(lambda name, context: []) as port:
        cores, notes = look([port])
    assert (cores, notes) == ([], ["TPU: no program has been loaded yet"])


def test_where_lists_differ_in_length_a_device_without_a_value_says_so() -> None:
    def answer(name: str, context: Any) -> list[messages.Metric]:
        metrics = chips(4)(name, context)
        return metrics[:3] if name == USED else metrics[:1] if name == DUTY else metrics

    with served(answer) as port:
        cores, _ = look([port])
    assert [core.hbm_used_bytes for core in cores] == [GIB, 2 * GIB, 3 * GIB, None]
    assert [core.duty_cycle_percent for core in cores] == [10, None, None, None]
    assert cores[3].missing["hbm_used_bytes"] == "the runtime told of 3 devices, and this is not one of them"
    assert "hbm_used_bytes" not in cores[0].missing


def test_a_runtime_that_hangs_costs_the_deadline_once_and_the_other_ports_nothing() -> None:
    release = threading.Event()

    def hang(name: str, context: Any) -> list[messages.Metric]:
        release.wait(60)
        return []

    with served(hang) as slow, served(chips(2)) as quick:
        cores, notes = look([slow, quick], deadline_s=3)
        release.set()
    assert len(cores) == 2
    assert notes == [f"TPU: no answer from port {slow} within 3 s"]


def test_one_reading_that_hangs_leaves_the_others() -> None:
    release = threading.Event()

    def answer(name: str, context: Any) -> list[messages.Metric]:
        if name == DUTY:
            release.wait(60)
        return chips(2)(name, context)

    with served(answer) as port:
        cores, notes = look([port], deadline_s=3)
        release.set()
    assert [core.hbm_used_bytes for core in cores] == [GIB, 2 * GIB]
    assert cores[0].missing == {"duty_cycle_percent": f"no answer from port {port} within 3 s"}
    assert notes == []


def test_several_processes_on_a_host_are_numbered_on_where_each_counts_from_zero() -> None:
    with served(chips(2)) as one, served(chips(2)) as two:
        cores, _ = look([one, two])
    assert [core.index for core in cores] == [0, 1, 2, 3]


def test_an_error_is_told_in_the_servers_words() -> None:
    def answer(name: str, context: Any) -> list[messages.Metric]:
        if name == DUTY:
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown metric")
        return chips(1)(name, context)

    with served(answer) as port:
        cores, _ = look([port])
    assert cores[0].missing == {"duty_cycle_percent": f"port {port}: NOT_FOUND: unknown metric"}


def test_an_old_runtime_without_a_service_is_told_as_such() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    port = server.add_secure_port("localhost:0", grpc.local_server_credentials())
    server.start()
    _, notes = look([port])
    server.stop(grace=None).wait()
    assert notes == [f"TPU: the runtime on port {port} does not offer it"]


def test_a_process_that_dies_between_two_looks_turns_values_into_reasons() -> None:
    with served(chips(2)) as port:
        assert len(look([port])[0]) == 2
    cores, notes = look([port])
    assert cores == [] and "nothing answers" in notes[0]


def test_a_process_that_dies_while_it_is_asked_leaves_what_it_said_and_reasons() -> None:
    dying, others = threading.Event(), threading.Semaphore(0)

    def answer(name: str, context: Any) -> list[messages.Metric]:
        if name == DUTY:
            assert others.acquire(timeout=PATIENCE_S) and others.acquire(timeout=PATIENCE_S)
            threading.Timer(1, lambda: server.stop(grace=None)).start()
            dying.wait(PATIENCE_S)
        others.release()
        return chips(2)(name, context)

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    service.add_RuntimeMetricServiceServicer_to_server(Servicer(answer), server)
    port = server.add_secure_port("localhost:0", grpc.local_server_credentials())
    server.start()
    cores, _ = look([port])
    dying.set()
    server.stop(grace=None).wait()
    assert [core.hbm_used_bytes for core in cores] == [GIB, 2 * GIB]
    assert all(core.duty_cycle_percent is None and core.missing["duty_cycle_percent"] for core in cores)


def test_something_else_on_the_port_is_a_reason_and_no_error() -> None:
    with socket.create_server(("localhost", 0)) as other:
        port = int(other.getsockname()[1])

        def talk() -> None:
            connection, _ = other.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        threading.Thread(target=talk, daemon=True).start()
        cores, notes = look([port])
    assert cores == [] and len(notes) == 1


@pytest.mark.parametrize(
    ("listed", "ports"), [("", [8431]), ("8431,8432", [8431, 8432]), (" 9000 , 9001,", [9000, 9001]), ("x", [8431])]
)
def test_the_ports_are_those_that_are_listed_or_the_usual_one(listed: str, ports: list[int]) -> None:
    assert metric_ports({"TPU_RUNTIME_METRICS_PORTS": listed}) == ports
