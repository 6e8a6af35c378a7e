"""The small language that filters runs.

Terms are separated by spaces, and all of them must hold. :data:`GRAMMAR` says which there are.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tpudeck.errors import InputError
from tpudeck.runs.summary import RunSummary
from tpudeck.units import parse_count, parse_duration

__all__ = ["GRAMMAR", "Query", "parse_query"]

GRAMMAR = (
    ("word", "part of the name, id, preset, tags or note"),
    ('"two words"', "the same, with the space"),
    ("-term", "the opposite of any term"),
    ("status:running  tag:x  preset:x", "part of that text; with = the whole of it"),
    ("name:  note:  device:  phase:  id:", "likewise"),
    ("loss<3  eval<=3  best  attempt", "< <= > >= = != with a number"),
    ("step>10k  speed>10k  progress>50", "with a count, or a percentage"),
    ("duration>1h  age<2d", "with a duration"),
    ("cfg.train.learning_rate>1e-4", "a value of the run's experiment, text or number"),
    ("has:eval  has:note  has:alerts", "has a value of that name"),
    ("is:live  is:ended  is:archived", "how it is"),
)
"""Examples of every kind of term, and what each means."""

Config: TypeAlias = Callable[[RunSummary], Mapping[str, Any]]
"""The experiment of a run as nested data; it is asked only where a query needs it."""
Test: TypeAlias = Callable[[RunSummary, Config], bool]

_TERM = re.compile(r"(-?)([A-Za-z_][\w.-]*?)(<=|>=|!=|:|<|>|=)(\"[^\"]*\"|\S+)|(-?)(\"[^\"]*\"|\S+)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
    ":": operator.eq,
}  # fmt: skip
_TEXTS: dict[str, Callable[[RunSummary], str]] = {
    "status": lambda run: run.status,
    "preset": lambda run: run.preset,
    "name": lambda run: run.name,
    "id": lambda run: run.id,
    "tag": lambda run: "\n".join(run.tags),
    "note": lambda run: run.note,
    "device": lambda run: run.device,
    "phase": lambda run: run.phase,
}
_NUMBERS: dict[str, tuple[Callable[[RunSummary], float | None], Callable[[str], float]]] = {
    "loss": (lambda run: run.loss, float),
    "eval": (lambda run: run.eval_loss, float),
    "best": (lambda run: run.best_eval_loss, float),
    "step": (lambda run: run.step, parse_count),
    "speed": (lambda run: run.tokens_per_s, parse_count),
    "progress": (lambda run: None if run.progress is None else 100 * run.progress, lambda text: float(text.strip("%"))),
    "duration": (lambda run: run.duration_s, parse_duration),
    "age": (lambda run: time.time() - run.created, parse_duration),
    "attempt": (lambda run: run.attempt, float),
}
_HAS: dict[str, Callable[[RunSummary], object]] = {
    "tags": lambda run: run.tags,
    "alerts": lambda run: run.alerts,
    **{name: read for name, read in _TEXTS.items() if name != "id"},
}
_IS: dict[str, Callable[[RunSummary], bool]] = {
    "live": lambda run: run.live,
    "ended": lambda run: not run.live,
    "archived": lambda run: run.archived,
}


class Query:
    """A parsed filter."""

    def __init__(self, text: str, tests: list[Test], *, needs_config: bool) -> None:
        self.text = text
        self.needs_config = needs_config
        """Whether it asks for values of experiments, which have to be read first."""
        self._tests = tests

    def matches(self, run: RunSummary, config: Config) -> bool:
        """Whether a run is meant."""
        return all(test(run, config) for test in self._tests)


def parse_query(text: str) -> Query:
    """Read a filter; :class:`InputError` says which term is wrong and what would be right."""
    tests, needs_config = [], False
    for match in _TERM.finditer(text):
        minus, name, comparison, value, bare_minus, bare = match.groups()
        test = _word(bare.strip('"')) if bare is not None else _term(name, comparison, value.strip('"'))
        needs_config |= bool(name) and name.startswith("cfg.")
        tests.append(_opposite(test) if minus or bare_minus else test)
    return Query(text, tests, needs_config=needs_config)


def _opposite(test: Test) -> Test:
    return lambda run, config: not test(run, config)


def _word(word: str) -> Test:
    word = word.lower()
    return lambda run, _: word in "\n".join((run.name, run.id, run.preset, *run.tags, run.note)).lower()


def _term(name: str, comparison: str, value: str) -> Test:
    if name.startswith("cfg."):
        return _config_term(name.removeprefix("cfg."), comparison, value)
    if name == "has":
        return _has(value)
    if name == "is":
        return _is(value)
    if name in _NUMBERS:
        return _number_term(name, comparison, value)
    if name in _TEXTS:
        return _text_term(name, comparison, value)
    known = ", ".join((*_TEXTS, *_NUMBERS, "has", "is", "cfg.KEY"))
    raise InputError(f"a filter knows {known}, got {name!r}")


def _text_term(name: str, comparison: str, value: str) -> Test:
    read, value = _TEXTS[name], value.lower()
    if comparison == ":":
        return lambda run, _: value in read(run).lower()
    if comparison not in {"=", "!="}:
        raise InputError(f"{name} is text: use {name}:{value} or {name}={value}, got {comparison}")
    return lambda run, _: (value in read(run).lower().split("\n")) == (comparison == "=")


def _number_term(name: str, comparison: str, value: str) -> Test:
    read, parse = _NUMBERS[name]
    try:
        wanted = parse(value)
    except (ValueError, InputError) as error:
        raise InputError(f"{name} is compared with a number, got {value!r}") from error
    compare = _COMPARE[comparison]

    def test(run: RunSummary, _: Config) -> bool:
        found = read(run)
        return found is not None and compare(found, wanted)

    return test


def _config_term(path: str, comparison: str, value: str) -> Test:
    compare = _COMPARE[comparison]

    def test(run: RunSummary, config: Config) -> bool:
        found: Any = config(run)
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if isinstance(found, bool) or found is None or isinstance(found, str):
            text = str(found).lower()
            if comparison in {"<", "<=", ">", ">="}:
                return False
            return value.lower() in text if comparison == ":" else compare(text, value.lower())
        try:
            return compare(float(found), float(value))
        except (TypeError, ValueError):
            return comparison == "!="

    return test


def _has(what: str) -> Test:
    if what in _NUMBERS:
        number = _NUMBERS[what][0]
        return lambda run, _: number(run) is not None
    if what not in _HAS:
        raise InputError(f"has: knows {', '.join((*_NUMBERS, *_HAS))}, got {what!r}")
    read = _HAS[what]
    return lambda run, _: bool(read(run))


def _is(what: str) -> Test:
    if what not in _IS:
        raise InputError(f"is: knows {', '.join(_IS)}, got {what!r}")
    return lambda run, _: _IS[what](run)
