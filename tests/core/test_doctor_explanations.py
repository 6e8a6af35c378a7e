"""Error texts as they are printed, and what the doctor says of each."""

# ruff: noqa: E501 (what is printed on one line stays on one line)

from __future__ import annotations

import pytest

from tpudeck.doctor import explain

TEXTS = [
    (
        "F0000 00:00:1728 4242 tpu_library_init_fns.inc:52] TfTpu_Initialize not available in this library.",
        "libtpu is newer",
        "libtpu==0.0.21",
    ),
    (
        "I tpu_initializer: Failed to open libtpu: libtpu.so: cannot open shared object file",
        "not installed",
        "docs/tpu.md",
    ),
    (
        "RuntimeError: The TPU is already in use by process with pid 4711. Not attempting to load libtpu.so",
        "process 4711 holds",
        "kill 4711",
    ),
    (
        'ABORTED: Internal error when accessing libtpu multi-process lockfile. Run "$ sudo rm /tmp/libtpu_lockfile".',
        "lock file is held",
        "names the holder",
    ),
    (
        "RuntimeError: UNKNOWN: TPU initialization failed: Failed to get global TPU topology.",
        "cannot see all chips",
        "v2-alpha",
    ),
    ("NotFoundError: No TPU_SYSTEM device found in the cluster", "sees no TPU", "which of the three"),
    (
        "No OpKernel was registered to support Op 'ConfigureDistributedTPU' used by {{node ConfigureDistributedTPU}}",
        "sees no TPU",
        "which of the three",
    ),
    ("RuntimeError: TPUs not found in the cluster. Failed in initialization", "sees no TPU", "which of the three"),
    ("ValueError: Please provide a TPU Name to connect to.", "no TPU was named", "device.name = local"),
    (
        "ValueError: Could not lookup TPU metadata from name 'my-tpu'. Please doublecheck the tpu argument",
        "does not know this name",
        "local",
    ),
    (
        "WARNING: could not determine TPU accelerator type, please set env var `TPU_ACCELERATOR_TYPE` manually",
        "metadata server",
        "TPU_ACCELERATOR_TYPE",
    ),
    (
        "UnimplementedError: File system scheme '[local]' not implemented (file: '/home/me/shards/x.tfrecord')",
        "sees only buckets",
        "gs://",
    ),
    (
        "PermissionDeniedError: service-123@cloud-tpu.iam.gserviceaccount.com does not have storage.objects.get access to the Google Cloud Storage object.",
        "service-123@cloud-tpu.iam.gserviceaccount.com lacks the permission storage.objects.get",
        "serviceAccount:service-123@cloud-tpu.iam.gserviceaccount.com",
    ),
    ("403: me@example.com does not have storage.buckets.get access", "lacks a permission on the bucket", "objectAdmin"),
    (
        "All attempts to get a Google authentication bearer token failed. Attempting an empty bearer token instead.",
        "no application-default",
        "NO_GCE_CHECK",
    ),
    (
        "google.auth.exceptions.DefaultCredentialsError: Your default credentials were not found.",
        "no application-default",
        "login",
    ),
    (
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 20.93G of 15.48G hbm. Exceeded hbm capacity by 5.45G.",
        "needs 20.93G and the chip has 15.48G: 1.35 times as much",
        "74% of the batch",
    ),
    (
        "RESOURCE_EXHAUSTED: Allocation (size=68719476736) would exceed memory (size=17179869184) :: #allocation419",
        "a single array of the step needs 64.0 GiB and the chip has 16.0 GiB",
        "smaller batch",
    ),
    ("Ran out of memory in memory space hbm. Used 900.00M of 0.50G hbm.", "1.76 times", "57%"),
    ("InvalidArgumentError: Detected unsupported operations when trying to compile graph", "cannot take", "static"),
    ("Input 1 to node `Reshape` with op Reshape must be a compile-time constant.", "cannot take", "static"),
    ("UnavailableError: Socket closed", "went away", "resume"),
    ("InvalidArgumentError: Unable to find a context_id matching the specified one (123)", "went away", "resume"),
    (
        "W cuda_executor.cc] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit",
        "cannot use a GPU",
        "nvidia-smi",
    ),
    (
        "ResourceExhaustedError: OOM when allocating tensor with shape[32,12,512,512]",
        "more memory than the device has",
        "smaller batch",
    ),
    (
        "ValueError: Your currently installed version of Keras is Keras 3, but this is not yet supported in Transformers.",
        "older Keras",
        "tf-keras",
    ),
    ("OSError: [Errno 28] No space left on device", "disk is full", "make room"),
    ("huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests", "too many requests", "HF_TOKEN"),
    ("huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.", "does not show", "login"),
]


@pytest.mark.parametrize(("text", "cause", "fix"), TEXTS)
def test_a_known_text_has_its_cause_and_its_fix(text: str, cause: str, fix: str) -> None:
    (found,) = explain(f'Traceback (most recent call last):\n  File "x.py", line 1\n{text}\n')
    assert cause in found.cause
    assert fix in found.fix
    assert found.line == text


def test_a_failure_told_in_several_lines_is_explained_once_and_in_order() -> None:
    log = "Socket closed\nFailed to get global TPU topology.\nUnable to find a context_id\n"
    assert [found.line for found in explain(log)] == ["Socket closed", "Failed to get global TPU topology."]


def test_an_ordinary_log_has_nothing_to_explain() -> None:
    assert explain("step 100 loss 3.2 [ok]\nsaved checkpoint\n" * 100) == []


def test_a_very_long_line_is_shown_shortened() -> None:
    (found,) = explain("x" * 5000 + " Socket closed")
    assert len(found.line) == 500
