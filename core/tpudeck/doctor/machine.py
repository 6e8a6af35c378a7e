"""Checks of the machine: chips and who holds them, what kills detached runs, and what runs out."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

from tpudeck.doctor.findings import Finding, Level
from tpudeck.doctor.surroundings import Surroundings
from tpudeck.units import format_bytes, format_duration

__all__ = [
    "check_chips",
    "check_disk",
    "check_lock_file",
    "check_logind",
    "check_memory",
    "check_metadata",
    "check_tmux",
    "memory_bytes",
]

_GIB = 1024**3


def check_chips(here: Surroundings) -> Iterator[Finding]:
    """Which chips are here, whether they can be opened, and who has them open."""
    chips = here.chips()
    if not chips:
        yield Finding("chips", "ok", "no TPU chips in this machine")
        return
    names = sorted({found.chip.name if found.chip else "unknown" for found in chips})
    yield Finding("chips", "ok", f"{len(chips)} TPU chips: {', '.join(names)}")
    if any(found.chip and not found.chip.tensorflow for found in chips):
        yield Finding("chips", "error", f"TensorFlow does not run on {', '.join(names)}", "use a v2 to v6e")
    absent = [
        found.device_file for found in chips if found.device_file and not _below(here, found.device_file).exists()
    ]
    if absent:
        yield Finding(
            "chips",
            "error",
            f"{', '.join(absent)} is missing, so the chips cannot be opened",
            "in a container: run it with --privileged, or pass each /dev/accel* or /dev/vfio",
        )
    holders, hidden = here.holders()
    for pid in sorted({holder.pid for holder in holders}):
        held = [holder for holder in holders if holder.pid == pid]
        files = ", ".join(holder.device_file for holder in held)
        yield Finding(
            "chips",
            "warning",
            f"process {pid} holds {files}: {held[0].command}",
            f"wait for it, or stop it (kill {pid})",
        )
    if not holders and hidden:
        yield Finding(
            "chips",
            "note",
            f"nobody was seen to hold them, but {hidden} processes belong to other users",
            "sudo tpudeck doctor sees those too",
        )


def _below(here: Surroundings, path: str) -> Path:
    return here.root / path.lstrip("/")


def check_lock_file(here: Surroundings) -> Iterator[Finding]:
    """The file by which libtpu keeps two processes from one chip. Never removed for anybody: only explained."""
    lock = here.temporary / "libtpu_lockfile"
    if not lock.exists():
        return
    holders, hidden = here.holders()
    if holders:
        pids = ", ".join(str(pid) for pid in sorted({holder.pid for holder in holders}))
        yield Finding("lock", "note", f"{lock} belongs to a process that holds the chips ({pids})")
    elif hidden:
        yield Finding(
            "lock",
            "warning",
            f"{lock} is there; its holder may be one of {hidden} processes of other users",
            "sudo tpudeck doctor tells; don't remove it before",
        )
    elif not os.access(lock, os.W_OK):
        yield Finding(
            "lock",
            "error",
            f"{lock} belongs to another user, keeps you from the chips, and nobody holds one",
            f"sudo rm {lock}",
        )
    else:
        yield Finding("lock", "warning", f"{lock} is left over: nobody holds a chip", f"safe to remove: rm {lock}")


def check_logind(here: Surroundings) -> Iterator[Finding]:
    """Whether the system kills what a user started when the user logs out."""
    files = ["etc/systemd/logind.conf"]
    extra = here.root / "etc/systemd/logind.conf.d"
    files += sorted(str(path.relative_to(here.root)) for path in extra.glob("*.conf")) if extra.is_dir() else []
    settings = re.findall(r"^\s*KillUserProcesses\s*=\s*(\w+)", "\n".join(map(here.read, files)), re.MULTILINE)
    lingers = (here.root / "var/lib/systemd/linger" / here.user).exists()
    if settings and settings[-1].lower() in {"yes", "true", "1", "on"} and not lingers:
        yield Finding(
            "logind",
            "warning",
            "KillUserProcesses=yes: your runs are killed when you log out, in tmux too",
            "loginctl enable-linger, then start runs with systemd-run --user tpudeck run …",
        )


def check_tmux(here: Surroundings) -> Iterator[Finding]:
    """Whether tmux is told to close what nobody looks at."""
    home = Path(here.environ.get("HOME", "~"))
    settings = Path(here.environ.get("XDG_CONFIG_HOME") or home / ".config")
    for file in (here.root / "etc/tmux.conf", home / ".tmux.conf", settings / "tmux/tmux.conf"):
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        found = re.findall(r"^\s*set(?:-option)?\b.*\b(destroy-unattached|exit-unattached)\s+(\S+)", text, re.MULTILINE)
        for option, value in dict(found).items():
            if value.strip("\"'").lower() not in {"off", "0"}:
                yield Finding(
                    "tmux",
                    "warning",
                    f"{option} {value} in {file}: what runs in tmux ends when you detach",
                    f"set -g {option} off; or start runs with --detach: those are outside of tmux",
                )


def check_disk(here: Surroundings) -> Iterator[Finding]:
    """Room, and whether locks can be trusted, where runs live."""
    folder = here.home.root
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    level: Level = "error" if free < _GIB else "warning" if free < 5 * _GIB else "ok"
    fix = "" if level == "ok" else "remove old runs (tpudeck runs delete), or set TPUDECK_HOME to a larger disk"
    yield Finding("disk", level, f"{format_bytes(free)} free for {here.home.root}", fix)
    if not os.access(folder, os.W_OK):
        yield Finding("disk", "error", f"{folder} cannot be written to", "set TPUDECK_HOME to a folder of yours")
    kind = _file_system(here, folder)
    if kind in {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "fuse.gcsfuse", "9p", "lustre"}:
        yield Finding(
            "disk",
            "warning",
            f"{here.home.root} is on {kind}, where locks cannot be trusted",
            "set TPUDECK_HOME to a local disk; push results to a bucket",
        )


def _file_system(here: Surroundings, folder: Path) -> str:
    """The type of the file system a folder is on, by the longest mount point that contains it."""
    mounts = [line.split()[1:3] for line in here.read("proc/mounts").splitlines() if len(line.split()) > 2]
    holding = [(point, kind) for point, kind in mounts if folder.is_relative_to(point.replace("\\040", " "))]
    return max(holding, key=lambda mount: len(mount[0]), default=("", ""))[1]


def memory_bytes(here: Surroundings) -> tuple[int, bool]:
    """What may be used, zero where nobody says; and whether a container limits it."""
    stated = re.search(r"MemTotal:\s+(\d+) kB", here.read("proc/meminfo"))
    total = int(stated[1]) * 1024 if stated else 0
    limit = here.read("sys/fs/cgroup/memory.max").strip()
    contained = limit.isdecimal() and 0 < int(limit) < total
    return (int(limit) if contained else total), contained


def check_memory(here: Surroundings) -> Iterator[Finding]:
    """Memory of the machine, or of the container it is."""
    total, contained = memory_bytes(here)
    if contained:
        yield Finding("memory", "note", f"this container may use {format_bytes(total)}")
    if total:
        low = total < 2 * _GIB
        fix = "training needs about 2 GiB: use a larger machine" if low else ""
        yield Finding("memory", "warning" if low else "ok", f"{format_bytes(total)} of memory", fix)


def check_metadata(here: Surroundings) -> Iterator[Finding]:
    """On Google Cloud: whether the metadata server answers, and by its date, whether our clock is right."""
    if not here.on_google_cloud:
        return
    import urllib.error
    import urllib.request

    host = here.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/attributes/accelerator-type"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked = time.time()
    try:
        with opener.open(request, timeout=here.metadata_timeout_s) as response:
            kind, date = response.read(100).decode(errors="replace"), response.headers.get("Date")
    except urllib.error.HTTPError as error:
        kind, date = "", error.headers.get("Date")
    except OSError as error:
        reason = getattr(error, "reason", error)
        yield Finding(
            "metadata",
            "warning",
            f"the metadata server {host} does not answer: {reason}",
            "in a container: --net=host; else set TPU_ACCELERATOR_TYPE, TPU_WORKER_ID=0 and "
            "TPU_WORKER_HOSTNAMES=localhost",
        )
        return
    yield Finding("metadata", "ok", f"this is a {kind}" if kind else "this machine is not a TPU VM")
    skew_s = abs(parsedate_to_datetime(date).timestamp() - asked) if date else 0.0
    if skew_s > 60:
        yield Finding(
            "clock",
            "error",
            f"the clock is wrong by {format_duration(skew_s)}: credentials will be refused",
            "sudo systemctl restart systemd-timesyncd chrony",
        )
