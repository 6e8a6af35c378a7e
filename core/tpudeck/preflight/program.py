"""Which operations of an optimised HLO program move the most bytes through the chip's main memory.

An instruction of the scheduled program reads its operands and writes its result; both count, unless they live in the
chip's fast memory (``S(1)`` in a layout). A loop's body counts as often as it runs. Instructions that come from the
same kind of TensorFlow operation and have the same largest array are one entry, because a model's layers are alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

__all__ = ["consumers"]

_ITEM_BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4,
               "s64": 8, "u64": 8, "f64": 8, "c64": 8}  # fmt: skip
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+)(?: \([^\n]*\))?(?: -> [^\n]*)? \{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.+?) ([a-z][\w\-]*)\((.*)$")
_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\](?:\{([^}]*)\})?")
_NAME = re.compile(r'op_name="([^"]*)"')
_FREE = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy-done", "after-all", "while", "conditional",
     "slice-done", "async-done", "partition-id", "iota"}
)  # fmt: skip
"""They move nothing themselves: what they name is moved by others."""


@dataclass(frozen=True)
class _Instruction:
    name: str
    shape: str
    kind: str
    rest: str

    def operands(self) -> list[str]:
        """Names of the operands: those before the closing bracket of the call."""
        depth = 1
        for position, character in enumerate(self.rest):
            depth += (character in "({") - (character in ")}")
            if depth == 0:
                return re.findall(r"%?([A-Za-z_][\w.\-]*)(?=[,)\s]|$)", self.rest[:position])
        return []


def consumers(text: str, *, most: int = 8) -> list[dict[str, Any]]:
    """The groups of instructions that move the most bytes: operation, array, bytes, share of all, and how many."""
    computations, entry = _computations(text)
    groups: dict[tuple[str, str], list[float]] = {}
    for instruction, repeats, shapes in _executed(computations, entry):
        arrays = [array for shape in shapes for array in _arrays(shape)]
        if not arrays:
            continue
        largest = max(arrays, key=lambda array: array[1])[0]
        group = groups.setdefault((_operation(instruction), largest), [0.0, 0.0])
        group[0] += repeats * sum(size for _, size in arrays)
        group[1] += repeats
    total = sum(moved for moved, _ in groups.values()) or 1.0
    ordered = sorted(groups.items(), key=lambda item: -item[1][0])[:most]
    return [
        {"operation": operation, "array": array, "bytes": moved, "share": moved / total, "count": int(count)}
        for (operation, array), (moved, count) in ordered
    ]


def _computations(text: str) -> tuple[dict[str, list[_Instruction]], str]:
    """Computation → its instructions, and the name of the one that is the program."""
    computations: dict[str, list[_Instruction]] = {}
    entry, current = "", ""
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            current = match[1]
            computations[current] = []
            entry = current if line.startswith("ENTRY") else entry
        elif current and (match := _INSTRUCTION.match(line)):
            computations[current].append(_Instruction(match[1], match[2], match[3], match[4]))
    return computations, entry


def _executed(
    computations: dict[str, list[_Instruction]], name: str, repeats: int = 1
) -> list[tuple[_Instruction, int, list[str]]]:
    """The instructions that are scheduled, how often each runs, and the shapes it reads and writes."""
    found: list[tuple[_Instruction, int, list[str]]] = []
    shapes = {instruction.name: instruction.shape for instruction in computations.get(name, ())}
    for instruction in computations.get(name, ()):
        if instruction.kind == "while":
            body = re.search(r"body=%?([\w.\-]+)", instruction.rest)
            trips = re.search(r'known_trip_count"?:\{"?n"?:"?(\d+)', instruction.rest)
            if body:
                found += _executed(computations, body[1], repeats * (int(trips[1]) if trips else 1))
        if instruction.kind not in _FREE:
            read = [shapes[operand] for operand in instruction.operands() if operand in shapes]
            found.append((instruction, repeats, [instruction.shape, *read]))
    return found


def _arrays(shape: str) -> list[tuple[str, int]]:
    """The arrays of a shape that live in main memory, with their sizes in bytes."""
    found = []
    for kind, dimensions, layout in _ARRAY.findall(shape):
        if kind in _ITEM_BYTES and not re.search(r"S\([1-9]\)", layout):
            size = _ITEM_BYTES[kind]
            for dimension in filter(None, dimensions.split(",")):
                size *= int(dimension)
            found.append((f"{kind}[{dimensions}]", size))
    return found


def _operation(instruction: _Instruction) -> str:
    """The TensorFlow operation an instruction came from, without numbers; else the instruction's own kind."""
    match = _NAME.search(instruction.rest)
    if match is None or not match[1]:
        return instruction.kind
    parts = [re.sub(r"_\d+$", "", part) for part in match[1].split("/")]
    backward = "gradient_tape" in parts
    name = next((part for part in reversed(parts) if part not in {"gradient_tape", "while", "body"}), parts[-1])
    return f"{name} (backward)" if backward else name
