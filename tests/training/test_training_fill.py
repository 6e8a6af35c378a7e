"""Filling masks and going on with texts."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tinyruns import TinyRuns, tiny_experiment
from tpudeck.errors import InputError
from tpudeck.tokenizer import LoadedTokenizer, load
from tpudeck.training.configuration import vocabulary_of
from tpudeck.training.fill import fill_masks, generate
from tpudeck.training.model import LanguageModel, build_model

pytestmark = pytest.mark.training


def loaded(tiny_runs: TinyRuns, architecture: str) -> tuple[LanguageModel, LoadedTokenizer]:
    experiment = tiny_experiment(model={"architecture": architecture})
    tokenizer = load(tiny_runs.tokenizer(experiment.family.specials))
    return build_model(experiment, vocabulary_of(tokenizer)), tokenizer


@pytest.mark.parametrize(("architecture", "mask"), [("roberta", "<mask>"), ("roberta", "[MASK]"), ("bert", "<mask>")])
def test_every_mask_gets_the_likeliest_tokens_whatever_it_is_called(
    tiny_runs: TinyRuns, architecture: str, mask: str
) -> None:
    model, tokenizer = loaded(tiny_runs, architecture)
    filled = fill_masks(model, tokenizer, f"the {mask} of {mask}", most=3)
    assert [len(answers) for answers in filled["answers"]] == [3, 3]
    for answers in filled["answers"]:
        shares = [answer["probability"] for answer in answers]
        assert shares == sorted(shares, reverse=True) and 0 < sum(shares) < 1
    assert mask not in filled["filled"]


def test_an_answer_is_what_the_bias_of_the_head_makes_likely(tiny_runs: TinyRuns) -> None:
    model, tokenizer = loaded(tiny_runs, "roberta")
    wanted = tokenizer.rust.token_to_id("of")
    bias = model.weights["lm_head.bias"]
    bias.assign(bias + 50.0 * tf.one_hot(wanted, bias.shape[0]))
    filled = fill_masks(model, tokenizer, "a list <mask> strings", most=1)
    assert filled["answers"] == [[{"token": "of", "probability": pytest.approx(1)}]]
    assert " of " in filled["filled"]


def test_a_text_without_a_mask_is_refused(tiny_runs: TinyRuns) -> None:
    with pytest.raises(InputError, match="has a <mask> in it, got 'nothing'"):
        fill_masks(*loaded(tiny_runs, "roberta"), "nothing", most=1)


def test_a_text_longer_than_the_positions_is_refused(tiny_runs: TinyRuns) -> None:
    with pytest.raises(InputError, match="reads at most 16 tokens, got 2"):
        fill_masks(*loaded(tiny_runs, "roberta"), "<mask> " + "of the " * 10, most=1)


def test_a_causal_model_has_no_masks_to_fill(tiny_runs: TinyRuns) -> None:
    with pytest.raises(InputError, match="no mask token"):
        fill_masks(*loaded(tiny_runs, "gpt2"), "<mask>", most=1)


def test_the_same_seed_gives_the_same_text_and_another_seed_another(tiny_runs: TinyRuns) -> None:
    model, tokenizer = loaded(tiny_runs, "gpt2")
    texts = [generate(model, tokenizer, "the", tokens=8, seed=seed)["generated"] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("the")


def test_at_temperature_zero_each_token_is_the_likeliest(tiny_runs: TinyRuns) -> None:
    model, tokenizer = loaded(tiny_runs, "gpt2")
    one = generate(model, tokenizer, "the", tokens=1, temperature=0.0)["generated"]
    ids = tokenizer.rust.encode("the", add_special_tokens=False).ids
    logits = model.logits(tf.constant([ids]), tf.constant([[len(ids) - 1]])).numpy()[0, 0]
    likeliest = int(np.argmax(logits))
    if likeliest == tokenizer.eos_id:
        pytest.skip("the likeliest token ends the document")
    assert one == tokenizer.rust.decode([*ids, likeliest], skip_special_tokens=True).strip()


def test_a_text_ends_with_the_positions(tiny_runs: TinyRuns) -> None:
    model, tokenizer = loaded(tiny_runs, "gpt2")
    room = model.most_tokens - len(tokenizer.rust.encode("the", add_special_tokens=False).ids)
    texts = [generate(model, tokenizer, "the", tokens=tokens, seed=3)["generated"] for tokens in (room, 1000)]
    assert texts[0] == texts[1] != "the"


def test_a_model_is_traced_once_however_often_it_goes_on_with_texts_of_one_length(
    tiny_runs: TinyRuns,
) -> None:
    model, tokenizer = loaded(tiny_runs, "gpt2")
    traced, plain = [], model.unpadded_logits
    object.__setattr__(model, "unpadded_logits", lambda *inputs: (traced.append(1), plain(*inputs))[1])
    for seed in (1, 2, 3):
        generate(model, tokenizer, "the", tokens=4, seed=seed)
    assert len(traced) == 1
