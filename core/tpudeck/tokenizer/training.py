"""Train a tokenizer: survey the text, say what is possible, train, put ids in order, and try it out.

The trainer is a Rust call of seconds to hours that cannot be interrupted, so it runs in a thread; the caller's
``watch`` is called a few times a second, and whatever it raises ends the wait. The process is then expected to exit: a
trainer writes no files, so nothing is left behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tpudeck.errors import InputError, WorkError
from tpudeck.presets.schema import Tokenizer as Settings
from tpudeck.tokenizer import recipes
from tpudeck.tokenizer.roles import roles_of
from tpudeck.tokenizer.survey import Survey, even_sample

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Phase", "Trained", "Watch", "train"]

Phase = Literal["surveying", "reading", "training"]
Watch = Callable[[Phase, int], None]
"""Called now and then with what is going on and how many bytes of text went through it."""

Batches = Iterable[Sequence[str]]

_WATCH_EVERY_S = 0.2
_TRIED_DOCUMENTS = 200
_RARE = "\U000130ed\ufdd0"
"""A hieroglyph and a code point that is no character."""


@dataclass(frozen=True)
class Trained:
    """A tokenizer and what is known about its making."""

    rust: Tokenizer
    survey: Survey
    minimum: int
    """The smallest vocabulary that the text allowed."""
    round_trip_failures: int
    """Of the first few hundred documents, how many don't decode to their normalised text."""
    round_trips: int

    @property
    def vocab_size(self) -> int:
        return int(self.rust.get_vocab_size())


def train(
    settings: Settings,
    specials: tuple[str, ...],
    batches: Batches,
    *,
    watch: Watch = lambda phase, done: None,
    surveyed: Callable[[Survey, int], None] = lambda survey, minimum: None,
) -> Trained:
    """Train on documents that can be read twice.

    ``surveyed`` is told, before training, what the text is made of and the smallest vocabulary it allows. Raises
    :class:`~tpudeck.errors.InputError` where the vocabulary asked for is smaller.
    """
    if settings.sample_mb is not None:
        batches = list(even_sample(_watched(batches, "surveying", watch), int(settings.sample_mb * 1e6)))
    rust = recipes.untrained(settings, specials)
    survey = Survey(specials, rust.normalizer, pairs_wanted=settings.kind == "wordpiece")
    for batch in _watched(batches, "surveying", watch):
        survey.add(batch)
    minimum = recipes.minimum_vocabulary(settings.kind, survey)
    surveyed(survey, minimum)
    if settings.vocab_size < minimum:
        raise _too_small(settings, survey, minimum)
    _train_in_thread(rust, batches, recipes.trainer(settings, survey), specials, watch)
    rust = recipes.canonical(rust, settings, specials)
    rust.encode_special_tokens = True
    tried = [document for batch, _ in zip(batches, range(1), strict=False) for document in batch][:_TRIED_DOCUMENTS]
    _try_out(rust, specials)
    failures = sum(not _round_trips(rust, document) for document in tried)
    return Trained(rust, survey, minimum, failures, len(tried))


def _too_small(settings: Settings, survey: Survey, minimum: int) -> InputError:
    return InputError(
        f"a vocabulary of {settings.vocab_size:,} cannot be: this text needs at least {minimum:,} ({settings.kind}: "
        f"{len(survey.specials)} special tokens and {minimum - len(survey.specials):,} single symbols)",
        hint=f"ask for more with tokenizer.vocab_size={minimum} or above"
        + ("" if settings.kind == "byte_bpe" else ", or use byte_bpe, which needs 256 symbols for any text"),
    )


def _watched(batches: Batches, phase: Phase, watch: Watch) -> Iterator[Sequence[str]]:
    done = 0
    for batch in batches:
        watch(phase, done)
        yield batch
        done += sum(map(len, batch))


def _train_in_thread(rust: Tokenizer, batches: Batches, trainer: object, specials: Sequence[str], watch: Watch) -> None:
    state: tuple[Phase, int] = ("reading", 0)
    failure: list[BaseException] = []

    def fed() -> Iterator[list[str]]:
        nonlocal state
        done = 0
        for batch in recipes.broken_up(batches, specials):
            yield batch
            done += sum(map(len, batch))
            state = ("reading", done)
        state = ("training", done)

    def work() -> None:
        try:
            rust.train_from_iterator(fed(), trainer)
        except BaseException as error:  # noqa: BLE001 (raised again in the thread that waits)
            failure.append(error)

    thread = threading.Thread(target=work, name="tokenizer-trainer", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_WATCH_EVERY_S)
        watch(*state)
    if failure:
        raise failure[0]


def _try_out(rust: Tokenizer, specials: Sequence[str]) -> None:
    """What every trained tokenizer must be able to do; a :class:`WorkError` says which it cannot."""
    roles = {role: rust.token_to_id(token) for role, token in roles_of(specials).items()}
    problems = []
    try:
        ids = rust.encode(f"a {_RARE} b").ids
    except Exception as error:  # the Rust side raises nothing more particular
        raise WorkError(f"the new tokenizer fails on a rare character: {error}") from error
    causal = roles["bos"] == roles["eos"]
    if causal and ids[-1] == roles["eos"]:
        problems.append("it ends every prompt")
    if not causal and (ids[0], ids[-1]) != (roles["bos"], roles["eos"]):
        problems.append("documents don't begin and end with their special tokens")
    for special in specials:
        inside = rust.encode(special, add_special_tokens=False).ids
        # The unknown token may come of it honestly: word pieces need not be able to spell "unk".
        if special != roles_of(specials)["unk"] and rust.token_to_id(special) in inside:
            problems.append(f"the text {special} becomes the special token")
    if [rust.token_to_id(special) for special in specials] != list(range(len(specials))):
        problems.append("special tokens don't come first")
    if problems:
        raise WorkError(f"the new tokenizer is not usable: {'; '.join(problems)}")


def _round_trips(rust: Tokenizer, document: str) -> bool:
    """Whether a document decodes to its normalised text; white space aside, which word pieces don't keep."""
    normal = document if rust.normalizer is None else rust.normalizer.normalize_str(document)
    decoded = rust.decode(rust.encode(document).ids)
    return "".join(decoded.split()) == "".join(normal.split())
