"""Plain data → an experiment, or every fault in it.

One validator serves two readers: :func:`check` returns the faults (a form shows them at their fields), and
:func:`experiment_from` raises them all at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from tpudeck.errors import Fault, PresetError, did_you_mean
from tpudeck.presets.rules import broken_rules
from tpudeck.presets.schema import NONE, NOT_UNICODE, Experiment

__all__ = ["check", "experiment_from", "json_schema", "takes_text"]


def _fields_at(path: tuple[str | int, ...]) -> dict[str, FieldInfo]:
    """The fields of the section at this path; empty where there is no section."""
    section: Any = Experiment
    for part in path:
        fields = getattr(section, "model_fields", {})
        section = fields[part].annotation if part in fields else None
    return dict(getattr(section, "model_fields", {}))


def takes_text(path: str) -> bool:
    """Whether the field at a dotted path holds plain text, so that ``123`` means the text and not the number."""
    *parents, last = path.split(".")
    field = _fields_at(tuple(parents)).get(last)
    return field is not None and field.annotation is str


def _hint_for_unknown(keys: tuple[str | int, ...]) -> str:
    """The same key in another section; else the nearest key of its own section; else what is known here."""
    *parents, last = keys
    here = _fields_at(tuple(parents))
    elsewhere = [section for section in Experiment.model_fields if last in _fields_at((section,))]
    if elsewhere:
        return f"did you mean {elsewhere[0]}.{last}?"
    return did_you_mean(str(last), here) or f"known: {', '.join(here)}"


_PLAIN_WORDS = {
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "int_type": "must be a whole number",
    "less_than": "must be less than {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "model_type": "must be a section",
    "string_pattern_mismatch": "must be letters, digits, dot, dash and underscore, at most 64",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "string_unicode": NOT_UNICODE,
    "tuple_type": "must be a list",
}
"""Pydantic's error types in our words, with what they carry filled in."""


def _faults(error: ValidationError) -> list[Fault]:
    faults: dict[str, Fault] = {}
    for item in error.errors(include_url=False):
        keys = _keys(item["loc"])
        path = ".".join(map(str, keys))
        if item["type"] == "extra_forbidden":
            fault = Fault(path, "is not a known key", "", _hint_for_unknown(keys))
        else:
            said = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            rule = _PLAIN_WORDS[item["type"]].format(**item.get("ctx", {})) if item["type"] in _PLAIN_WORDS else said
            fault = Fault(path, rule, "" if ", got " in rule else repr(item["input"])[:80])
        faults.setdefault(path, fault)
    return list(faults.values())


def _keys(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where a fault is, as keys of the file: up to the first part that only names the member of a union."""
    depth = 0
    while depth < len(location) and (depth == 0 or _fields_at(location[:depth]) or isinstance(location[depth], int)):
        depth += 1
    return location[:depth]


def _without(data: Mapping[str, Any], path: list[str]) -> dict[str, Any]:
    """Nested data without the value at this path; where a list holds it, without the list."""
    key, *below = path
    rest = {name: value for name, value in data.items() if name != key}
    if below and isinstance(data.get(key), Mapping):
        rest[key] = _without(data[key], below)
    return rest


def check(data: Mapping[str, Any]) -> tuple[Experiment | None, list[Fault]]:
    """Validate plain data: the experiment where it is whole, and every fault where it is not."""
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        faults = _faults(error)
        wrong = frozenset(fault.path for fault in faults)
        return None, faults + _across_the_rest(data, wrong)
    faults = broken_rules(experiment)
    return (None if faults else experiment), faults


def _across_the_rest(data: Mapping[str, Any], wrong: frozenset[str]) -> list[Fault]:
    """The rules across fields, applied to what is left when the values at fault are taken out."""
    for path in wrong:
        data = _without(data, path.split("."))
    try:
        return broken_rules(Experiment.model_validate(data), wrong)
    except ValidationError:  # a quoted key with a dot in it cannot be taken out by its path
        return []


def experiment_from(data: Mapping[str, Any], *, source: str = "") -> Experiment:
    """Validate plain data; raises :class:`PresetError` with every fault."""
    experiment, faults = check(data)
    if experiment is None:
        raise PresetError(faults, source=source)
    return experiment


def json_schema() -> dict[str, Any]:
    """The JSON schema of a preset file, for editors: every section may be partial, and `extends` names another preset.

    It describes what TOML can hold, so none is the text ``"none"``.
    """
    schema: dict[str, Any] = _none_as_text(Experiment.model_json_schema())
    extends = {"type": "string", "description": "The preset this one starts from."}
    schema["properties"] = {"extends": extends} | schema["properties"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema | {"title": "tpudeck preset"}


def _none_as_text(node: Any) -> Any:
    if isinstance(node, list):
        return [_none_as_text(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node == {"type": "null"}:
        return {"const": NONE}
    return {key: _none_as_text(value) for key, value in node.items() if not (key == "default" and value is None)}
