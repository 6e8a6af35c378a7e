"""Experiments: their schema (:mod:`~tpudeck.presets.schema`) and the files they come from
(:mod:`~tpudeck.presets.library`). Importing this imports pydantic; listing runs does not need it."""

from tpudeck.presets.library import (
    Resolved,
    copy_preset,
    diff,
    find,
    flatten,
    load_experiment,
    merge,
    overrides_as_data,
    parse_override,
    preset_files,
    resolve,
    save_experiment,
    save_preset,
    shipped_folder,
    to_toml,
)
from tpudeck.presets.schema import FAMILIES, Experiment, Family, check, experiment_from, interval, json_schema

__all__ = [
    "FAMILIES",
    "Experiment",
    "Family",
    "Resolved",
    "check",
    "copy_preset",
    "diff",
    "experiment_from",
    "find",
    "flatten",
    "interval",
    "json_schema",
    "load_experiment",
    "merge",
    "overrides_as_data",
    "parse_override",
    "preset_files",
    "resolve",
    "save_experiment",
    "save_preset",
    "shipped_folder",
    "to_toml",
]
