"""``tpudeck doctor …``: what is wrong here, and what an error means."""

from __future__ import annotations

import typer

app = typer.Typer(help="Look for what is wrong here, and explain errors.", rich_markup_mode=None)

_JSON = typer.Option(False, "--json", help="Print JSON.")
_LOG = typer.Argument("-", metavar="[FILE]", errors="replace", help="A log; without, standard input.")
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
