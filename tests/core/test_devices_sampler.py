"""Chips on the bus, their holders, and samples that are made of values and reasons whatever breaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tpudeck.config import Home
from tpudeck.devices import Sample, SamplerProcess
from tpudeck.devices.__main__ import _RotatedLines
from tpudeck.devices.inventory import find_chips, find_holders
from tpudeck.devices.peak import cpu_peak
from tpudeck.devices.sampler import Sampler
from tpudeck.devices.tensorcore import TensorCoreProbe

PATIENCE_S = 60


def pci(root: Path, address: str, device: str, *, subsystem: str = "0x0000", accel: str = "", group: str = "") -> None:
    """A device on the PCI bus of a made-up /sys."""
    folder = root / "bus" / "pci" / "devices" / address
    folder.mkdir(parents=True)
    for name, value in (("vendor", "0x1ae0"), ("device", device), ("subsystem_device", subsystem)):
        (folder / name).write_text(value + "\n")
    if accel:
        (folder / "accel" / accel).mkdir(parents=True)
    if group:
        (folder / "iommu_group").symlink_to(f"../../../kernel/iommu_groups/{group}")


def holding(root: Path, pid: int, *files: str, command: str = "python train.py") -> None:
    """A process of a made-up /proc that has files open."""
    folder = root / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
    for number, file in enumerate(files):
        (folder / "fd" / str(number)).symlink_to(file)


def answering(values: list[str]) -> TensorCoreProbe:
    """A probe whose child says the same for ever."""
    code = f"import sys\nfor _ in sys.stdin: print({json.dumps(json.dumps({'values': values}))}, flush=True)"
    return TensorCoreProbe((sys.executable, "-c", code), deadline_s=PATIENCE_S)


@pytest.mark.parametrize(
    ("device", "subsystem", "name"),
    [
        ("0x0027", "0x004e", "v2"), ("0x0027", "0x004f", "v3"), ("0x005e", "0x0000", "v4"), ("0x0063", "0x0000", "v5e"),
        ("0x0062", "0x0000", "v5p"), ("0x006f", "0x0000", "v6e"), ("0x0076", "0x0000", "7x"),
    ],
)  # fmt: skip
def test_a_chip_is_known_by_its_pci_ids(tmp_path: Path, device: str, subsystem: str, name: str) -> None:
    pci(tmp_path, "0000:00:05.0", device, subsystem=subsystem)
    (found,) = find_chips(sys_root=tmp_path)
    assert found.chip is not None and found.chip.name == name


def test_chips_come_in_the_order_of_their_device_files(tmp_path: Path) -> None:
    for address, group in (("0000:00:05.0", "10"), ("0000:00:06.0", "2"), ("0000:00:07.0", "1")):
        pci(tmp_path, address, "0x0063", group=group)
    assert [chip.device_file for chip in find_chips(sys_root=tmp_path)] == [f"/dev/vfio/{n}" for n in (1, 2, 10)]


def test_other_devices_of_the_vendor_and_of_others_are_no_chips(tmp_path: Path) -> None:
    pci(tmp_path, "0000:00:04.0", "0x0042")
    pci(tmp_path, "0000:00:05.0", "0x005e", accel="accel0")
    other = tmp_path / "bus" / "pci" / "devices" / "0000:00:06.0"
    other.mkdir()
    (other / "vendor").write_text("0x8086\n")
    assert [chip.device_file for chip in find_chips(sys_root=tmp_path)] == ["/dev/accel0"]


def test_without_a_pci_bus_there_are_no_chips(tmp_path: Path) -> None:
    assert find_chips(sys_root=tmp_path) == []


def test_holders_are_the_processes_that_have_a_device_file_open(tmp_path: Path) -> None:
    holding(tmp_path, 17, "/dev/null", "/dev/accel1", "/dev/accel0")
    holding(tmp_path, 18, "/dev/vfio/vfio", "/dev/accelerator", "socket:[3]")
    holding(tmp_path, 19, "/dev/vfio/7", command="jupyter lab")
    (tmp_path / "self").mkdir()
    holders, hidden = find_holders(proc_root=tmp_path)
    assert [(holder.pid, holder.device_file, holder.command) for holder in holders] == [
        (17, "/dev/accel0", "python train.py"),
        (17, "/dev/accel1", "python train.py"),
        (19, "/dev/vfio/7", "jupyter lab"),
    ]
    assert hidden == 0


def test_a_machine_without_accelerators_has_its_cpu_and_memory_and_says_so(tmp_path: Path) -> None:
    sample = Sampler(sys_root=tmp_path, proc_root=tmp_path, probe=answering([])).sample(over_s=0.01)
    assert sample.cores == () and sample.notes == ("no TPU and no GPU was found",)
    assert sample.host is not None and 0 < sample.host.memory_used_bytes < sample.host.memory_total_bytes


def test_chips_of_which_nothing_is_told_are_shown_with_the_reason_and_their_holder(tmp_path: Path) -> None:
    for chip in range(2):
        pci(tmp_path / "sys", f"0000:00:0{chip}.0", "0x0027", subsystem="0x004f", accel=f"accel{chip}")
    holding(tmp_path / "proc", 17, "/dev/accel0", "/dev/accel1")
    sampler = Sampler(ports=[9], sys_root=tmp_path / "sys", proc_root=tmp_path / "proc", probe=answering(["1.5"] * 4))
    sample = sampler.sample()
    sampler.close()
    assert [(core.index, core.name) for core in sample.cores] == [(0, "v3"), (1, "v3"), (2, "v3"), (3, "v3")]
    assert all("nothing answers on port 9" in core.missing["duty_cycle_percent"] for core in sample.cores)
    assert [core.tensorcore_percent for core in sample.cores] == [1.5] * 4
    assert all("tensorcore_percent" not in core.missing for core in sample.cores)
    assert sample.notes[0] == "TPU: pid 17 holds /dev/accel0, /dev/accel1: python train.py"


@pytest.mark.parametrize(
    ("values", "reason"),
    [([], "the host's agent reports none"), (["1", "2"], "2 values for 1 devices"), (["n/a"], "reports ['n/a']")],
)
def test_tensorcore_values_that_do_not_fit_the_devices_are_not_guessed(
    tmp_path: Path, values: list[str], reason: str
) -> None:
    pci(tmp_path, "0000:00:05.0", "0x0063", group="0")
    sampler = Sampler(ports=[9], sys_root=tmp_path, proc_root=tmp_path, probe=answering(values))
    (core,) = sampler.sample().cores
    sampler.close()
    assert core.tensorcore_percent is None and reason in core.missing["tensorcore_percent"]


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        ("import time; time.sleep(600)", "did not answer within"),
        ("import os; os.abort()", "has died"),
        ("import sys; sys.stdin.readline(); print('garbage', flush=True)", "has died"),
        ("import sys; sys.stdin.readline(); sys.exit()", "has died"),
    ],
)
@pytest.mark.faults
def test_a_child_that_hangs_or_aborts_is_a_reason_and_not_tried_again_at_once(
    tmp_path: Path, child: str, reason: str
) -> None:
    count = f"open({str(tmp_path / 'starts')!r}, 'a').write('started '); "
    patience_s = 3 if "sleep" in child else PATIENCE_S
    probe = TensorCoreProbe((sys.executable, "-c", count + child), deadline_s=patience_s)
    for _ in range(3):
        assert reason in probe.read()[1]
    assert (tmp_path / "starts").read_text() == "started "


def test_the_real_child_answers_on_a_machine_without_a_tpu() -> None:
    probe = TensorCoreProbe(deadline_s=PATIENCE_S)
    values, reason = probe.read()
    probe.close()
    assert values == [] and reason


def test_a_sample_comes_back_from_its_line_as_it_was(tmp_path: Path) -> None:
    pci(tmp_path, "0000:00:05.0", "0x0063", group="0")
    sampler = Sampler(ports=[9], sys_root=tmp_path, proc_root=tmp_path, probe=answering(["3"]))
    sample = sampler.sample()
    sampler.close()
    assert Sample.from_dict(json.loads(json.dumps(sample.to_dict()))) == sample


def test_the_sampler_of_a_run_writes_lines_until_it_is_told_to_end(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-m", "tpudeck.devices", str(tmp_path), "--interval", "0.05"])
    wait_for(lambda: (tmp_path / "system.jsonl").exists() and len(lines(tmp_path / "system.jsonl")) >= 3)
    child.send_signal(signal.SIGTERM)
    assert child.wait(PATIENCE_S) == 0
    times = [Sample.from_dict(json.loads(line)).time for line in lines(tmp_path / "system.jsonl")]
    assert times == sorted(times)


@pytest.mark.faults
def test_the_sampler_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-m', 'tpudeck.devices', sys.argv[1],"
        " '--interval', '0.05']); print(child.pid, flush=True); child.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    sampler = int(parent.stdout.readline())
    wait_for(lambda: (tmp_path / "system.jsonl").exists())
    parent.kill()
    parent.communicate()
    wait_for(lambda: not Path(f"/proc/{sampler}").exists() or zombie(sampler))


def test_a_file_of_samples_that_has_grown_becomes_the_older_one(tmp_path: Path) -> None:
    writer = _RotatedLines(tmp_path / "system.jsonl", limit_bytes=100)
    for number in range(40):
        writer.append({"number": number})
    kept = [
        json.loads(line)["number"] for name in ("system.1.jsonl", "system.jsonl") for line in lines(tmp_path / name)
    ]
    assert kept == list(range(kept[0], 40))
    assert (tmp_path / "system.jsonl").stat().st_size <= 120


@pytest.mark.faults
def test_a_front_end_learns_of_a_sampler_that_dies_or_hangs_and_never_waits_for_it() -> None:
    code = "import os, time; time.sleep(600)"
    with SamplerProcess(patience_s=0.2, command=(sys.executable, "-c", code)) as hanging:
        wait_for(lambda: "has not answered" in hanging.newest()[1])
        assert hanging.newest()[0] is None
    with SamplerProcess(command=(sys.executable, "-c", "import os; os.abort()")) as dying:
        wait_for(lambda: "ended with code -6" in dying.newest()[1])


@pytest.mark.faults
def test_the_newest_sample_stays_with_a_reason_when_the_sampler_is_killed() -> None:
    with SamplerProcess(interval_s=0.05) as sampler:
        sample, reason = sampler.wait(PATIENCE_S)
        assert sample is not None and reason == ""
        assert sampler._child is not None
        os.kill(sampler._child.pid, signal.SIGKILL)
        wait_for(lambda: sampler.newest()[1] == "the sampler ended with code -9")
        assert sampler.newest()[0] is not None


def test_the_peak_of_this_cpu_is_that_of_a_machine_and_not_of_an_interpreter(home: Home) -> None:
    assert cpu_peak(home, seconds=0.05) > 1e9


def test_the_peak_is_measured_while_every_core_is_busy(home: Home, tmp_path: Path) -> None:
    spin = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        busy = cpu_peak(Home(tmp_path), seconds=0.3)
    finally:
        for child in spin:
            child.kill()
            child.wait()
    assert busy > 0.5 * cpu_peak(home, seconds=0.3)


def test_the_best_measurement_of_this_kind_of_cpu_is_remembered(home: Home) -> None:
    assert cpu_peak(home, seconds=0.01) > 0
    (file,) = home.cache.iterdir()
    (cpu,) = json.loads(file.read_text())
    file.write_text(json.dumps({cpu: 1e30, "another": 1e40}))
    assert cpu_peak(home, seconds=0.01) == 1e30
    file.write_text("torn {")
    assert 0 < cpu_peak(home, seconds=0.01) < 1e20


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait_for(condition: object) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)
