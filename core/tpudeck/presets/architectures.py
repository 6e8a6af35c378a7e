"""Which of Transformers' TensorFlow classes there are, read from its source: importing them takes seconds, and a preset
that names one that doesn't exist is to be refused at once."""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

__all__ = ["masked_classes"]

_DEFINITION = re.compile(rb"^class (TF(?!Auto|Esm|Funnel)\w+ForMaskedLM)\(", re.MULTILINE)
"""An Auto class only picks another; Esm has two weights of one name; Funnel has no number of layers."""


@functools.cache
def masked_classes() -> frozenset[str]:
    """The names of the masked-LM classes in the Transformers that is installed."""
    found = importlib.util.find_spec("transformers")
    folders = found.submodule_search_locations if found is not None else None
    sources = Path(folders[0]).glob("models/*/modeling_tf_*.py") if folders else ()
    return frozenset(name.decode() for path in sources for name in _DEFINITION.findall(path.read_bytes()))
