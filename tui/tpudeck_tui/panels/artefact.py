"""The pages of a text, a tokenizer or a shard set: which there are, and what is read for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tpudeck.corpus import open_corpus
from tpudeck.inspection.records import records, training_records
from tpudeck.plan import global_batch_size
from tpudeck.tokenizer.loaded import manifest_of
from tpudeck_tui.artefacts import Opened, around
from tpudeck_tui.cells import progress_bar, wrap
from tpudeck_tui.panels import data, pieces, statistics

if TYPE_CHECKING:
    from tpudeck.inspection.pieces import Reader
    from tpudeck.presets import Experiment
    from tpudeck.shards import ShardSet
    from tpudeck.tokenizer import LoadedTokenizer
    from tpudeck_tui.widgets.pages import TextLine

__all__ = ["READERS", "View"]

_DOCUMENTS = 100
_SEQUENCES = 4
"""Of a batch, so many are shown."""
Source = Callable[[int], "list[TextLine]"]
Pages = dict[str, Source]


@dataclass
class View:
    """An artefact as it is looked at."""

    opened: Opened
    split: str = ""
    number: int = 0
    """Of the record."""
    step: int = 0
    fetched: dict[str, Any] = field(default_factory=dict)
    """Page → what was read for it."""
    problems: dict[str, str] = field(default_factory=dict)
    """Page → what went wrong there."""

    def pages(self, beside: Opened | None, text: Callable[[], str], counting: Mapping[str, Any] | None) -> Pages:
        """The pages, for the text that is typed, beside another tokenizer, and while a count is so far."""
        opened = self.opened
        pages: Pages = {}
        if opened.artefact.kind == "text":
            pages = self._of_text(opened.experiment or around("builtin"))
        elif opened.shards is not None:
            pages = self._of_set(opened.shards)
        elif opened.tokenizer is not None and opened.reader is not None:
            pages = _of_tokenizer(opened, opened.tokenizer, opened.reader, beside, text)
        return pages | {"Numbers": partial(self._numbers, counting), "Charts": partial(self._uncounted, counting)}

    def _of_text(self, experiment: Experiment) -> Pages:
        return {
            "Facts": lambda width: data.text_lines(experiment, width),
            "Documents": self._fetched("Documents", data.document_lines),
        }

    def _of_set(self, shards: ShardSet) -> Pages:
        opened, loaded, reader = self.opened, self.opened.tokenizer, self.opened.reader
        experiment = opened.experiment

        def record(found: Any, width: int) -> list[TextLine]:
            return pieces.record_lines(found, self.split, len(shards.split(self.split)), loaded, reader, width)

        pages = {
            "Facts": lambda width: [*data.set_lines(shards, width), [], *data.file_lines(shards, width)],
            "Records": self._fetched("Records", record),
        }
        if loaded is not None and reader is not None and experiment is not None:
            batch = _batch_size(experiment)
            pages["Trained"] = self._fetched(
                "Trained",
                lambda found, width: pieces.trained_lines(
                    found, loaded, reader, name=opened.run, step=self.step, batch=batch, width=width
                ),
            )
        return pages

    def _fetched(self, page: str, show: Callable[[Any, int], list[TextLine]]) -> Source:
        """A page of something that is read aside."""

        def lines(width: int) -> list[TextLine]:
            if problem := self.problems.get(page):
                return [[(line, "bad")] for line in wrap(problem, width)]
            found = self.fetched.get(page)
            return [[("reading …", "muted")]] if found is None else show(found, width)

        return lines

    def _numbers(self, counting: Mapping[str, Any] | None, width: int) -> list[TextLine]:
        found = self.opened.statistics
        if found is None:
            return self._uncounted(counting, width)
        return statistics.statistics_lines(self.opened.artefact.kind, found, self.opened.reader, width)

    def _uncounted(self, counting: Mapping[str, Any] | None, width: int) -> list[TextLine]:
        """What stands where numbers and charts will be."""
        if self.opened.statistics is not None:
            return []  # the pictures are there
        if problem := self.problems.get("Numbers"):
            return [[(line, "bad")] for line in wrap(problem, width)]
        if counting is None:
            return [[("s", "key"), (" counts, and keeps the numbers for the next time.", "muted")]]
        if not counting:
            return [[("starting to count …", "muted")]]
        done, total, unit = counting["done"], counting["total"], counting["unit"]
        if total is None:
            return [[(f"counted {done:,} {unit}", "bright")]]
        filled, rest = progress_bar(done / max(1, total), max(10, width - 30))
        return [
            [(f"counted {done:,} of {total:,} {unit}", "bright")],
            [(filled, "bar"), (rest, "bar-rest"), (f" {done / max(1, total):.0%}", "bright")],
        ]


def _of_tokenizer(
    opened: Opened, loaded: LoadedTokenizer, reader: Reader, beside: Opened | None, text: Callable[[], str]
) -> Pages:
    about = manifest_of(loaded.folder)
    pages: Pages = {"Pieces": lambda width: pieces.piece_lines(loaded, reader, text(), width)}
    if beside is not None and beside.tokenizer and beside.reader and beside.artefact != opened.artefact:
        one = beside.tokenizer, beside.reader, beside.artefact.about
        other = loaded, reader, opened.artefact.about
        pages["Beside"] = lambda width: pieces.side_by_side_lines(one, other, text(), width)
    return pages | {
        "Facts": lambda width: [
            *data.tokenizer_lines(loaded, about, width), [], *data.vocabulary_lines(loaded, reader, width)
        ]
    }  # fmt: skip


# What is read aside.


def _read_documents(view: View) -> list[str]:
    experiment = view.opened.experiment or around("builtin")
    batches = open_corpus(experiment.corpus, "train")
    return list(islice((text for batch in batches for text in batch), _DOCUMENTS))


def _read_record(view: View) -> dict[str, Any]:
    assert view.opened.shards is not None
    return records(view.opened.shards, view.split, np.array([view.number]), view.opened.tokenizer)[0]


def _read_batch(view: View) -> list[dict[str, Any]]:
    opened = view.opened
    assert opened.shards is not None
    assert opened.tokenizer is not None
    assert opened.experiment is not None
    return training_records(
        opened.shards,
        opened.experiment,
        opened.tokenizer,
        step=view.step,
        global_batch=_batch_size(opened.experiment),
        count=_SEQUENCES,
    )


READERS: Mapping[str, Callable[[View], Any]] = {
    "Documents": _read_documents,
    "Records": _read_record,
    "Trained": _read_batch,
}
"""Page → how what it shows is read: by a thread, since it may take a moment."""


def _batch_size(experiment: Experiment) -> int:
    return global_batch_size(experiment, replicas=experiment.device.replicas or 1)
