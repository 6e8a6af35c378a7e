"""What must never be printed or published: tokens, signed addresses, and the folders of somebody's home."""

from __future__ import annotations

import re
from pathlib import Path

from tpudeck.presets import Experiment
from tpudeck.storage import is_bucket

__all__ = ["redact", "redact_experiment"]

_SECRETS = (
    re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{8,}"),
    re.compile(r"(?i)(?<=bearer )[^\s'\",]+"),
    re.compile(r"(?<=://)[^/\s@]+(?=@)"),
    re.compile(r"(?<=\?)[^\s'\"]*(?:signature|token|credential|upload_id)=[^\s'\"]*", re.IGNORECASE),
)


def redact(text: str, *known: str) -> str:
    """A text without tokens, passwords in addresses, signed queries, and the secrets that the caller knows."""
    for secret in filter(None, known):
        text = text.replace(secret, "***")
    for pattern in _SECRETS:
        text = pattern.sub("***", text)
    return text


def redact_experiment(experiment: Experiment) -> Experiment:
    """The recipe as it can be published: files by their names only, and no names of machines, projects and zones."""
    changes = {
        "corpus": {"source": _public_source(experiment.corpus.source)},
        "tokenizer": {"source": _public_source(experiment.tokenizer.source)},
        "shards": {"source": _public_source(experiment.shards.source)},
        "model": {"weights": _public_source(experiment.model.weights)},
        "device": {"name": "", "zone": "", "project": ""},
    }
    return experiment.model_copy(
        update={part: getattr(experiment, part).model_copy(update=change) for part, change in changes.items()}
    )


def _public_source(source: str) -> str:
    if not source or source == "builtin" or source.startswith("hub:"):
        return source
    name = Path(source.rstrip("/")).name
    return f"gs://…/{name}" if is_bucket(source) else name
