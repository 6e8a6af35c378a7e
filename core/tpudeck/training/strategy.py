"""Which devices a run trains on, and how TensorFlow spreads it over them.

Everything that differs between a CPU, GPUs and a TPU is decided here. Called once, before anything else touches a
device: threads and virtual devices can't change afterwards, and a TPU can be taken only once.
"""

from __future__ import annotations

import importlib.metadata
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import tensorflow as tf

from tpudeck.doctor import explain
from tpudeck.errors import InputError, RetryLaterError
from tpudeck.parallel import cores
from tpudeck.training.noise import quieted

if TYPE_CHECKING:
    from tpudeck.presets import Experiment
    from tpudeck.presets.schema import Device

__all__ = ["Machine", "connect"]

Kind = Literal["cpu", "gpu", "tpu"]


@dataclass(frozen=True)
class Machine:
    """The devices of a run."""

    kind: Kind
    strategy: tf.distribute.Strategy
    replicas: int
    xla: bool
    """Whether we ask XLA to compile; a TPU always compiles, and must not be asked."""
    threads: int
    """CPU threads for arithmetic."""

    @property
    def name(self) -> str:
        """``cpu``, ``4 gpu``, …: as people say it."""
        return self.kind if self.replicas == 1 else f"{self.replicas} {self.kind}"


def connect(experiment: Experiment) -> Machine:
    """Take the devices that the experiment asks for; :class:`InputError` where there are none of that kind."""
    device, train = experiment.device, experiment.train
    kind = _kind(device)
    quieted(tf.config.list_physical_devices)
    if device.threads:
        tf.config.threading.set_intra_op_parallelism_threads(device.threads)
    strategy = {"cpu": _cpu, "gpu": _gpu, "tpu": _tpu}[kind](device)
    replicas = int(strategy.num_replicas_in_sync)
    if kind == "cpu" and train.xla and replicas > 1:
        raise InputError(
            "several virtual CPU replicas cannot be compiled with XLA, got train.xla = true",
            hint="leave train.xla out, or device.replicas",
        )
    if kind == "gpu" and train.precision == "bfloat16":
        _require_bfloat16()
    xla = train.xla if train.xla is not None else kind == "gpu"
    return Machine(kind, strategy, replicas, xla and kind != "tpu", device.threads or cores())


def _kind(device: Device) -> Kind:
    if device.kind != "auto":
        return device.kind
    if device.name or _has_tpu_build():
        return "tpu"
    return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"


def _has_tpu_build() -> bool:
    """Whether TensorFlow was installed for a TPU."""
    try:
        importlib.metadata.version("tensorflow-tpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return os.environ.get("TPU_LOAD_LIBRARY") != "0"


def _cpu(device: Device) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    count = device.replicas or 1
    if count == 1:
        return tf.distribute.get_strategy()
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(count)])


def _gpu(device: Device) -> tf.distribute.Strategy:
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise InputError(
            "device.kind = gpu needs a GPU that TensorFlow sees, got none",
            hint='install it with `pip install "tpudeck[gpu]"` and see `tpudeck doctor`, or use device.kind = cpu',
        )
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    return tf.distribute.MirroredStrategy() if len(gpus) > 1 else tf.distribute.OneDeviceStrategy("GPU:0")


def _require_bfloat16() -> None:
    for gpu in tf.config.list_physical_devices("GPU"):
        capability = tf.config.experimental.get_device_details(gpu).get("compute_capability", (8, 0))
        if tuple(capability) < (8, 0):
            major, minor = capability
            raise InputError(
                f"bfloat16 needs a GPU of compute capability 8.0 or more, got {major}.{minor}",
                hint="use train.precision = float32",
            )


def _tpu(device: Device) -> tf.distribute.Strategy:
    """On a TPU VM the argument `local`; elsewhere a node's name, or its address."""
    name = device.name or os.environ.get("TPU_NAME") or "local"
    where: dict[str, Any] = {"zone": device.zone or None, "project": device.project or None}
    if name == "local" or name.startswith("grpc://"):
        where = {}
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name, **where)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # the runtime raises a dozen kinds; their text says which
        raise _tpu_error(name, error) from error


def _tpu_error(name: str, error: Exception) -> InputError | RetryLaterError:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "already in use" in text or "lockfile" in text:
        return RetryLaterError(f"the TPU is taken: {text}", hint="`tpudeck doctor` says by whom")
    for known in explain(text):
        return InputError(f"the TPU {name!r} cannot be used: {known.cause}", hint=known.fix)
    return InputError(f"the TPU {name!r} cannot be used: {text}", hint="`tpudeck doctor` explains; see docs/tpu.md")
