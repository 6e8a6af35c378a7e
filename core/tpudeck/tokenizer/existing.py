"""Tokenizers that exist already: in a folder, as a lone ``tokenizer.json``, or on the Hub.

They are copied and made fit: documents get a beginning and an end where the tokenizer adds none, and text that spells a
special token stays text (a Unigram model gives special tokens the best score there is, so they win against any
spelling).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tpudeck.errors import ArtefactError
from tpudeck.folders import bring
from tpudeck.storage import hash_file, read_json, write_atomic, write_json
from tpudeck.tokenizer import recipes
from tpudeck.tokenizer.loaded import TOKENIZER_FILES, LoadedTokenizer, load

if TYPE_CHECKING:
    from tpudeck.pretrained import Weights

__all__ = ["Adopted", "adopt", "fetch", "identity", "require_same_tokens"]


def fetch(source: str, revision: str) -> Path:
    """The folder that holds a tokenizer's files, brought here where it is in a bucket or on the Hub."""
    return bring(source, revision, patterns=TOKENIZER_FILES, what="tokenizer").path


def _files(source: Path) -> dict[str, Path]:
    if source.is_file():
        return {"tokenizer.json": source}
    return {name: source / name for name in TOKENIZER_FILES if (source / name).is_file()}


def identity(source: Path) -> dict[str, str]:
    """What tells one tokenizer from another: the hash of each of its files."""
    return {name: hash_file(path) for name, path in _files(source).items()}


@dataclass(frozen=True)
class Adopted:
    """A tokenizer made fit, not yet written."""

    files: dict[str, Path]
    text: str
    """Of the new ``tokenizer.json``."""
    names: dict[str, Any]
    """What its configuration has to say besides what it says already."""
    kind: str
    vocab_size: int
    warnings: list[str]

    def write(self, folder: Path) -> None:
        for name, path in self.files.items():
            write_atomic(folder / name, path.read_bytes())
        write_atomic(folder / "tokenizer.json", self.text.encode())
        given = self.files.get("tokenizer_config.json")
        write_json(folder / "tokenizer_config.json", self.names | (read_json(given) if given else {}))


def adopt(source: Path, objective: str, *, name: str) -> Adopted:
    """Load and make fit; raises :class:`~tpudeck.errors.ArtefactError` where it cannot serve this objective."""
    tokenizer = load(source)
    if objective == "masked" and tokenizer.mask_id is None:
        raise ArtefactError(
            f"the tokenizer {name} has no mask token, and a masked language model is trained with one",
            hint="take another, or train one; or train a causal model: model.architecture=gpt2",
        )
    files = _files(source)
    data = orjson.loads(tokenizer.rust.to_str())
    before = orjson.dumps(data)
    names = _names(tokenizer, objective)
    warnings = []
    if fault := _fault_in_marks(tokenizer, objective):
        data["post_processor"] = _template(tokenizer, objective)
        warnings.append(f"{name} {fault}")
    if data["model"]["type"] == "Unigram":
        for id_ in tokenizer.special_ids:
            if id_ < len(data["model"]["vocab"]):
                data["model"]["vocab"][id_][1] = recipes.UNREACHABLE
    if orjson.dumps(data) == before:  # to the letter: shards and runs know it by its hash
        text = files["tokenizer.json"].read_text(encoding="utf-8")
    else:
        text = orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
    warnings += _still_special(text, tokenizer, name)
    return Adopted(
        files=files,
        text=text,
        names={"tokenizer_class": "PreTrainedTokenizerFast", **names},
        kind=data["model"]["type"],
        vocab_size=tokenizer.vocab_size,
        warnings=warnings,
    )


def _names(tokenizer: LoadedTokenizer, objective: str) -> dict[str, str]:
    ids = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id, "pad_token": tokenizer.pad_id}
    if objective == "masked":
        ids |= {"cls_token": tokenizer.bos_id, "sep_token": tokenizer.eos_id}
    optional = {"mask_token": tokenizer.mask_id, "unk_token": tokenizer.unk_id}
    ids |= {role: id_ for role, id_ in optional.items() if id_ is not None}
    return {role: tokenizer.rust.id_to_token(id_) for role, id_ in ids.items()}


def _fault_in_marks(tokenizer: LoadedTokenizer, objective: str) -> str:
    """What is wrong with the special tokens around a text: a masked model wants both ends, a causal one no end."""
    ids = tokenizer.rust.encode("a").ids
    if objective == "causal":
        return "ends every prompt; this copy leaves it open" if ids[-1] == tokenizer.eos_id else ""
    marked = ids[-1] == tokenizer.eos_id and ids[0] == tokenizer.bos_id
    return "" if marked else "marks no ends of documents by itself; this copy does"


def _template(tokenizer: LoadedTokenizer, objective: str) -> Any:
    from tokenizers import Tokenizer, models

    bos, eos = (tokenizer.rust.id_to_token(id_) for id_ in (tokenizer.bos_id, tokenizer.eos_id))
    around = Tokenizer(models.BPE())
    ids = {bos: tokenizer.bos_id, eos: tokenizer.eos_id}
    around.post_processor = recipes.template({"bos": bos, "eos": eos}, ids, causal=objective == "causal")
    return orjson.loads(around.to_str())["post_processor"]


def _still_special(text: str, tokenizer: LoadedTokenizer, name: str) -> list[str]:
    """A warning for special tokens that their spelling in the text turns into."""
    from tokenizers import Tokenizer

    rust = Tokenizer.from_str(text)
    rust.no_padding()
    rust.no_truncation()
    rust.encode_special_tokens = True
    tokens = [rust.id_to_token(id_) for id_ in tokenizer.special_ids]
    turned = [token for token in tokens if rust.token_to_id(token) in rust.encode(token, add_special_tokens=False).ids]
    return [f"{name} turns text that spells {', '.join(turned)} into special tokens"] if turned else []


def require_same_tokens(tokenizer: LoadedTokenizer, weights: Weights) -> list[str]:
    """Raise where a number means another token to the weights than to this tokenizer; what a person should hear.

    Tokens that only this tokenizer has are new: they start from random embeddings.
    """
    try:
        known = load(fetch(weights.source, weights.revision)).rust.get_vocab(with_added_tokens=True)
    except ArtefactError:
        return [f"{weights.source} holds no tokenizer to compare with: it is taken to be the one given"]
    ours = tokenizer.rust.get_vocab(with_added_tokens=True)
    other = sorted((id_, token) for token, id_ in known.items() if ours.get(token) != id_)
    if other:
        id_, token = other[0]
        raise ArtefactError(
            f"{len(other):,} of {len(known):,} tokens of the weights {weights.source} have other ids, or none, in the "
            f"tokenizer {tokenizer.folder}: {token!r} is {ours.get(token, 'unknown')} and was {id_}",
            hint="leave tokenizer.source out: the weights bring their own tokenizer",
        )
    return []
