"""What the statistics of a shard set mean, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tpudeck.inspection.findings import Finding, percent

__all__ = ["findings"]

_OUTLIER_NATS = 0.3
_OUTLIER_DEVIATIONS = 6.0


def findings(described: Mapping[str, Any]) -> list[Finding]:
    """Of a whole set, as :func:`~tpudeck.inspection.shards.inspect_shards` describes it."""
    found = [*_vocabulary(described)]
    for name, split in described["splits"].items():
        found += [*_shares(name, split), *_cuts(name, split, described["sequence_length"])]
        found += _outliers(name, described["files"][name])
    return found


def _vocabulary(described: Mapping[str, Any]) -> Iterator[Finding]:
    size, unused = described["vocab_size"], described["never_used"]
    if described["manifest"] and unused > 0.05 * size:
        yield Finding(
            "warning",
            f"{unused:,} of {size:,} tokens ({percent(unused / size)}) never occur"
            + (" in the sample" if described["share"] < 1 else ""),
            "a smaller tokenizer.vocab_size costs less memory and compute; or train on more text",
        )


def _shares(name: str, split: Mapping[str, Any]) -> Iterator[Finding]:
    if (split["unknown_share"] or 0) > 0.001:
        message = f"{name}: {percent(split['unknown_share'])} of the tokens are the unknown token"
        yield Finding("warning", message, "train the tokenizer on this text, or use byte-level BPE")
    if split["duplicate_share"] > 0.01:
        message = f"{name}: {percent(split['duplicate_share'])} of the sequences repeat another, token for token"
        yield Finding("warning", message, "remove duplicates from the text: `tpudeck corpus show --statistics`")
    if split["padding_share"] > 0.05:
        message = f"{name}: {percent(split['padding_share'])} of the tokens are padding"
        yield Finding("warning", message, "build the shards with `tpudeck shards build`: it never pads")
    dropped = split.get("dropped_tokens", 0)
    if dropped > 0.01 * (split["tokens"] + dropped):
        message = f"{name}: {dropped:,} tokens at the end of the text are dropped"
        yield Finding("info", message, "more text, or a shorter shards.sequence_length")


def _cuts(name: str, split: Mapping[str, Any], length: int) -> Iterator[Finding]:
    documents = split.get("documents", 0) - split.get("empty_documents", 0)
    if documents and split["cut_documents"] > 0.5 * documents:
        share = percent(split["cut_documents"] / documents)
        yield Finding(
            "info",
            f"{name}: {share} of the documents do not lie within one sequence of {length} tokens",
            "a longer shards.sequence_length keeps more of them whole, at more compute per sequence",
        )


def _outliers(name: str, files: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Files whose tokens the frequencies of the whole tell much worse (or better) than those of the other files."""
    files = [file for file in files if file["tokens"]]
    if len(files) < 4:
        return
    nats = np.array([file["unigram_nats"] for file in files])
    middle = float(np.median(nats))
    spread = 1.4826 * float(np.median(abs(nats - middle)))  # the standard deviation, where they are normal
    far = (abs(nats - middle) > _OUTLIER_NATS) & (abs(nats - middle) > _OUTLIER_DEVIATIONS * spread)
    for index in np.flatnonzero(far):
        yield Finding(
            "warning",
            f"{name}: {files[index]['name']} is unlike the others: {nats[index]:.2f} nats a token by the frequencies "
            f"of the set, the middle file {middle:.2f}",
            "look at it with `tpudeck shards head`: another language, another format, or noise",
        )
