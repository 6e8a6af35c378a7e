"""Errors cross process borders as plain data, and say what to do."""

from __future__ import annotations

import json

import pytest

from tpudeck import errors
from tpudeck.errors import Fault, PresetError, TpudeckError, from_dict

CLASSES = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error") and name != "PresetError"]


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_comes_back_from_another_process_as_it_was(cls: type[TpudeckError]) -> None:
    back = from_dict(json.loads(json.dumps(cls("it broke", hint="mend it").to_dict())))
    assert type(back) is cls
    assert (back.message, back.hint, back.exit_code) == ("it broke", "mend it", cls.exit_code)


def test_a_preset_error_comes_back_with_its_faults() -> None:
    sent = PresetError([Fault("train.steps", "must be a whole number", "'x'")], source="mine", hint="look")
    back = from_dict(json.loads(json.dumps(sent.to_dict())))
    assert isinstance(back, PresetError)
    assert (back.faults, back.source, back.show()) == (sent.faults, "mine", sent.show())


def test_an_error_of_a_class_we_do_not_know_is_work_that_failed() -> None:
    back = from_dict({"type": "SystemExit", "message": "boo"})
    assert isinstance(back, errors.WorkError)
    assert back.exit_code == 1


def test_what_is_shown_is_the_rule_what_arrived_and_what_to_do() -> None:
    assert Fault("a.b", "must be odd", "2", "one of 1, 3").show() == "a.b: must be odd, got 2 (one of 1, 3)"
    assert TpudeckError("it broke", hint="mend it").show() == "it broke\n  → mend it"
    assert TpudeckError("it broke").show() == "it broke"


def test_exit_codes_tell_wrong_input_from_failed_work_from_busy_from_interrupted() -> None:
    codes = {cls.__name__: cls.exit_code for cls in CLASSES}
    assert codes["InputError"] == codes["CorpusError"] == codes["ArtefactError"] == PresetError.exit_code == 2
    assert (codes["WorkError"], codes["RetryLaterError"], codes["InterruptedRunError"]) == (1, 3, 130)
