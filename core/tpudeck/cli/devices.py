"""``tpudeck monitor``: what the machine and its accelerators are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tpudeck.devices import Core, Sample

_JSON = typer.Option(False, "--json", help="Print JSON, a line per sample.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the root."""
    app.command()(monitor)


def monitor(
    once: bool = typer.Option(False, "--once", help="Look once and end."),
    interval: float = typer.Option(2.0, min=0.2, metavar="SECONDS", help="Seconds between looks."),
    as_json: bool = _JSON,
) -> None:
    """Show CPU, memory and every accelerator core: TensorCore utilisation, duty cycle, memory, and what is unknown."""
    import sys

    from tpudeck.cli.output import emit_json, narrate
    from tpudeck.devices import SamplerProcess
    from tpudeck.errors import RetryLaterError

    with SamplerProcess(interval_s=interval) as sampler:
        while True:
            sample, reason = sampler.wait(interval + 15)
            if sample is None and once:
                raise RetryLaterError(f"nothing could be read: {reason}")
            if sample is None or reason:
                narrate(f"n/a: {reason}")
            elif as_json:
                emit_json(sample.to_dict())
                sys.stdout.flush()
            else:
                _show(sample, clear=not once and sys.stdout.isatty())
            if once:
                return


def _show(sample: Sample, *, clear: bool) -> None:
    from tpudeck.cli.output import emit_table
    from tpudeck.units import format_bytes

    if clear:
        typer.echo("\x1b[H\x1b[2J", nl=False)
    if host := sample.host:
        used, total = format_bytes(host.memory_used_bytes), format_bytes(host.memory_total_bytes)
        typer.echo(
            f"CPU {host.cpu_percent:.0f} % of {host.cpu_count} cores, load {host.load_1m:.1f}; memory {used} of {total}"
        )
    if sample.cores:
        columns = ("core", "device", "TensorCore busy", "duty cycle", "memory used", "memory")
        emit_table(columns, [_row(core) for core in sample.cores])
    for line in (*_reasons(sample), *sample.notes):
        typer.echo(line)


def _row(core: Core) -> tuple[str, ...]:
    from tpudeck.units import format_bytes

    shares = (core.tensorcore_percent, core.duty_cycle_percent)
    sizes = (core.hbm_used_bytes, core.hbm_total_bytes)
    return (
        str(core.index),
        core.name or core.kind,
        *("n/a" if share is None else f"{share:.1f} %" for share in shares),
        *("n/a" if size is None else format_bytes(size) for size in sizes),
    )


def _reasons(sample: Sample) -> list[str]:
    """Why readings are missing: each reason once, with the cores it is about."""
    where: dict[tuple[str, str], list[str]] = {}
    for core in sample.cores:
        for reading, why in core.missing.items():
            where.setdefault((reading, why), []).append(str(core.index))
    return [f"n/a {reading} of {', '.join(cores)}: {why}" for (reading, why), cores in where.items()]
