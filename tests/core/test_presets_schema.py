"""The rules of an experiment: what is refused, in which words, and that all faults are told at once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from tpudeck.errors import PresetError
from tpudeck.presets import FAMILIES, check, experiment_from, flatten, json_schema
from tpudeck.presets.architectures import masked_classes
from tpudeck.presets.schema import Experiment

VALID: dict[str, Any] = {"train": {"steps": 10, "global_batch_size": 8}}


def with_(**sections: dict[str, Any]) -> dict[str, Any]:
    """A valid experiment with some sections changed."""
    return VALID | {name: VALID.get(name, {}) | values for name, values in sections.items()}


def faults(data: dict[str, Any]) -> dict[str, str]:
    """Path → the fault as people read it."""
    return {fault.path: fault.show() for fault in check(data)[1]}


def test_a_length_and_a_batch_size_are_all_that_must_be_said() -> None:
    assert experiment_from(VALID).train.steps == 10


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        (with_(model={"widht": 3}), "model.widht", "did you mean width?"),
        (VALID | {"layers": 3}, "layers", "did you mean model.layers?"),
        (with_(train={"sequence_length": 8}), "train.sequence_length", "did you mean shards.sequence_length?"),
        (VALID | {"zzz": 3}, "zzz", "known: name, summary"),
        (with_(model={"layers": "12"}), "model.layers", "must be a whole number, got '12'"),
        (with_(model={"layers": True}), "model.layers", "must be a whole number, got True"),
        (with_(model={"layers": 0}), "model.layers", "must be at least 1, got 0"),
        (VALID | {"shards": 3}, "shards", "must be a section, got 3"),
        (with_(train={"learning_rate": float("nan")}), "train.learning_rate", "must be a finite number, got nan"),
        (with_(train={"learning_rate": float("inf")}), "train.learning_rate", "must be a finite number, got inf"),
        (with_(train={"learning_rate": 1e300}), "train.learning_rate", "must be at most 1e+30"),
        (with_(train={"warmup": "3 bananas"}), "train.warmup", "must be a number of steps, or text such as"),
        (with_(train={"log_every": 1.5}), "train.log_every", "must be a number of steps, or text such as"),
        (with_(train={"warmup": "150 %"}), "train.warmup", "must be at most 100 %, got '150 %'"),
        (with_(train={"eval_every": "1e300 h"}), "train.eval_every", "must be at most"),
        (with_(train={"log_every": 10**30}), "train.log_every", "must be at most 1e+10 steps"),
        (with_(train={"steps": 10**20}), "train.steps", "must be at most 10,000,000,000, got"),
        (with_(train={"seed": 2**63}), "train.seed", "must be less than 9,223,372,036,854,775,808"),
        (with_(model={"architecture": "TFFooForMaskedLM"}), "model.architecture", "the Transformers that is installed"),
        (with_(model={"architecture": "TFBertForMaskedLm"}), "model.architecture", "did you mean TFBertForMaskedLM?"),
        (with_(model={"architecture": "TFAutoModelForMaskedLM"}), "model.architecture", "must be one of"),
        (with_(model={"architecture": "TFFunnelForMaskedLM"}), "model.architecture", "must be one of"),
        (with_(train={"warmup": 11}), "train.warmup", "at most the whole run"),
        (with_(model={"objective": "next"}), "model.objective", "must be 'masked' or 'causal'"),
        (with_(model={"objective": "causal"}), "model.objective", "roberta is trained with the masked objective"),
        (with_(model={"architecture": "robreta"}), "model.architecture", "did you mean roberta?"),
        (with_(model={"heads": 5}), "model.heads", "must divide model.width (768), got 5"),
        (with_(model={"max_positions": 64}), "shards.sequence_length", "must be at most model.max_positions (64)"),
        (with_(train={"epochs": 1.0}), "train", "exactly one of steps, epochs and duration, got steps and epochs"),
        (with_(train={"replica_batch_size": 8}), "train", "exactly one of global_batch_size and replica_batch_size"),
        (with_(train={"accumulation_steps": 3}), "train.global_batch_size", "multiple of replicas x accumulation"),
        (with_(device={"replicas": 3}), "train.global_batch_size", "(3 x 1), got 8"),
        (with_(device={"accelerator": "v5e-16"}), "train.global_batch_size", "(16 x 1), got 8"),
        (with_(device={"accelerator": "v9-8"}), "device.accelerator", "a TPU chip is one of"),
        (with_(device={"accelerator": "7x-8"}), "device.accelerator", "must be a TPU that TensorFlow runs on"),
        (with_(device={"kind": "cpu", "zone": "here"}), "device.zone", "is for a TPU"),
        (with_(device={"kind": "gpu", "replicas": 2}), "device.replicas", "is for a CPU"),
        (with_(tokenizer={"kind": "byte_bpe", "vocab_size": 200}), "tokenizer.vocab_size", "must be at least 261"),
        (with_(samples={"texts": ["no mask"]}), "samples.texts.0", "needs a <mask>"),
        (with_(samples={"texts": [3]}), "samples.texts.0", "must be text"),
        (with_(corpus={"source": ""}), "corpus.source", "must not be empty"),
        (with_(corpus={"source": "b\udcffd"}), "corpus.source", "must be Unicode text"),
        (with_(corpus={"column": "b\udcffd"}), "corpus.column", "must be Unicode text"),
        (with_(samples={"texts": ["<mask> \udcff"]}), "samples.texts", "must be Unicode text"),
        (VALID | {"name": "../x"}, "name", "must be letters, digits, dot, dash"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_told_with_its_path(data: dict[str, Any], path: str, words: str) -> None:
    found = faults(data)
    assert list(found) == [path]
    assert words in found[path]


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        ("5 steps", "there is train.steps"),
        ("5", "must be a time with its unit"),
        (5, "must be a time with its unit"),
        ("0 s", "must be a time with its unit"),
        ("soon", "must be a time with its unit, such as 10 min, got 'soon'"),
        ("5 %", "must be a time with its unit"),
        ("1e12 h", "must be at most"),
    ],
)
def test_a_duration_is_a_time(duration: str | int, words: str) -> None:
    assert words in faults({"train": {"duration": duration, "global_batch_size": 8}})["train.duration"]


def test_all_faults_are_told_at_once_also_those_that_span_fields() -> None:
    data = {
        "model": {"heads": 5, "layers": "many", "widht": 1},
        "shards": {"sequence_length": 64},
        "train": {"warmup": "soon", "steps": 3, "epochs": 1.0},
    }
    assert set(faults(data)) == {"model.widht", "model.layers", "model.heads", "train.warmup", "train"}


def test_a_rule_across_fields_is_silent_where_one_of_its_fields_is_the_fault() -> None:
    data = with_(model={"heads": "five", "width": 7})
    assert set(faults(data)) == {"model.heads", "model.width"}
    assert "must divide" not in faults(data)["model.heads"]


def test_the_error_carries_every_fault_and_the_source() -> None:
    with pytest.raises(PresetError) as caught:
        experiment_from({"train": {"step": 3}}, source="mine")
    assert {fault.path for fault in caught.value.faults} == {"train.step", "train"}
    assert caught.value.show().startswith("mine: ")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (f"{name}.{key}", field)
        for name, section in Experiment.model_fields.items()
        for key, field in getattr(section.annotation, "model_fields", {}).items()
        if field.annotation in (int, float, int | None, float | None)
    ],
)
def test_every_number_has_an_upper_bound_that_fits_into_64_bits(path: str, field: FieldInfo) -> None:
    bounds = [getattr(rule, "le", getattr(rule, "lt", None)) for rule in field.metadata]
    limit = max(bound for bound in bounds if bound is not None)
    assert limit <= (2**63 if "int" in str(field.annotation) else 1e30), path


def test_every_class_that_may_be_named_is_one_of_the_installed_transformers() -> None:
    ask = "import json, transformers as t; print(json.dumps([n for n in dir(t) if n.endswith('ForMaskedLM')]))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ask], capture_output=True, text=True, check=True)
    exported = {name for name in json.loads(done.stdout) if name.startswith("TF")}
    unfit = {"TFAutoModelForMaskedLM", "TFEsmForMaskedLM", "TFFunnelForMaskedLM"}
    assert masked_classes() == exported - unfit and unfit <= exported


def test_the_text_none_sets_back_what_may_be_none_and_nothing_else() -> None:
    assert experiment_from(with_(train={"clip_norm": "none"})).train.clip_norm is None
    assert "must be a number" in faults(with_(train={"learning_rate": "none"}))["train.learning_rate"]
    assert experiment_from(with_(corpus={"split": "none"})).corpus.split == "none"


def test_what_may_be_none_is_none_by_default_so_that_leaving_it_out_of_toml_keeps_it() -> None:
    for section in Experiment.model_fields.values():
        for name, field in getattr(section.annotation, "model_fields", {}).items():
            if "None" in str(field.annotation):
                assert field.default is None, name


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_knows_its_objective_and_keeps_its_padding_where_its_positions_expect_it(name: str) -> None:
    experiment = experiment_from(with_(model={"architecture": name}))
    assert experiment.objective == ("causal" if name == "gpt2" else "masked")
    padding = next(
        index for index, token in enumerate(experiment.family.specials) if token.lower().strip("<[]>") == "pad"
    )
    if experiment.family.position_offset:
        assert experiment.family.position_offset == padding + 1


def test_at_least_one_position_is_predicted() -> None:
    experiment = experiment_from(with_(shards={"sequence_length": 8}, train={"mask_probability": 0.01}))
    assert experiment.masked_per_sequence == 1


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
                    max_leaves=8),
       st.sampled_from([path for path, _ in flatten(Experiment.model_construct().model_dump())]))  # fmt: skip
def test_no_value_at_any_key_escapes_as_anything_but_a_fault(value: Any, path: str) -> None:
    data: dict[str, Any] = {"train": {"steps": 1, "global_batch_size": 1}}
    *parents, last = path.split(".")
    for parent in parents:
        data.setdefault(parent, {})
    (data[parents[0]] if parents else data)[last] = value
    experiment, found = check(data)
    assert (experiment is None) == bool(found)


def test_the_json_schema_lets_editors_complete_partial_files() -> None:
    schema = json_schema()
    assert "extends" in schema["properties"]
    sections = [schema, *schema["$defs"].values()]
    assert all("required" not in section and section["additionalProperties"] is False for section in sections)
    steps = schema["$defs"]["Train"]["properties"]["steps"]
    assert {"const": "none"} in steps["anyOf"]
    assert "null" not in str(schema)
    assert steps["description"] == "Optimizer steps in all."
