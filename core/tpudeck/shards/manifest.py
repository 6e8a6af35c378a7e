"""What a finished shard set says about itself: ``manifest.json``, written last.

A folder with a manifest is a whole set: only the files it lists are ever read, each with its size and checksum. There
is no time and no path in it, so two builds of the same set are the same bytes, manifest included.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from tpudeck.errors import ArtefactError
from tpudeck.storage import read_json, write_json

__all__ = [
    "FORMAT_VERSION",
    "LENGTH_EDGES",
    "PACKING_VERSION",
    "Manifest",
    "Packing",
    "ShardFile",
    "SplitSummary",
    "Tally",
]

FORMAT_VERSION = 1
PACKING_VERSION = 1
"""Goes up when the same text, tokenizer and settings give other sequences than before."""
MANIFEST_FILE = "manifest.json"
COUNTS_FILE = "token-counts.npy"

LENGTH_EDGES: npt.NDArray[np.int64] = np.unique(np.rint(2.0 ** (np.arange(81) / 4))).astype(np.int64)
"""Lower edges of the document-length histogram, in tokens: four to an octave, from 1 to 2^20; the last has no end."""


@dataclass(frozen=True)
class Packing:
    """How documents become sequences: everything but text and tokenizer that decides what is in the files."""

    sequence_length: int
    layout: str
    shard_sequences: int
    enclosed: bool
    """Documents stand as ``[bos] … [eos]`` (masked models); otherwise each is followed by ``[eos]`` (causal)."""


@dataclass(frozen=True)
class ShardFile:
    """One file of a split."""

    name: str
    """Relative to the set's folder."""
    sequences: int
    size_bytes: int
    crc32c: int
    """Of the whole file."""


@dataclass
class Tally:
    """The documents that are completely written, counted; a build that goes on begins after them."""

    documents: int = 0
    empty_documents: int = 0
    """Documents in which the tokenizer found nothing."""
    document_tokens: int = 0
    """With the tokens that begin and end a document."""
    cut_documents: int = 0
    """Documents that do not lie within one sequence."""
    longest_document_tokens: int = 0
    document_lengths: list[int] = field(default_factory=lambda: [0] * len(LENGTH_EDGES))
    """Histogram over :data:`LENGTH_EDGES`."""

    def add(self, ends: npt.NDArray[np.int64], sequence_length: int) -> None:
        """Count the next documents; ``ends`` are the places in the token stream where they end."""
        if not len(ends):
            return
        starts = np.concatenate([[self.document_tokens], ends[:-1]])
        full = ends > starts
        lengths = (ends - starts)[full]
        self.documents += len(ends)
        self.empty_documents += len(ends) - len(lengths)
        self.document_tokens = int(ends[-1])
        cut = starts[full] // sequence_length != (ends[full] - 1) // sequence_length
        self.cut_documents += int(cut.sum())
        self.longest_document_tokens = max(self.longest_document_tokens, int(lengths.max(initial=0)))
        bins = np.searchsorted(LENGTH_EDGES, lengths, side="right") - 1
        self.document_lengths = (np.bincount(bins, minlength=len(LENGTH_EDGES)) + self.document_lengths).tolist()


@dataclass(frozen=True)
class SplitSummary:
    """One side of the validation split."""

    sequences: int
    tokens: int
    """In the sequences."""
    dropped_tokens: int
    """At the end of the stream, too few for one more sequence."""
    tally: Tally
    corpus: Mapping[str, int]
    """What reading the text counted: blank, malformed, cut, …"""
    files: tuple[ShardFile, ...]


@dataclass(frozen=True)
class Manifest:
    """A shard set, described completely."""

    key: str
    """What it was made from and how, hashed; known before it is built."""
    hash: str
    """What is in it, hashed."""
    packing: Packing
    tokenizer: Mapping[str, Any]
    """``hash``, ``vocab_size``, ``special_ids`` and the ids of the roles."""
    corpus_fingerprint: str
    versions: Mapping[str, str]
    splits: Mapping[str, SplitSummary]

    def save(self, folder: Path) -> None:
        write_json(folder / MANIFEST_FILE, {"format_version": FORMAT_VERSION} | dataclasses.asdict(self))

    def check(self) -> None:
        """Raise ``ValueError`` where a number is none, or out of range: a manifest may have come from anywhere."""
        if not {"train", "validation"} <= self.splits.keys():
            raise ValueError(f"there must be a train and a validation split, got {', '.join(self.splits) or 'none'}")
        files = [file for split in self.splits.values() for file in split.files]
        sizes = [number for file in files for number in (file.sequences, file.size_bytes, file.crc32c)]
        sizes += [number for split in self.splits.values() for number in (split.tokens, split.dropped_tokens)]
        positive = [self.packing.sequence_length, self.packing.shard_sequences, self.tokenizer["vocab_size"]]
        ids = [*self.tokenizer["special_ids"], *(self.tokenizer[f"{role}_id"] for role in ("bos", "eos", "pad"))]
        optional = [id_ for role in ("unk", "mask") if (id_ := self.tokenizer[f"{role}_id"]) is not None]
        for lowest, numbers in ((0, sizes), (1, positive), (0, ids), (0, optional)):
            if wrong := [number for number in numbers if type(number) is not int or not lowest <= number < 2**62]:
                raise ValueError(f"a whole number of at least {lowest} is expected, got {wrong[0]!r}")
        if max([*ids, *optional]) >= self.tokenizer["vocab_size"]:
            raise ValueError(f"a special id is beyond the vocabulary of {self.tokenizer['vocab_size']}")
        if self.packing.layout not in ("compact", "published"):
            raise ValueError(f"the layout {self.packing.layout!r} is unknown")
        if outside := [file.name for file in files if ".." in Path(file.name).parts or Path(file.name).is_absolute()]:
            raise ValueError(f"the file {outside[0]!r} is outside the set's folder")

    @classmethod
    def load(cls, folder: Path) -> Manifest | None:
        """The manifest in a folder, if there is one; raises :class:`ArtefactError` where it cannot be understood."""
        path = folder / MANIFEST_FILE
        try:
            data = read_json(path)
            version = data.pop("format_version")
            if version != FORMAT_VERSION:
                raise ArtefactError(
                    f"{path} has format version {version}, and this program reads {FORMAT_VERSION}",
                    hint="build the shards again, or use the version of tpudeck that wrote them",
                )
            splits = {name: _split_from(split) for name, split in data.pop("splits").items()}
            manifest = cls(**data | {"packing": Packing(**data["packing"]), "splits": splits})
            manifest.check()
            return manifest
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ArtefactError(f"{path} is damaged: {error}", hint="build the shards again") from error


def _split_from(data: dict[str, Any]) -> SplitSummary:
    files = tuple(ShardFile(**file) for file in data["files"])
    return SplitSummary(**data | {"tally": Tally(**data["tally"]), "files": files})


def content_hash(key: str, splits: Mapping[str, SplitSummary]) -> str:
    """Identity of what is in the files: their names, sizes and checksums."""
    files = {name: [dataclasses.astuple(file) for file in split.files] for name, split in splits.items()}
    return hashlib.sha256(orjson.dumps([key, files], option=orjson.OPT_SORT_KEYS)).hexdigest()
