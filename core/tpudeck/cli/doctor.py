"""``tpudeck doctor …``: what is wrong here, and what an error means."""

from __future__ import annotations

import typer

app = typer.Typer(help="Look for what is wrong here, and explain errors.", rich_markup_mode=None)

_JSON = typer.Option(False, "--json", help="Print JSON.")
_LOG = typer.Argument("-", metavar="[FILE]", errors="replace", help="A log; without, standard input.")
_RUN = typer.Argument(..., metavar="RUN", help="A run: its id, a unique beginning of it, its name, a path, or last.")
_MARKS = {"ok": "ok     ", "note": "note   ", "warning": "warning", "error": "ERROR  "}


@app.callback(invoke_without_command=True)
def examine(context: typer.Context, as_json: bool = _JSON) -> None:
    """Check packages, chips, disk, memory, credentials and terminal; exit code 2 where something will not work."""
    if context.invoked_subcommand is not None:
        return
    from tpudeck import doctor
    from tpudeck.cli.output import emit_json
    from tpudeck.errors import InputError

    findings = doctor.examine()
    if as_json:
        emit_json([finding.to_dict() for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{_MARKS[finding.level]}  {finding.check}: {finding.message}")
            if finding.fix:
                typer.echo(f"           → {finding.fix}")
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(InputError.exit_code)


@app.command()
def explain(log: typer.FileText = _LOG, as_json: bool = _JSON) -> None:
    """Say what known errors in a log mean, and what to do: `tpudeck doctor explain < log`."""
    from tpudeck import doctor
    from tpudeck.cli.output import emit_json, narrate

    found = doctor.explain(log.read())
    if as_json:
        emit_json([explanation.to_dict() for explanation in found])
        return
    for explanation in found:
        typer.echo(f"{explanation.line}\n  {explanation.cause}\n  → {explanation.fix}")
    if not found:
        narrate("nothing in this text is known")


@app.command()
def speed(run: str = _RUN, as_json: bool = _JSON) -> None:
    """Say how fast a run is against what its device could do, what holds it back, and what to change."""
    from tpudeck.cli.output import emit_json
    from tpudeck.config import Home
    from tpudeck.doctor.speed import measure
    from tpudeck.runs.index import find_run

    found = measure(find_run(Home.here(), run))
    if as_json:
        emit_json(found.to_dict())
        return
    typer.echo(
        f"{found.tokens_per_s:,.0f} tokens/s; {found.step_s * 1e3:.3g} ms a step, "
        f"of which {found.input_wait_s * 1e3:.3g} waiting for batches"
    )
    share = "" if found.utilisation is None else f"{found.utilisation:.0%} of "
    peak = "" if found.peak_flops_per_s is None else f"{found.peak_flops_per_s / 1e12:.3g} TFLOP/s: "
    typer.echo(f"model FLOPs: {found.model_flops_per_s / 1e12:.3g} TFLOP/s, {share}{peak}{found.peak_of}")
    typer.echo(f"{found.verdict}: {found.advice}")
