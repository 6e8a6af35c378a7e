"""``tpudeck presets …``: list, show, validate, copy, derive, compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tpudeck.config import Home
    from tpudeck.errors import InputError
    from tpudeck.presets import Experiment, Resolved

app = typer.Typer(
    help="Presets: complete descriptions of a run, shipped and your own.", no_args_is_help=True, rich_markup_mode=None
)

_SET = typer.Option([], "--set", metavar="KEY=VALUE", help="Change a value; may be given often.")
_JSON = typer.Option(False, "--json", help="Print JSON.")
_PRESETS = typer.Argument(None, metavar="[PRESET]...", help="Names or paths; without any, all there are.")
_PRESET = typer.Argument(metavar="PRESET", help="A preset's name, or a path that ends in .toml.")


@app.command("list")
def list_presets(as_json: bool = _JSON) -> None:
    """List the presets there are; your own hide shipped ones of the same name."""
    from tpudeck.cli.output import emit_json, emit_table

    rows = _listing()
    if as_json:
        emit_json(rows)
    else:
        emit_table(
            ("name", "from", "for", "takes"),
            [(row["name"], row["origin"], row["summary"] or _first_line(row["error"]), row["takes"]) for row in rows],
        )


def _first_line(error: str) -> str:
    """What a list has room for of an error; `tpudeck presets validate` says the rest."""
    return error.partition("\n")[0]


def _listing() -> list[dict[str, Any]]:
    """Every preset in a row; one that breaks rules says so in its own row and hides no other."""
    from tpudeck.config import Home
    from tpudeck.errors import InputError
    from tpudeck.presets import preset_files, resolve, shipped_folder

    home = Home.here()
    rows = []
    for name, path in sorted(preset_files(home).items()):
        origin = "shipped" if path.parent == shipped_folder() else "yours"
        row: dict[str, Any] = {"name": name, "origin": origin, "path": str(path)}
        try:
            experiment = resolve(name, home=home).experiment
            row |= {"summary": experiment.summary, "needs": experiment.needs, "takes": experiment.takes, "error": ""}
        except InputError as error:
            row |= {"summary": "", "needs": "", "takes": "", "error": error.message}
        rows.append(row)
    return rows


@app.command()
def show(
    preset: str = _PRESET,
    overrides: list[str] = _SET,
    sequences: int = typer.Option(None, min=1, help="Training sequences, where you know them."),
    tokens_per_s: float = typer.Option(None, min=1, help="Tokens per second, where you know them."),
    toml: bool = typer.Option(False, "--toml", help="Print the complete experiment as TOML."),
    as_json: bool = _JSON,
) -> None:
    """Show every value of a preset with where it came from, and what follows from it."""
    from tpudeck import plan
    from tpudeck.cli.output import emit_json, emit_table
    from tpudeck.config import Home
    from tpudeck.presets import resolve, to_toml

    resolved = resolve(preset, home=Home.here(), overrides=overrides)
    if toml:
        typer.echo(to_toml(resolved.experiment), nl=False)
        return
    chain = plan.derive(resolved.experiment, sequences_train=sequences, tokens_per_s=tokens_per_s)
    if as_json:
        emit_json(_as_dict(resolved) | {"plan": [quantity.to_dict() for quantity in chain.quantities]})
        return
    emit_table(("key", "value", "from"), _value_rows(resolved))
    typer.echo()
    typer.echo("\n".join(chain.lines()))


def _as_dict(resolved: Resolved) -> dict[str, Any]:
    return {
        "name": resolved.experiment.name,
        "chain": [str(path) for path in resolved.chain],
        "experiment": resolved.experiment.model_dump(mode="json"),
        "origins": dict(resolved.origins),
    }


def _value_rows(resolved: Resolved) -> list[tuple[str, str, str]]:
    from tpudeck.presets import flatten

    values = flatten(resolved.experiment.model_dump(mode="json"))
    return [(path, _shown(value), resolved.origins[path]) for path, value in values]


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " | ".join(map(str, value)) or "[]"
    return '""' if value == "" else str(value)


@app.command()
def validate(presets: list[str] = _PRESETS, overrides: list[str] = _SET, as_json: bool = _JSON) -> None:
    """Check presets against every rule; exit code 2 where one is broken."""
    from tpudeck.cli.output import emit_json, narrate
    from tpudeck.config import Home
    from tpudeck.errors import InputError
    from tpudeck.presets import preset_files

    home = Home.here()
    faulty = {name: _error_in(name, home, overrides) for name in presets or sorted(preset_files(home))}
    if as_json:
        emit_json([{"preset": name} | _verdict(error) for name, error in faulty.items()])
    else:
        for name, error in faulty.items():
            narrate(error.show() if error else f"{name}: valid")
    if any(faulty.values()):
        raise typer.Exit(InputError.exit_code)


def _error_in(name: str, home: Home, overrides: list[str]) -> InputError | None:
    from tpudeck.errors import InputError
    from tpudeck.presets import resolve

    try:
        resolve(name, home=home, overrides=overrides)
    except InputError as error:
        return error
    return None


def _verdict(error: InputError | None) -> dict[str, Any]:
    from dataclasses import asdict

    from tpudeck.errors import PresetError

    faults = [asdict(fault) for fault in error.faults] if isinstance(error, PresetError) else []
    return {"valid": error is None, "error": str(error or ""), "faults": faults}


@app.command()
def copy(
    preset: str = _PRESET,
    name: str = typer.Argument(metavar="NAME", help="What to call the copy."),
    overrides: list[str] = _SET,
) -> None:
    """Copy a preset into your own; with --set, a short file that extends it and holds what you set."""
    from tpudeck.cli.output import narrate
    from tpudeck.config import Home
    from tpudeck.presets import copy_preset, overrides_as_data, save_preset

    home = Home.here()
    if overrides:
        told = {"summary": f"{preset} with {', '.join(overrides)}", "takes": ""}  # the original's are no longer true
        path = save_preset(name, extends=preset, changes=told | overrides_as_data(overrides), home=home)
    else:
        path = copy_preset(preset, name, home=home)
    narrate(f"wrote {name}")
    typer.echo(path)


@app.command()
def derive(
    name: str = typer.Argument(metavar="NAME", help="What to call the new preset."),
    tokens: str = typer.Option("", metavar="N", help="How many tokens to train on, such as 250M or 1B."),
    time: str = typer.Option("", metavar="TIME", help="How long to train, such as '30 min' or '8 h'."),
    base: str = typer.Option("quickstart", metavar="PRESET", help="Where the text, tokenizer and family come from."),
    accelerator: str = typer.Option("", metavar="TYPE", help="A TPU to train on, such as v5e-8; without: this CPU."),
    utilisation: float = typer.Option(0.4, min=0.01, max=1, help="Share of the device's peak to count on."),
) -> None:
    """Make a preset from a single dial, tokens or time: size, batch, learning rate and steps follow from it."""
    from tpudeck import plan
    from tpudeck.cli.output import narrate
    from tpudeck.config import Home
    from tpudeck.errors import InputError
    from tpudeck.presets import merge, resolve, save_preset

    if bool(tokens) == bool(time):
        raise InputError("a preset is derived from one dial: give either --tokens or --time")
    home = Home.here()
    device = _device_changes(accelerator)
    start = resolve(base, home=home, changes=device).experiment
    dial = f"{tokens} tokens" if tokens else time
    told = {
        "summary": f"{dial} on {accelerator or 'this CPU'}, with the text of {base}",
        "needs": accelerator,
        "takes": "",
    }
    changes = told | merge(device, _dialled(start, tokens, time, utilisation))
    comment = f"Derived from {base} for {dial}; the rules and their sources are those of docs/presets.md."
    path = save_preset(name, extends=base, changes=changes, home=home, comment=comment)
    chain = plan.derive(resolve(name, home=home).experiment, utilisation=utilisation)
    narrate("\n".join(chain.lines()))
    typer.echo(path)


def _device_changes(accelerator: str) -> dict[str, Any]:
    if not accelerator:
        return {}
    return {"device": {"kind": "tpu", "accelerator": accelerator}, "train": {"precision": "bfloat16"}}


def _dialled(start: Experiment, tokens: str, time: str, utilisation: float) -> dict[str, Any]:
    """What the dial changes: by tokens as they are, by time through the device's speed."""
    from tpudeck import plan
    from tpudeck.errors import InputError
    from tpudeck.units import parse_count, parse_duration

    planned = start.planned_device
    replicas = planned[1] if planned else 1
    if tokens:
        return plan.dial_tokens(start, parse_count(tokens), replicas=replicas)
    seconds = parse_duration(time)
    if seconds <= 0:
        raise InputError(f"--time must be more than nothing, got {time!r}")
    peak = replicas * planned[0].peak_bf16_flops_per_device if planned else _measured_peak(utilisation)
    return plan.dial_compute(start, seconds * peak * utilisation, replicas=replicas)


def _measured_peak(utilisation: float) -> float:
    from tpudeck.cli.output import narrate
    from tpudeck.config import Home
    from tpudeck.devices.peak import cpu_peak

    peak = cpu_peak(Home.here())
    narrate(f"this CPU multiplies matrices at {peak / 1e9:.0f} GFLOP/s; counting on {utilisation:.0%} of that")
    return peak


@app.command()
def diff(
    left: str = typer.Argument(metavar="LEFT", help="A preset's name, or a path that ends in .toml."),
    right: str = typer.Argument(metavar="RIGHT", help="Another."),
    as_json: bool = _JSON,
) -> None:
    """Show the values in which two presets differ."""
    from tpudeck.cli.output import emit_json, emit_table
    from tpudeck.config import Home
    from tpudeck.presets import diff as differences
    from tpudeck.presets import resolve

    home = Home.here()
    one, two = (resolve(name, home=home).experiment for name in (left, right))
    found = differences(one, two)
    if as_json:
        emit_json({path: {"left": was, "right": now} for path, (was, now) in found.items()})
    else:
        rows = [(path, _shown(was), _shown(now)) for path, (was, now) in found.items()]
        emit_table(("key", Path(left).stem, Path(right).stem), rows)


@app.command()
def schema() -> None:
    """Print the JSON schema of preset files, for editors."""
    from tpudeck.cli.output import emit_json
    from tpudeck.presets import json_schema

    emit_json(json_schema())
