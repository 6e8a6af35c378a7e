"""HLO → what the program of a TPU chip needs, from libtpu's compiler.

jax is only the way to libtpu: its bindings parse the program and hand it to a client that compiles for a topology and
has no device. The functions used are not part of jax's public interface, which is why the versions are pinned.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpudeck.chips import CHIPS, Chip
from tpudeck.errors import InputError
from tpudeck.preflight.program import consumers
from tpudeck.storage import read_json, write_json

if TYPE_CHECKING:
    from tpudeck.jobs import Job

__all__ = ["ENVIRONMENT", "compile_step"]

ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "TPU_LOG_DIR": "disabled",
    # No chip is touched, so the lock that keeps two processes from one chip need not be taken.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
"""For the process that compiles: libtpu asks no metadata server and takes no lock."""


def compile_step(job: Job) -> dict[str, Any]:
    """Compile ``request["hlo"]`` for ``request["chip"]``, unless this compiler has compiled the same program before.

    The result has `compile_s`, `cached`, and either what the program needs or, where the compiler refuses it, its words
    as `refused`.
    """
    request = job.request()
    chip = CHIPS[request["chip"]]
    program = _stable(Path(request["hlo"]).read_bytes())
    remembered = job.home.cache / "preflight" / f"{_key(program, chip)}.json"
    if remembered.exists():
        return dict(read_json(remembered)) | {"cached": True}
    result = _compiled(program, chip, job.folder / "dump")
    remembered.parent.mkdir(parents=True, exist_ok=True)
    write_json(remembered, result)
    return result | {"cached": False}


def _stable(hlo: bytes) -> bytes:
    """The program as StableHLO, which is the same bytes for the same program; serialised HLO is not."""
    try:
        from jax._src.lib import xla_client
    except ImportError as error:
        hint = 'pip install "tpudeck[preflight]", on Python 3.11 or 3.12'
        raise InputError(f"the TPU compiler is not installed: {error}", hint=hint) from error
    return bytes(xla_client._xla.mlir.hlo_to_stablehlo(hlo))


def _key(program: bytes, chip: Chip) -> str:
    """What a result depends on: the program, the chip, and the compiler."""
    versions = [importlib.metadata.version(name) for name in ("jaxlib", "libtpu")]
    digest = hashlib.sha256(program)
    digest.update("\0".join(["1", chip.topology, chip.chip_config, *versions]).encode())
    return digest.hexdigest()[:32]


def _compiled(program: bytes, chip: Chip, dump: Path) -> dict[str, Any]:
    from jaxlib.xla_client import XlaRuntimeError

    started = time.monotonic()
    try:
        executable = _compile(program, chip, dump)
    except XlaRuntimeError as error:
        return {"refused": str(error), "compile_s": time.monotonic() - started}
    return {"compile_s": time.monotonic() - started} | _needs(executable) | {"consumers": _consumers(dump)}


def _compile(program: bytes, chip: Chip, dump: Path) -> Any:
    import numpy as np
    from jax._src import compiler
    from jax._src.lib import xla_client
    from jax.experimental import topologies

    topology = topologies.get_topology_desc(
        platform="tpu", topology_name=chip.topology, chip_config_name=chip.chip_config
    )
    device = topology.devices[0]
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1, device_assignment=np.array([[device.id]]))
    _dump_optimised_program(options, dump)
    return compiler.backend_compile(device.client, _parsed(program), xla_client.DeviceList((device,)), options)


def _dump_optimised_program(options: Any, folder: Path) -> None:
    """Have the compiler write its program as text: asking the executable for it takes gigabytes."""
    debug = options.executable_build_options.debug_options
    debug.xla_dump_to = str(folder)
    debug.xla_dump_hlo_as_text = True


def _parsed(program: bytes) -> Any:
    """The program as a module, without ``mhlo.copy``.

    TensorFlow's lowering puts one around every value that a step returns, and the TPU's pipeline refuses them; a copy's
    value is its operand.
    """
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    with mlir.make_ir_context():
        module = ir.Module.parse(program)
        _remove_copies(module.operation)
        return module


def _remove_copies(operation: Any) -> None:
    for region in operation.regions:
        for block in region:
            for inner in list(block):
                _remove_copies(inner.operation)
                if inner.operation.name == "mhlo.copy":
                    inner.operation.results[0].replace_all_uses_with(inner.operation.operands[0])
                    inner.operation.erase()


def _needs(executable: Any) -> dict[str, Any]:
    """Memory by kind, operations and bytes of one call."""
    memory = executable.get_compiled_memory_stats()
    costs = executable.cost_analysis()
    costs = costs[0] if isinstance(costs, list) else costs
    return {
        "flops": float(costs["flops"]),
        "bytes_accessed": float(costs["bytes accessed"]),
        "peak_memory_bytes": int(memory.peak_memory_in_bytes),
        "memory": {
            "arguments_bytes": int(memory.argument_size_in_bytes),
            "outputs_bytes": int(memory.output_size_in_bytes),
            "aliased_bytes": int(memory.alias_size_in_bytes),
            "temporary_bytes": int(memory.temp_size_in_bytes),
            "program_bytes": int(memory.generated_code_size_in_bytes),
        },
    }


def _consumers(dump: Path) -> list[dict[str, Any]]:
    texts = sorted(dump.glob("*after_optimizations.txt"), key=lambda path: path.stat().st_size)
    return consumers(texts[-1].read_text(errors="replace")) if texts else []
