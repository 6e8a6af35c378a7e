"""What special tokens are for, by the names they usually have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["ROLES", "roles_of"]

ROLES: Mapping[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]"),
    "mask": ("<mask>", "[MASK]"),
    "bos": ("<s>", "[CLS]", "<|endoftext|>"),
    "eos": ("</s>", "[SEP]", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]"),
}
"""Role → the names of the token that plays it, the one that wins first."""


def roles_of(specials: Iterable[str]) -> dict[str, str]:
    """Which of these special tokens plays which role."""
    there = set(specials)
    return {role: next(name for name in names if name in there) for role, names in ROLES.items() if there & {*names}}
