"""Error texts of TensorFlow, libtpu, the cloud and the Hub: what they mean and what to do.

The texts are those that these systems print; the causes are read in their sources and documentation, and some were
provoked here. A text may have several explanations, and an explanation may fit several texts of one failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass

from tpudeck.units import format_bytes

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """One known failure, found in a text."""

    line: str
    """The line in which it was found."""
    cause: str
    fix: str

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class _Known:
    pattern: re.Pattern[str]
    cause: str | Callable[[re.Match[str]], str]
    fix: str | Callable[[re.Match[str]], str]


def _known(
    pattern: str, cause: str | Callable[[re.Match[str]], str], fix: str | Callable[[re.Match[str]], str]
) -> _Known:
    return _Known(re.compile(pattern), cause, fix)


_BYTES = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4}


def _times_too_large(match: re.Match[str]) -> float:
    used, available = (float(match[n]) * _BYTES[match[n + 1]] for n in (1, 3))
    return used / available


_LOCAL = "on a TPU VM set device.name = local; for a node give device.name, device.zone and device.project"

KNOWN: tuple[_Known, ...] = (
    _known(
        r"not available in this library",
        "libtpu is newer than this TensorFlow can use, and ends the process when it is imported",
        "pip install tensorflow-tpu==2.20.0 libtpu==0.0.21",
    ),
    _known(
        r"Failed to open libtpu",
        "libtpu is not installed; harmless on a machine without a TPU",
        "on a TPU VM: pip install tensorflow-tpu==2.20.0 libtpu==0.0.21 (docs/tpu.md has the whole installation)",
    ),
    _known(
        r"TPU is already in use by process with pid (\d+)",
        lambda match: f"process {match[1]} holds the TPU, and a chip belongs to one process at a time",
        lambda match: f"wait for process {match[1]}, or stop it: kill {match[1]}",
    ),
    _known(
        r"Internal error when accessing libtpu multi-process lockfile",
        "libtpu's lock file is held by a process, left over from one, or another user's",
        "`tpudeck doctor` names the holder, and says when the file is safe to remove",
    ),
    _known(
        r"Failed to get global TPU topology",
        "the runtime cannot see all chips: the VM's image does not fit the chip, this is one worker of a larger slice, "
        "/dev is missing in a container, or an earlier process has not let go yet",
        "`tpudeck doctor` shows chips, holders and /dev; images: v6e v2-alpha-tpuv6e, v5p v2-alpha-tpuv5, "
        "v5e v2-alpha-tpuv5-lite, older tpu-ubuntu2204-base",
    ),
    _known(
        r"No TPU_SYSTEM device found|TPUs not found in the cluster|ConfigureDistributedTPU",
        "TensorFlow sees no TPU: this is no TPU host, it is a build without TPU support, or libtpu was not loaded",
        "`tpudeck doctor` says which of the three",
    ),
    _known(r"Please provide a TPU Name", "no TPU was named", _LOCAL),
    _known(
        r"Could not lookup TPU metadata",
        "the Cloud TPU API does not know this name: the name, the zone or the project is wrong, the API is off, or the "
        "credentials do not reach it",
        _LOCAL,
    ),
    _known(
        r"could not determine TPU accelerator type",
        "the metadata server cannot be reached, so libtpu does not know the chip",
        "on a TPU VM check that metadata.google.internal answers (in a container: --net=host); else set "
        "TPU_ACCELERATOR_TYPE, TPU_WORKER_ID=0 and TPU_WORKER_HOSTNAMES=localhost. Harmless without a TPU",
    ),
    _known(
        r"File system scheme '\[local\]' not implemented",
        "a TPU node was asked to read or write a file of this machine; it runs elsewhere and sees only buckets",
        "use a TPU VM (device.name = local), or keep corpus and runs on gs://",
    ),
    _known(
        r"(\S+@\S+gserviceaccount\.com) does not have (storage\.[\w.]+)",
        lambda match: f"the service account {match[1]} lacks the permission {match[2]}",
        lambda match: (
            "gcloud storage buckets add-iam-policy-binding gs://BUCKET "
            f"--member=serviceAccount:{match[1]} --role=roles/storage.objectAdmin"
        ),
    ),
    _known(
        r"does not have storage\.(?:objects|buckets)\.",
        "the account lacks a permission on the bucket",
        "grant it roles/storage.objectAdmin on the bucket; on a TPU VM the account is the VM's service account",
    ),
    _known(
        r"Attempting an empty bearer token|DefaultCredentialsError|default credentials were not found",
        "there are no application-default credentials for Google Cloud",
        "gcloud auth application-default login; off the cloud, for public buckets, NO_GCE_CHECK=true",
    ),
    _known(
        r"Ran out of memory in memory space hbm[.:]?\s+Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?)",
        lambda match: (
            f"the step needs {match[1]}{match[2]} and the chip has {match[3]}{match[4]}: "
            f"{_times_too_large(match):.2f} times as much"
        ),
        lambda match: (
            "halve the batch per replica and double train.accumulation_steps, or train.precision = bfloat16; as "
            f"a first guess {1 / _times_too_large(match):.0%} of the batch fits; `tpudeck preflight` asks the compiler"
        ),
    ),
    _known(
        r"Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\)",
        lambda match: (
            f"a single array of the step needs {format_bytes(int(match[1]))} and the chip has "
            f"{format_bytes(int(match[2]))}"
        ),
        "a much smaller batch per replica, with more train.accumulation_steps",
    ),
    _known(
        r"Detected unsupported operations|must be a compile-time constant",
        "the step has an operation or a shape that the TPU compiler cannot take: text, or a size that is not constant",
        "keep shapes static; with a class given by its full name, try one of the tested families",
    ),
    _known(
        r"Socket closed|Unable to find a context_id",
        "the TPU worker went away: restarted, preempted, or its host ran out of memory",
        "tpudeck runs resume RUN goes on from the last checkpoint",
    ),
    _known(
        r"CUDA_ERROR_NO_DEVICE|failed call to cuInit|Cannot dlopen some GPU libraries",
        "TensorFlow cannot use a GPU here; harmless when training on a CPU or TPU",
        "pip install 'tensorflow[and-cuda]==2.20.*', and check nvidia-smi",
    ),
    _known(
        r"CUDA_ERROR_OUT_OF_MEMORY|OOM when allocating tensor|RESOURCE_EXHAUSTED: Out of memory",
        "the step needs more memory than the device has",
        "a smaller batch per replica with more train.accumulation_steps, or train.precision = bfloat16",
    ),
    _known(
        r"Your currently installed version of Keras is Keras 3",
        "Transformers' TensorFlow models need the older Keras",
        "pip install tf-keras==2.20.1 (beside tensorflow-tpu: with --no-deps)",
    ),
    _known(r"No space left on device", "the disk is full", "make room; the run goes on from its last checkpoint"),
    _known(
        r"429 Client Error|Too Many Requests",
        "the Hub answers too many requests from this address",
        "wait a few minutes; a token (HF_TOKEN) raises the limit",
    ),
    _known(
        r"GatedRepoError|401 Client Error|RepositoryNotFoundError",
        "the Hub does not show this repository to us: it is private or gated, or its name is wrong",
        "check the name; hf auth login, and ask for access on the repository's page",
    ),
)
"""In order: the first that fits a line wins."""


def explain(text: str) -> list[Explanation]:
    """The known failures in a log, each cause once, in the order in which they appear."""
    found: dict[str, Explanation] = {}
    for line in text.splitlines():
        for known in KNOWN:
            if match := known.pattern.search(line):
                cause = known.cause if isinstance(known.cause, str) else known.cause(match)
                fix = known.fix if isinstance(known.fix, str) else known.fix(match)
                found.setdefault(cause, Explanation(line.strip()[:500], cause, fix))
                break
    return list(found.values())
