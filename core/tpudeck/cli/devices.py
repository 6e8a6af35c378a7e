"""``tpudeck monitor`` and ``tpudeck preflight``: what accelerators are doing, and what they would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tpudeck.devices import Core, Sample

_JSON = typer.Option(False, "--json", help="Print JSON, a line per sample.")
_SET = typer.Option([], "--set", metavar="KEY=VALUE", help="Change a value; may be given often.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the root."""
    app.command()(monitor)
    app.command()(preflight)


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


def preflight(
    preset: str = typer.Argument(metavar="PRESET", help="A preset's name, or a path that ends in .toml."),
    chip: str = typer.Option("", metavar="CHIP", help="v2 to v6e; without, the one the preset plans for."),
    overrides: list[str] = _SET,
    batch: int = typer.Option(None, min=1, help="Sequences per replica, where it isn't the preset's."),
    largest: bool = typer.Option(False, "--largest-batch", help="Find the largest batch that fits: minutes for each."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compile a preset's training step for a TPU chip, without one: memory, operations, bytes, and what bounds it."""
    from tpudeck import jobs
    from tpudeck.cli.output import emit_json, narrate
    from tpudeck.config import Home
    from tpudeck.errors import InputError
    from tpudeck.presets import resolve

    home = Home.here()
    experiment = resolve(preset, home=home, overrides=overrides).experiment
    planned = experiment.planned_device
    name = chip or (planned[0].name if planned else "")
    if not name:
        raise InputError(f"{preset} plans for no chip", hint="name one: --chip v5e")
    narrate(f"compiling one replica's step of {preset} for {name}: this takes from seconds to minutes")
    result = jobs.run(
        "preflight",
        experiment,
        request={"chip": name, "replica_batch_size": batch, "largest": largest},
        home=home,
        on_progress=lambda progress: narrate(f"trying {progress['replica_batch_size']} sequences per replica"),
    )
    if as_json:
        emit_json(result)
    else:
        typer.echo("\n".join(_report_lines(result)))
    if not result["fits"]:
        raise typer.Exit(1)


def _report_lines(result: dict[str, Any]) -> list[str]:
    from tpudeck.units import format_bytes

    head = f"{result['replica_batch_size']} sequences per replica on {result['chip']}"
    if not result["fits"]:
        explained = [result["explanation"], f"→ {result['fix']}"] if result["explanation"] else []
        return [f"{head}: does not fit", result["error"].splitlines()[0], *explained, *_search_lines(result)]
    memory, bound, cached = result["memory"], result["bound"], ", earlier" if result["cached"] else ""
    peak, room = format_bytes(result["peak_memory_bytes"]), format_bytes(result["hbm_bytes"])
    kinds = ", ".join(f"{key.removesuffix('_bytes')} {format_bytes(size)}" for key, size in memory.items())
    return [
        f"{head}: fits, {peak} of {room} ({kinds})",
        f"operations: {result['flops'] / 1e12:.3g} TFLOP, {result['flops_per_token'] / 1e6:.4g} MFLOP a token",
        f"bytes moved: {result['bytes_accessed'] / 1e9:.3g} GB, {result['bytes_per_token'] / 1e6:.3g} MB a token",
        f"the step takes at least {bound['step_s'] * 1e3:.3g} ms: compute {bound['compute_s'] * 1e3:.3g}, "
        f"memory {bound['memory_s'] * 1e3:.3g}; bound by {bound['limited_by']}",
        f"at most {bound['tokens_per_s']:,.0f} tokens/s and {result['model_flops_utilisation_bound']:.0%} of the peak",
        "most bytes:",
        *(
            f"  {entry['share']:4.0%}  {entry['operation']}, {entry['array']}, {entry['count']} times"
            for entry in result["consumers"]
        ),
        f"compiled in {result['compile_s']:.0f} s{cached}; {result['excludes']}",
        *_search_lines(result),
    ]


def _search_lines(result: dict[str, Any]) -> list[str]:
    if "trials" not in result:
        return []
    trials = [
        f"  {trial['replica_batch_size']:>5}: "
        + (f"{trial['bound']['tokens_per_s']:,.0f} tokens/s at most" if trial["fits"] else "does not fit")
        for trial in result["trials"]
    ]
    largest, best = result["largest_replica_batch_size"], result["best_replica_batch_size"]
    return ["tried:", *trials, f"largest that fits: {largest or 'none'}; best bound: {best or 'none'}"]
