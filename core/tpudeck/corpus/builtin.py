"""The corpus that every Python interpreter carries: the language reference and the docstrings of its library.

Nothing is imported but :mod:`pydoc_data.topics` (data); docstrings are read from the source, so no module runs and it
makes no difference what else is installed. For one build of Python the documents are always the same, in the same
order: paragraphs, each once, with white space folded.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import inspect
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType

from tpudeck.errors import CorpusError

__all__ = ["documents", "fingerprint"]

_LEFT_OUT = {"test", "tests", "idlelib", "turtledemo", "lib2to3", "ensurepip", "site-packages", "dist-packages"}
_SHORTEST = 20
"""Characters of the shortest paragraph that is kept: below are headings and lone identifiers."""


@functools.cache
def documents() -> tuple[str, ...]:
    """Every paragraph, about two megabytes; reading it takes seconds, so a process does it once."""
    paragraphs: dict[str, None] = {}
    for text in _texts():
        for paragraph in _paragraphs(text):
            paragraphs.setdefault(paragraph)
    if not paragraphs:
        raise CorpusError(
            f"this Python ({sys.executable}) carries no documentation",
            hint="use one whose standard library comes as source, or give a file: --set corpus.source=FILE",
        )
    return tuple(paragraphs)


def fingerprint() -> str:
    """Identity of the built-in corpus, without reading it all: names and sizes of its sources, and the reference."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(f"{path.relative_to(_library())}:{path.stat().st_size}\n".encode())
    for text in (*_reference(), *_builtins()):
        digest.update(text.encode("utf-8", "replace"))
    return digest.hexdigest()


def _texts() -> Iterator[str]:
    yield from _reference()
    yield from _builtins()
    for path in _sources():
        yield from _docstrings(path)


def _paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        if stripped := line.strip():
            lines.append(stripped)
        else:
            paragraph = " ".join(" ".join(lines).split())
            lines = []
            if len(paragraph) >= _SHORTEST:
                yield paragraph


def _reference() -> list[str]:
    from pydoc_data.topics import topics

    return [topics[name] for name in sorted(topics)]


def _builtins() -> Iterator[str]:
    """Docstrings of the built-in functions and types, which have no Python source."""
    for name in sorted(vars(builtins)):
        thing = getattr(builtins, name)
        if not isinstance(thing, (type, BuiltinFunctionType)) or (thing.__module__, thing.__name__) != (
            "builtins",
            name,
        ):
            continue  # what shells, site and other packages put there, and second names
        yield thing.__doc__ or ""
        if isinstance(thing, type):
            members = [vars(thing)[member] for member in sorted(vars(thing))]
            yield from (member.__doc__ or "" for member in members if _documents_itself(member))


def _documents_itself(member: object) -> bool:
    return inspect.isroutine(member) or inspect.isdatadescriptor(member)


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _sources() -> Iterator[Path]:
    """The source files of the standard library, in order of name."""
    root = _library()
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        if (root / name).is_dir():
            inside = (path for path in (root / name).rglob("*.py") if not _LEFT_OUT & set(path.relative_to(root).parts))
            yield from sorted(inside)
        elif (root / f"{name}.py").is_file():
            yield root / f"{name}.py"


def _docstrings(path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old escapes in the library's own literals
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return
    yield from _docstrings_below(tree)


def _docstrings_below(node: ast.AST) -> Iterator[str]:
    """In the order of the source."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler)):
            yield from _docstrings_below(child)
