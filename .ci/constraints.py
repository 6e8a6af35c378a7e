"""Write constraints.txt from pip's own resolution on several Pythons.

For each supported Python, in a fresh environment of that version, inside the repository::

    python -m pip install --dry-run --ignore-installed --report report-3.X.json '.[cpu,dev,preflight]'

then ``python .ci/constraints.py report-*.json > constraints.txt``. A version that all Pythons agree on stands bare; one
that differs carries a marker. Only names and versions are written, never where they came from.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path


def main(paths: list[str]) -> None:
    pins: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    pythons: set[str] = set()
    for path in paths:
        report = json.loads(Path(path).read_text())
        python = report["environment"]["python_version"]
        pythons.add(python)
        for item in report["install"]:
            name = item["metadata"]["name"].lower().replace("_", "-")
            if name != "tpudeck":
                pins[name][item["metadata"]["version"]].add(python)
    print("# Versions that work together, for Python " + ", ".join(sorted(pythons, key=_order)) + ".")
    print("# Written by .ci/constraints.py; see there.")
    for name in sorted(pins):
        for version, where in sorted(pins[name].items()):
            print(f"{name}=={version}" + _marker(where, pythons))


def _order(python: str) -> tuple[int, ...]:
    return tuple(map(int, python.split(".")))


def _marker(where: set[str], pythons: set[str]) -> str:
    if where == pythons:
        return ""
    return " ; " + " or ".join(f"python_version == '{python}'" for python in sorted(where, key=_order))


if __name__ == "__main__":
    main(sys.argv[1:])
