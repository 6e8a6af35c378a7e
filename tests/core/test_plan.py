"""Steps, sizes and times that follow from an experiment."""

from __future__ import annotations

from typing import Any

import pytest

from tpudeck import plan
from tpudeck.chips import CHIPS
from tpudeck.errors import CorpusError, InputError, PresetError
from tpudeck.presets import Experiment, experiment_from


def experiment(**sections: dict[str, Any]) -> Experiment:
    return experiment_from({"train": {"steps": 100, "global_batch_size": 16}} | sections)


def test_the_global_batch_is_given_or_follows_from_the_replicas_and_microsteps() -> None:
    assert plan.global_batch_size(experiment(), replicas=8) == 16
    per_replica = experiment(train={"steps": 1, "replica_batch_size": 4, "accumulation_steps": 3})
    assert plan.global_batch_size(per_replica, replicas=8) == 96


def test_a_global_batch_that_does_not_divide_names_the_nearest_that_do() -> None:
    with pytest.raises(PresetError, match=r"replicas x accumulation_steps \(6 x 1\), got 16 \(12 or 18\)"):
        plan.global_batch_size(experiment(), replicas=6)


def test_epochs_become_steps_of_whole_batches_that_may_straddle_them() -> None:
    lengths = plan.schedule(
        experiment(train={"epochs": 3.0, "global_batch_size": 16, "warmup": "10 %", "eval_every": "1 epoch"}),
        sequences=1000,
        replicas=1,
    )
    assert lengths.steps_per_epoch == 62.5
    assert (lengths.total_steps, lengths.warmup_steps, lengths.eval_every_steps) == (188, 19, 63)


def test_a_duration_becomes_steps_once_the_speed_is_known() -> None:
    timed = experiment(train={"duration": "1 min", "global_batch_size": 16})
    assert plan.needs_step_time(timed)
    assert plan.schedule(timed, sequences=1000, replicas=1, step_s=0.25).total_steps == 240
    with pytest.raises(ValueError, match="duration of a step"):
        plan.schedule(timed, sequences=1000, replicas=1)


def test_checkpoints_given_in_time_go_by_the_clock_and_need_no_speed() -> None:
    timed = experiment(train={"steps": 100, "global_batch_size": 16, "checkpoint_every": "10 min"})
    lengths = plan.schedule(timed, sequences=1000, replicas=1)
    assert not plan.needs_step_time(timed)
    assert (lengths.checkpoint_every_steps, lengths.checkpoint_every_s) == (None, 600)


def test_zero_means_only_at_the_end() -> None:
    never = experiment(train={"steps": 100, "global_batch_size": 16, "eval_every": 0})
    assert plan.schedule(never, sequences=99, replicas=1).eval_every_steps == 0


def test_warm_up_is_never_longer_than_the_run() -> None:
    long = experiment(train={"steps": 5, "global_batch_size": 16, "warmup": "1 epoch"})
    assert plan.schedule(long, sequences=1600, replicas=1).warmup_steps == 5


@pytest.mark.parametrize(("training", "validation", "needed"), [(15, 5, "16 sequences, got 15"), (16, 0, "got none")])
def test_a_corpus_too_small_is_refused_with_how_many_are_needed(training: int, validation: int, needed: str) -> None:
    with pytest.raises(CorpusError, match=needed):
        plan.check_sequences(training=training, validation=validation, global_batch=16)


def test_a_vocabulary_is_padded_to_the_width_of_the_matrix_unit() -> None:
    assert [plan.padded_vocab_size(size) for size in (1, 128, 129, 50_265)] == [128, 128, 256, 50_304]


def test_roberta_base_has_the_parameters_and_the_arithmetic_it_is_known_for() -> None:
    """Published: 125M parameters. The TPU compiler counted 10.0 TFLOP for 32 sequences of 512."""
    base = experiment(shards={"sequence_length": 512}, tokenizer={"kind": "byte_bpe", "vocab_size": 50_265})
    assert plan.parameter_count(base, vocab_size=50_265) == pytest.approx(124.7e6, rel=0.002)
    assert plan.flops_per_token(base, vocab_size=50_265) * 32 * 512 == pytest.approx(10.0e12, rel=0.03)


def test_a_class_without_our_head_projects_every_position() -> None:
    ours, full = (experiment(model={"architecture": name}) for name in ("roberta", "TFCamembertForMaskedLM"))
    extra = plan.flops_per_token(full, vocab_size=10_048) - plan.flops_per_token(ours, vocab_size=10_048)
    share = 1 - ours.masked_per_sequence / ours.shards.sequence_length
    assert extra == pytest.approx(3 * share * 2 * (768**2 + 768 * plan.padded_vocab_size(10_048)))


def test_halving_the_precision_or_the_batch_halves_the_activations_of_the_layers_and_leaves_the_state() -> None:
    full = plan.memory_per_replica(experiment(), vocab_size=128, replica_batch=8)
    half = plan.memory_per_replica(experiment(), vocab_size=128, replica_batch=4)
    assert full.activations_bytes == 2 * half.activations_bytes
    assert full.state_bytes == half.state_bytes == 16 * plan.parameter_count(experiment(), vocab_size=128)


def test_the_chain_is_complete_where_everything_is_known() -> None:
    chain = plan.derive(
        experiment(train={"epochs": 2.0, "global_batch_size": 16}),
        sequences_train=1600,
        vocab_size=1000,
        tokens_per_s=4096,
    )
    assert chain.value("corpus_tokens") == 1600 * 128
    assert chain.value("total_steps") == 200
    assert chain.value("tokens_seen") == 200 * 16 * 128
    assert chain.value("time_s") == pytest.approx(200 * 16 * 128 / 4096)
    assert all(quantity.value is not None for quantity in chain.quantities)
    assert chain.lines()[0].startswith(" 1. training sequences: 1,600 sequences")


@pytest.mark.parametrize("train", [{"epochs": 2.0}, {"duration": "5 min"}])
def test_what_cannot_be_known_yet_says_so_and_so_does_what_follows(train: dict[str, Any]) -> None:
    chain = plan.derive(experiment(train={"global_batch_size": 16} | train))
    for name in ("sequences", "steps_per_epoch", "total_steps", "warmup_steps", "tokens_seen", "time_s"):
        assert chain.value(name) is None
    assert chain.value("parameters") is not None
    assert "not known yet" in chain.lines()[0]


def test_a_warm_up_in_epochs_waits_for_the_sequences_and_nothing_else_does() -> None:
    chain = plan.derive(experiment(train={"steps": 100, "global_batch_size": 16, "warmup": "1 epoch"}))
    assert (chain.value("total_steps"), chain.value("warmup_steps")) == (100, None)


def test_a_planned_accelerator_gives_the_replicas_and_an_assumed_speed() -> None:
    chain = plan.derive(experiment(device={"accelerator": "v5e-8"}), utilisation=0.5)
    flops = chain.value("flops_per_token")
    assert flops is not None
    assert chain.value("tokens_per_s") == pytest.approx(0.5 * 8 * CHIPS["v5e"].peak_bf16_flops / flops)
    assert any("50% of the peak of 8 v5e devices, assumed" in line for line in chain.lines())


def test_the_token_dial_gives_the_layers_twenty_tokens_a_parameter() -> None:
    base = experiment(model={"width": 128, "heads": 2, "layers": 1})
    for tokens in (1e7, 1e8, 1e9):
        changes = plan.dial_tokens(base, tokens, replicas=8)
        model, train = changes["model"], changes["train"]
        assert model["width"] == 64 * model["layers"] == 64 * model["heads"]
        fitting, larger = (12 * n * (64 * n) ** 2 for n in (model["layers"], model["layers"] + 1))
        assert 20 * fitting <= tokens < 20 * larger * 1.02
        assert train["steps"] * train["global_batch_size"] * 128 == pytest.approx(tokens, rel=0.05)
        assert train["global_batch_size"] % 64 == 0


def test_the_compute_dial_spends_what_it_is_given() -> None:
    base = experiment()
    changes = plan.dial_compute(base, 1e17, replicas=1)
    made = experiment_from({"model": changes["model"], "train": changes["train"]})
    flops = plan.flops_per_token(made, vocab_size=base.tokenizer.vocab_size) * changes["train"]["steps"]
    assert flops * made.train.global_batch_size * 128 == pytest.approx(1e17, rel=0.05)


def test_a_batch_that_does_not_fit_the_planned_device_is_cut_into_microsteps() -> None:
    base = experiment(device={"accelerator": "v2-8"}, shards={"sequence_length": 128})
    changes = plan.dial_tokens(base, 2e10, replicas=8)
    made = experiment_from({"device": {"accelerator": "v2-8"}} | changes)
    assert made.train.accumulation_steps > 1
    chain = plan.derive(made)
    assert (chain.value("memory_bytes") or 0) <= CHIPS["v2"].hbm_bytes_per_device


def test_a_dial_below_the_smallest_model_says_what_that_takes() -> None:
    with pytest.raises(InputError, match="takes 1M tokens, got 1,000"):
        plan.dial_tokens(experiment(), 1000, replicas=1)
