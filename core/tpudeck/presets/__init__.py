"""Experiments: what they hold, what they must be, and the files they come from.

===================  ================================================================
``schema``           the fields, each with its bounds
``architectures``    the model classes that there are
``rules``            what fields must be to each other
``validation``       plain data → an experiment, or every fault in it
``library``          TOML files, `extends`, overrides, where each value came from
===================  ================================================================

Importing this imports pydantic; listing runs does not need it.
"""

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
from tpudeck.presets.schema import FAMILIES, Experiment, Family, interval
from tpudeck.presets.validation import check, experiment_from, json_schema, takes_text

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
    "takes_text",
    "to_toml",
]
