"""What the doctor finds on machines that are made up, and what it refuses."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tpudeck import launch
from tpudeck.config import Home
from tpudeck.doctor import Finding, Surroundings, examine, refusals, refuse_what_cannot_start, refuse_what_cannot_work
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.presets import Experiment, experiment_from

GOOD = {
    "tensorflow": "2.20.0", "tf-keras": "2.20.1", "transformers": "4.57.6", "tokenizers": "0.22.2",
    "datasets": "5.0.1", "numpy": "2.4.6", "textual": "8.2.8",
}  # fmt: skip
TPU = {name: version for name, version in GOOD.items() if name != "tensorflow"} | {
    "tensorflow-tpu": "2.20.0",
    "libtpu": "0.0.21",
}


@pytest.fixture
def here(tmp_path: Path) -> Surroundings:
    """A healthy machine without a TPU."""
    root = tmp_path / "root"
    for folder in ("sys", "proc", "dev", "etc", "tmp", "home"):
        (root / folder).mkdir(parents=True)
    (root / "proc" / "meminfo").write_text("MemTotal:       16384000 kB\n")
    return Surroundings(
        home=Home(root / "home" / "deck"),
        environ={
            "TERM": "xterm-256color",
            "LANG": "en_US.UTF-8",
            "HOME": str(root / "home"),
            "HF_TOKEN": "x",
            "HF_HUB_OFFLINE": "1",
        },
        versions=GOOD,
        python=(3, 12),
        user="ada",
        root=root,
        temporary=root / "tmp",
    )


def with_chips(here: Surroundings, count: int = 1, *, device: str = "0x0063", files: bool = True) -> Surroundings:
    for chip in range(count):
        folder = here.root / "sys/bus/pci/devices" / f"0000:00:0{chip}.0"
        folder.mkdir(parents=True)
        for name, value in (("vendor", "0x1ae0"), ("device", device), ("subsystem_device", "0x0")):
            (folder / name).write_text(value)
        (folder / "iommu_group").symlink_to(f"../../groups/{chip}")
        if files:
            (here.root / "dev/vfio").mkdir(exist_ok=True)
            (here.root / "dev/vfio" / str(chip)).touch()
    return here


def with_holder(here: Surroundings, pid: int = 4711) -> Surroundings:
    folder = here.root / "proc" / str(pid) / "fd"
    folder.mkdir(parents=True)
    (folder / "3").symlink_to("/dev/vfio/0")
    (folder.parent / "cmdline").write_bytes(b"python\0train.py\0")
    return here


def found(here: Surroundings, check: str) -> list[Finding]:
    return [finding for finding in examine(here) if finding.check == check and finding.level != "ok"]


def only(here: Surroundings, check: str) -> Finding:
    (finding,) = found(here, check)
    return finding


def test_a_healthy_machine_has_no_warnings_and_no_errors(here: Surroundings) -> None:
    assert [finding for finding in examine(here) if finding.level in {"warning", "error"}] == []


def test_whatever_is_not_ok_has_a_fix_and_whatever_will_not_work_is_an_error(here: Surroundings) -> None:
    broken = replace(here, versions={}, python=(3, 9), environ={"TERM": "dumb", "HOME": "/nowhere"})
    findings = examine(with_holder(with_chips(broken, device="0x0076", files=False)))
    assert all(finding.fix for finding in findings if finding.level in {"warning", "error"})
    assert {finding.check for finding in findings if finding.level == "error"} == {"python", "packages", "chips"}


@pytest.mark.parametrize(
    ("versions", "level", "message", "fix"),
    [
        (
            {"tensorflow-tpu": "2.20.0", "tensorflow": "2.20.0", "libtpu": "0.0.21"},
            "error",
            "the TPU may be lost",
            "pip uninstall tensorflow tensorflow-tpu",
        ),
        (
            {"tensorflow-tpu": "2.20.0", "tensorflow-cpu": "2.20.0", "libtpu": "0.0.21"},
            "error",
            "the TPU may be lost",
            "--no-deps",
        ),
        ({"transformers": "5.2.0"}, "error", "no TensorFlow models", "transformers>=4.57,<5"),
        ({"tf-keras": "2.19.0"}, "error", "does not go with tensorflow 2.20.0", "tf-keras==2.20"),
        ({"tensorflow": "2.19.1", "tf-keras": "2.19.0"}, "warning", "not the 2.20", "2.20"),
    ],
)
def test_packages_that_do_not_go_together_are_named(
    here: Surroundings, versions: dict[str, str], level: str, message: str, fix: str
) -> None:
    finding = only(replace(here, versions=GOOD | versions), "packages")
    assert finding.level == level and message in finding.message and fix in finding.fix


@pytest.mark.parametrize(
    ("libtpu", "aborts"), [("0.0.20", True), ("0.0.21", False), ("0.0.31", False), ("0.0.32", True), ("0.1.0", True)]
)
def test_a_libtpu_that_would_abort_tensorflow_is_an_error(here: Surroundings, libtpu: str, aborts: bool) -> None:
    findings = found(replace(here, versions=TPU | {"libtpu": libtpu}), "packages")
    assert any("abort" in finding.message for finding in findings) == aborts


def test_chips_without_the_tensorflow_that_uses_them_are_an_error(here: Surroundings) -> None:
    assert "no TensorFlow that uses them" in only(with_chips(here), "packages").message
    assert found(replace(here, versions=TPU), "packages") == []


def test_who_holds_the_chips_is_named(here: Surroundings) -> None:
    finding = only(with_holder(with_chips(replace(here, versions=TPU))), "chips")
    assert finding.message == "process 4711 holds /dev/vfio/0: python train.py"
    assert "kill 4711" in finding.fix


def test_a_container_without_device_files_is_told(here: Surroundings) -> None:
    finding = only(with_chips(replace(here, versions=TPU), files=False), "chips")
    assert "/dev/vfio/0 is missing" in finding.message and "--privileged" in finding.fix


def test_a_lock_file_is_safe_to_remove_only_where_nobody_holds_a_chip(here: Surroundings) -> None:
    lock = here.temporary / "libtpu_lockfile"
    lock.touch()
    assert only(with_chips(replace(here, versions=TPU)), "lock").fix == f"safe to remove: rm {lock}"
    held = only(with_holder(here), "lock")
    assert held.level == "note" and "4711" in held.message and not held.fix


@pytest.mark.parametrize(
    ("environ", "check", "words"),
    [
        ({"LANG": "C"}, "terminal", "charts need UTF-8"),
        ({"LC_ALL": "POSIX"}, "terminal", "charts need UTF-8"),
        ({"TERM": "dumb"}, "terminal", "cannot draw"),
        ({"TERM": "screen", "TMUX": "/tmp/x"}, "terminal", "16 colours"),
        ({"TPU_LOAD_LIBRARY": "0"}, "variables", "keeps TensorFlow from seeing a TPU"),
        ({"TPU_LIBRARY_PATH": "/nowhere/libtpu.so"}, "variables", "which is not there"),
        ({"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere.json"}, "credentials", "which is not there"),
    ],
)
def test_variables_that_change_what_happens_are_told(
    here: Surroundings, environ: dict[str, str], check: str, words: str
) -> None:
    findings = found(replace(here, environ={**here.environ, **environ}), check)
    assert any(words in finding.message for finding in findings)


def test_logind_that_kills_runs_at_logout_is_told_unless_the_user_lingers(here: Surroundings) -> None:
    (here.root / "etc/systemd/logind.conf.d").mkdir(parents=True)
    (here.root / "etc/systemd/logind.conf").write_text("[Login]\n#KillUserProcesses=yes\n")
    assert found(here, "logind") == []
    (here.root / "etc/systemd/logind.conf.d/10.conf").write_text("[Login]\nKillUserProcesses=yes\n")
    assert "enable-linger" in only(here, "logind").fix
    (here.root / "var/lib/systemd/linger").mkdir(parents=True)
    (here.root / "var/lib/systemd/linger/ada").touch()
    assert found(here, "logind") == []


def test_tmux_that_closes_what_nobody_looks_at_is_told(here: Surroundings) -> None:
    file = Path(here.environ["HOME"]) / ".tmux.conf"
    file.write_text("# set -g destroy-unattached on\nset -g destroy-unattached off\nset -g mouse on\n")
    assert found(here, "tmux") == []
    file.write_text("set-option -g  destroy-unattached on\n")
    assert "ends when you detach" in only(here, "tmux").message and "--detach" in only(here, "tmux").fix


class Hub(http.server.BaseHTTPRequestHandler):
    """A Hub that knows one token."""

    def do_GET(self) -> None:
        known = self.path == "/api/whoami-v2" and self.headers["Authorization"] == "Bearer good"
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(b'{"name": "ada"}' if known else b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def with_token(here: Surroundings, token: str, endpoint: str) -> Surroundings:
    environ = {key: value for key, value in here.environ.items() if key != "HF_HUB_OFFLINE"}
    return replace(here, environ=environ | {"HF_TOKEN": token, "HF_ENDPOINT": endpoint})


def test_the_hub_says_whether_it_knows_the_token(here: Surroundings, hub: str) -> None:
    assert "the Hub knows you as ada" in [finding.message for finding in examine(with_token(here, "good", hub))]
    refused = only(with_token(here, "old", hub), "hub")
    assert refused.level == "error" and "hf auth login" in refused.fix


def test_a_hub_that_does_not_answer_is_a_warning(here: Surroundings) -> None:
    silent = only(with_token(here, "good", "http://127.0.0.1:9"), "hub")
    assert silent.level == "warning" and "does not answer" in silent.message


def with_store(here: Surroundings, home: Home, store: str) -> Surroundings:
    home.settings_file.write_text(f'[storage]\nproject = "p"\nstore = "{store}"\n')
    return replace(here, home=home)


def test_the_bucket_that_is_set_up_is_looked_into(here: Surroundings, home: Home, object_store: Any) -> None:
    readable = examine(with_store(here, home, "gs://bucket/team"))
    assert "gs://bucket/team can be read" in [finding.message for finding in readable]
    absent = only(with_store(here, home, "gs://nowhere/team"), "store")
    assert absent.level == "error" and "is not there" in absent.message


def test_a_bucket_that_does_not_answer_is_a_warning(
    here: Surroundings, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    silent = only(with_store(here, home, "gs://bucket/team"), "store")
    assert silent.level == "warning" and "does not answer" in silent.message


def test_settings_that_are_wrong_are_a_finding_and_no_crash(here: Surroundings, home: Home) -> None:
    home.settings_file.write_text("[storage]\nbogus = 1\n")
    assert "bogus" in only(replace(here, home=home), "store").message


def test_a_home_on_a_network_disk_is_told(here: Surroundings) -> None:
    (here.root / "proc/mounts").write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {here.home.root.parent} nfs4 rw 0 0\n")
    assert "is on nfs4" in only(here, "disk").message


def test_the_memory_of_a_container_is_its_limit(here: Surroundings) -> None:
    (here.root / "sys/fs/cgroup").mkdir(parents=True)
    (here.root / "sys/fs/cgroup/memory.max").write_text("1073741824\n")
    messages = [finding.message for finding in found(here, "memory")]
    assert messages == ["this container may use 1.0 GiB", "1.0 GiB of memory"]


@contextmanager
def metadata_server(*, status: int = 200, skew_s: float = 0, silent: bool = False) -> Iterator[str]:
    release = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if silent:
                release.wait(60)
                return
            assert self.headers["Metadata-Flavor"] == "Google"
            self.send_response_only(status)
            self.send_header("Date", formatdate(time.time() + skew_s, usegmt=True))
            self.end_headers()
            self.wfile.write(b"v5litepod-8" if status == 200 else b"")

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"localhost:{server.server_port}"
    finally:
        release.set()
        server.shutdown()
        server.server_close()


def on_cloud(here: Surroundings, host: str, *, timeout_s: float = 60) -> Surroundings:
    return replace(here, environ={**here.environ, "GCE_METADATA_HOST": host}, metadata_timeout_s=timeout_s)


def test_the_metadata_server_tells_what_the_machine_is(here: Surroundings) -> None:
    with metadata_server() as host:
        findings = examine(on_cloud(here, host))
    assert "this is a v5litepod-8" in [finding.message for finding in findings]
    with metadata_server(status=404) as host:
        findings = examine(on_cloud(here, host))
    assert "this machine is not a TPU VM" in [finding.message for finding in findings]


def test_a_clock_that_is_wrong_is_found_by_the_metadata_servers(here: Surroundings) -> None:
    with metadata_server(skew_s=3600) as host:
        finding = only(on_cloud(here, host), "clock")
    assert finding.level == "error" and "credentials will be refused" in finding.message


def test_a_metadata_server_that_hangs_or_is_not_there_is_told(here: Surroundings) -> None:
    with metadata_server(silent=True) as host:
        assert "does not answer" in only(on_cloud(here, host, timeout_s=0.5), "metadata").message
    assert "does not answer" in only(on_cloud(here, "localhost:9"), "metadata").message


def experiment(**device: Any) -> Experiment:
    return experiment_from({"train": {"steps": 1, "replica_batch_size": 8}, "device": device})


def test_a_cpu_run_is_refused_nothing(here: Surroundings) -> None:
    refuse_what_cannot_work(experiment(kind="cpu"), with_holder(with_chips(here)))


@pytest.mark.parametrize(
    ("versions", "device", "words"),
    [
        (TPU | {"tensorflow": "2.20.0"}, {"kind": "tpu"}, "the TPU may be lost"),
        (TPU | {"libtpu": "0.0.40"}, {"kind": "auto"}, "abort"),
        (TPU, {"kind": "tpu", "name": "my-node", "zone": "us-central1-b"}, "sees only buckets"),
        (TPU, {"kind": "tpu", "name": "grpc://10.0.0.2:8470"}, "sees only buckets"),
        (TPU, {"kind": "tpu", "accelerator": "v5e-16"}, "several hosts"),
        (TPU, {"kind": "tpu", "accelerator": "v4-16"}, "several hosts"),
    ],
)
def test_what_cannot_work_on_a_tpu_is_refused_with_the_reason(
    here: Surroundings, versions: dict[str, str], device: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        refuse_what_cannot_work(experiment(**device), with_chips(replace(here, versions=versions)))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("versions", "device", "words"),
    [
        (GOOD, {"kind": "tpu"}, "this machine has no TPU, got device.kind = tpu"),
        (TPU, {"kind": "auto"}, "this machine has no TPU, and the TensorFlow that is installed is built for one"),
        (GOOD, {"kind": "gpu"}, "this machine has no GPU, got device.kind = gpu"),
    ],
)
def test_a_device_that_is_not_there_is_refused_in_plain_words(
    here: Surroundings, versions: dict[str, str], device: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        refuse_what_cannot_work(experiment(**device), replace(here, versions=versions))
    assert caught.value.hint


def test_a_container_that_hides_the_bus_is_believed_to_have_the_tpu_that_its_host_speaks_of(here: Surroundings) -> None:
    environ = {**here.environ, "TPU_ACCELERATOR_TYPE": "v5litepod-1"}
    refuse_what_cannot_work(experiment(kind="tpu"), replace(here, versions=TPU, environ=environ))


def test_a_gpu_with_a_device_file_is_refused_nothing_unless_it_is_hidden(here: Surroundings) -> None:
    (here.root / "dev" / "nvidia0").touch()
    refuse_what_cannot_work(experiment(kind="gpu"), here)
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES=-1 hides every GPU"):
        refuse_what_cannot_work(experiment(kind="gpu"), replace(here, environ={"CUDA_VISIBLE_DEVICES": "-1"}))


def test_a_model_whose_state_alone_is_more_than_the_memory_is_refused(here: Surroundings) -> None:
    def shaped(kind: str, layers: int) -> Experiment:
        model = {"layers": layers, "width": 4096, "heads": 32}
        data = {"model": model, "train": {"steps": 1, "replica_batch_size": 1}, "device": {"kind": kind}}
        return experiment_from(data)

    refuse_what_cannot_work(shaped("cpu", 4), here)
    with pytest.raises(InputError, match=r"and this machine has 15\.6 GiB"):
        refuse_what_cannot_work(shaped("cpu", 6), here)
    vm = with_chips(replace(here, versions=TPU))
    refuse_what_cannot_work(shaped("tpu", 4), vm)
    with pytest.raises(InputError, match=r"each device of a v5e has 16\.0 GiB"):
        refuse_what_cannot_work(shaped("tpu", 6), vm)


def test_a_precision_that_the_gpus_lack_is_refused(here: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    (here.root / "dev" / "nvidia0").touch()
    train = {"steps": 1, "replica_batch_size": 8, "precision": "bfloat16"}
    wanted = experiment_from({"train": train, "device": {"kind": "gpu"}})
    for newest, refused in (((7, 5), True), ((8, 0), False)):
        monkeypatch.setattr(refusals, "compute_capabilities", lambda newest=newest, **_: [(7, 0), newest])
        with pytest.raises(InputError, match=r"8\.0 or more, got 7\.5") if refused else contextlib.nullcontext():
            refuse_what_cannot_work(wanted, here)


def test_without_tensorflow_nothing_is_started(here: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "tf_keras" else object())
    with pytest.raises(InputError, match="training needs tf-keras, which is not installed"):
        refuse_what_cannot_work(experiment(kind="cpu"), here)


def test_a_chip_that_tensorflow_does_not_run_on_is_refused(here: Surroundings) -> None:
    with pytest.raises(InputError, match="does not run on 7x"):
        refuse_what_cannot_work(experiment(kind="tpu"), with_chips(replace(here, versions=TPU), device="0x0076"))


def test_a_chip_that_another_process_holds_is_a_matter_of_waiting(here: Surroundings) -> None:
    with pytest.raises(RetryLaterError, match="process 4711 holds the TPU: python train"):
        refuse_what_cannot_start(experiment(kind="tpu"), with_holder(with_chips(replace(here, versions=TPU))))
    refuse_what_cannot_start(experiment(kind="cpu"), here)


def test_a_healthy_tpu_vm_is_refused_nothing(here: Surroundings) -> None:
    healthy = with_chips(replace(here, versions=TPU), 8)
    refuse_what_cannot_start(experiment(kind="tpu", accelerator="v5e-8"), healthy)


def test_a_launch_of_what_cannot_work_writes_nothing(home: Home) -> None:
    with pytest.raises(InputError, match="sees only buckets"):
        launch.create(experiment(kind="tpu", name="grpc://10.0.0.2:8470"), home=home)
    assert not home.runs.exists()
