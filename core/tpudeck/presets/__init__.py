"""Experiments: their schema (:mod:`~tpudeck.presets.schema`) and the files they come from
(:mod:`~tpudeck.presets.library`). Importing this imports pydantic; listing runs does not need it."""

from tpudeck.presets.library import (
    Resolved,
    diff,
    find,
    flatten,
    load_experiment,
    merge,
    parse_override,
    preset_files,
    resolve,
    save_experiment,
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
    "diff",
    "experiment_from",
    "find",
    "flatten",
    "interval",
    "json_schema",
    "load_experiment",
    "merge",
    "parse_override",
    "preset_files",
    "resolve",
    "save_experiment",
    "shipped_folder",
    "to_toml",
]
