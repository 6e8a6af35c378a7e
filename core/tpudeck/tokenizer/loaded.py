"""A tokenizer as the rest of the program uses it: the Rust encoder, and which ids play which role.

Roles come from the files that Transformers writes beside ``tokenizer.json``; where it stands alone, from the names that
special tokens usually have. Two settings live in no file and are set at every load: special tokens in the text are
text, and nothing is padded or truncated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tpudeck.errors import ArtefactError
from tpudeck.storage import hash_file, read_json, write_atomic, write_json
from tpudeck.tokenizer.roles import ROLES

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["TOKENIZER_FILES", "LoadedTokenizer", "load", "read_rust"]

_CONFIG_KEYS: Mapping[str, tuple[str, ...]] = {
    "pad": ("pad_token",),
    "mask": ("mask_token",),
    "bos": ("cls_token", "bos_token"),
    "eos": ("sep_token", "eos_token"),
    "unk": ("unk_token",),
}
"""Role → the keys of ``tokenizer_config.json`` that name its token, the one that wins first."""


TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)
"""What Transformers may want to find beside a model; the first is the tokenizer, whole."""


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer that is ready to encode."""

    folder: Path
    rust: Tokenizer
    """Its ``encode_special_tokens`` is set: special tokens in the text are text."""
    hash: str
    """SHA-256 of ``tokenizer.json``: what shards and runs refer to."""
    vocab_size: int
    """Largest id + 1, which may be more than the number of tokens."""
    pad_id: int
    """Where a tokenizer has no padding token, its end-of-text token."""
    mask_id: int | None
    bos_id: int
    """``[CLS]``, ``<s>`` or ``<|endoftext|>``."""
    eos_id: int
    """``[SEP]``, ``</s>`` or ``<|endoftext|>``."""
    unk_id: int | None
    """None where every text can be spelled, as with byte-level BPE."""
    special_ids: tuple[int, ...]
    """In increasing order."""

    def save(self, folder: Path, *, model_max_length: int | None = None) -> None:
        """Copy into a model's folder, so that ``AutoTokenizer`` opens it; with the longest sequence of the model."""
        for name in TOKENIZER_FILES:
            if (self.folder / name).exists():
                write_atomic(folder / name, (self.folder / name).read_bytes())
        if model_max_length is not None:
            config = _json_in(self.folder, "tokenizer_config.json") | {"model_max_length": model_max_length}
            write_json(folder / "tokenizer_config.json", config)


def load(folder: Path | str) -> LoadedTokenizer:
    """Load a tokenizer from a folder, or from a lone ``tokenizer.json``.

    Raises :class:`~tpudeck.errors.ArtefactError` where there is none, it is damaged, written by a newer library, or
    lacks a token that shards cannot do without (one to begin and one to end a document).
    """
    given = Path(folder).expanduser()
    path = given if given.is_file() else given / "tokenizer.json"
    rust = read_rust(path)
    vocabulary = rust.get_vocab(with_added_tokens=True)
    specials = {token.content: id_ for id_, token in rust.get_added_tokens_decoder().items() if token.special}
    roles = _roles(path.parent, vocabulary, specials)
    if "bos" not in roles:
        raise ArtefactError(
            f"{path.parent} names no token that begins or ends a document",
            hint="name cls_token and sep_token (or bos_token and eos_token) in its tokenizer_config.json",
        )
    return LoadedTokenizer(
        folder=path.parent,
        rust=rust,
        hash=hash_file(path),
        vocab_size=max(vocabulary.values()) + 1,
        pad_id=roles.get("pad", roles["eos"]),
        mask_id=roles.get("mask"),
        bos_id=roles["bos"],
        eos_id=roles["eos"],
        unk_id=roles.get("unk"),
        special_ids=tuple(sorted({*specials.values(), *roles.values()})),
    )


def has_tokenizer(path: Path) -> bool:
    """Whether there is something here that :func:`load` would read."""
    return path.is_file() or (path / "tokenizer.json").is_file()


def read_rust(path: Path) -> Tokenizer:
    """The encoder in a ``tokenizer.json``, set so that text is only text."""
    from tokenizers import Tokenizer

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ArtefactError(
            f"{path.parent} holds no tokenizer.json",
            hint="give a folder written by `tpudeck tokenizer train` or by Transformers' save_pretrained (fast)",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ArtefactError(f"{path} cannot be read: {error}") from error
    try:
        rust = Tokenizer.from_str(text)
    except Exception as error:  # the Rust side raises nothing more particular
        raise _unreadable(path, text, error) from error
    rust.no_padding()
    rust.no_truncation()
    rust.encode_special_tokens = True
    return rust


def _unreadable(path: Path, text: str, error: Exception) -> ArtefactError:
    """Tell a damaged file from one that a newer library wrote."""
    import tokenizers

    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as damage:
        return ArtefactError(f"{path} is damaged: {damage}", hint="fetch or train it again")
    written_by = manifest_of(path.parent).get("versions", {}).get("tokenizers")
    by = f" (written by tokenizers {written_by})" if written_by else ""
    return ArtefactError(
        f"{path}{by} is not understood by tokenizers {tokenizers.__version__}: {error}",
        hint="a newer version wrote it, or it was edited: save it with this version, or update tokenizers",
    )


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest beside a tokenizer; empty where it has none."""
    try:
        return dict(read_json(folder / "manifest.json"))
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}


def _roles(folder: Path, vocabulary: Mapping[str, int], specials: Mapping[str, int]) -> dict[str, int]:
    """Role → id: as the files beside ``tokenizer.json`` name them, else special tokens with the usual names."""
    named = _json_in(folder, "special_tokens_map.json") | _json_in(folder, "tokenizer_config.json")
    roles: dict[str, int] = {}
    for role, keys in _CONFIG_KEYS.items():
        told = [vocabulary[token] for key in keys if (token := _content(named.get(key))) in vocabulary]
        usual = [specials[token] for token in ROLES[role] if token in specials]
        if told or usual:
            roles[role] = (told or usual)[0]
    for role, other in (("bos", "eos"), ("eos", "bos")):
        if role not in roles and other in roles:
            roles[role] = roles[other]
    return roles


def _content(token: Any) -> str:
    """A token's text, if any: in these files it is a string, or an object that says more about it."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else ""


def _json_in(folder: Path, name: str) -> dict[str, Any]:
    try:
        value = read_json(folder / name)
    except FileNotFoundError:
        return {}
    except orjson.JSONDecodeError as error:
        raise ArtefactError(f"{folder / name} is damaged: {error}") from error
    return dict(value) if isinstance(value, dict) else {}
