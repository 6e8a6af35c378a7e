"""What a command imports, seen from the outside: in a process of its own, through ``sys.modules``."""

from __future__ import annotations

import subprocess
import sys

import pytest

REPORT = """
import runpy, sys
sys.argv = ["tpudeck", *{arguments!r}]
try:
    from tpudeck.cli import main
    main()
except SystemExit:
    pass
print("\\nMODULES", *sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""

HEAVY = {"tensorflow", "tf_keras", "keras", "transformers", "textual", "torch", "jax", "datasets", "libtpu"}


def modules_after(*arguments: str) -> set[str]:
    """Top-level modules in memory when a command has ended."""
    code = REPORT.format(arguments=list(arguments))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("MODULES")[2].split())


@pytest.mark.parametrize("arguments", [("--help",), ("runs", "list"), ("runs", "list", "--json"), ("--version",)])
def test_the_quick_commands_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    loaded = modules_after(*arguments)
    assert not loaded & (HEAVY | {"pydantic", "rich", "tokenizers", "google"})


@pytest.mark.parametrize("arguments", [("presets", "list"), ("presets", "show", "quickstart"), ("doctor",)])
def test_commands_that_read_presets_or_look_around_stay_light(arguments: tuple[str, ...]) -> None:
    assert not modules_after(*arguments) & HEAVY


def test_importing_the_core_does_nothing_and_brings_nothing_heavy() -> None:
    code = "import sys, tpudeck; print(*sorted(m for m in sys.modules if not m.startswith(('_', 'encodings'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" not in done.stdout.split()
    assert "pydantic" not in done.stdout.split()
