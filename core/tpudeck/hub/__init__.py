"""The Hugging Face Hub: models, tokenizers and shards go there; data sets and tokenizers are read by ``corpus``.

``upload``    a folder as one commit: private unless said otherwise, resumable, with a deadline
``download``  a repository as a folder
``card``      the model card of a run: data, recipe, results and curve, and nothing that is nobody's business
``redact``    what must never be printed or published
"""

from __future__ import annotations

from tpudeck.hub.card import write_card
from tpudeck.hub.download import pull_folder
from tpudeck.hub.redact import redact, redact_experiment
from tpudeck.hub.upload import Kind, Pushed, push_folder

__all__ = ["Kind", "Pushed", "pull_folder", "push_folder", "redact", "redact_experiment", "write_card"]
