"""The model card of a run, and the recipe and the curve beside it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tpudeck import launch
from tpudeck.config import Home
from tpudeck.hub import write_card
from tpudeck.hub.curve import Curve, draw
from tpudeck.presets import load_experiment, resolve, save_experiment
from tpudeck.runs.events import AttemptStarted, Evaluated
from tpudeck.runs.writer import RunWriter
from tpudeck.storage import write_json

SVG = "{http://www.w3.org/2000/svg}"


def evaluated(step: int, loss: float) -> Evaluated:
    return Evaluated(
        step=step, eval_loss=loss, perplexity=float(np.exp(loss)), accuracy=0.125, baseline_loss=6.25, targets=4321
    )


@pytest.fixture
def run(home: Home, tmp_path: Path) -> Path:
    corpus = tmp_path / "private person" / "diary.txt"
    corpus.parent.mkdir()
    corpus.write_text("a line of text\n" * 100)
    experiment = resolve(
        "quickstart", home=home, overrides=[f"corpus.source={corpus}", "device.project=secret-project"]
    ).experiment
    folder = launch.create(experiment, home=home, name="card")
    writer = RunWriter(folder, attempt=1)
    for step in range(1, 1001):
        writer.metrics(step, loss=7 - step / 500 if step != 500 else float("nan"))
    writer.event(evaluated(500, 5.75))
    writer.event(evaluated(1000, 9.75))
    writer.attempt = 2
    writer.event(AttemptStarted(resume_from_step=500))
    writer.event(evaluated(1000, 5.25))
    writer.close()
    (folder / "results").mkdir(exist_ok=True)
    write_json(folder / "results" / "tokenizer.json", {"ok": True, "result": {"vocab_size": 2048, "hash": "cafe" * 16}})
    return folder


@pytest.fixture
def card(run: Path, tmp_path: Path) -> str:
    (tmp_path / "model").mkdir()
    write_card(run, tmp_path / "model", step=1000)
    return (tmp_path / "model" / "README.md").read_text()


def test_the_card_tells_data_recipe_and_results_of_the_step(card: str, run: Path) -> None:
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: fill-mask\n")
    for fact in ("5.2500", "12.50%", "6.2500", "4,321", "2,048 tokens", "cafe" * 16, run.name):
        assert fact in card
    assert "9.7500" not in card  # a resume replaced it


def test_nothing_private_is_published(card: str, tmp_path: Path) -> None:
    published = "".join(path.read_text() for path in (tmp_path / "model").iterdir())
    assert "diary.txt" in published
    for secret in ("private person", "secret-project", str(tmp_path)):
        assert secret not in published


@pytest.mark.parametrize(
    ("weights", "base", "told"),
    [
        ("hub:org/base", "base_model: org/base\n", "trained from the weights of `hub:org/base`"),
        ("/home/somebody/weights", "", "trained from the weights of `weights`"),
        ("", "", "trained from scratch"),
    ],
)
def test_the_card_says_what_the_model_started_from(
    run: Path, tmp_path: Path, weights: str, base: str, told: str
) -> None:
    experiment = load_experiment(run / "experiment.toml")
    changed = experiment.model_copy(update={"model": experiment.model.model_copy(update={"weights": weights})})
    save_experiment(changed, run / "experiment.toml")
    (tmp_path / "model").mkdir()
    write_card(run, tmp_path / "model", step=1000)
    card = (tmp_path / "model" / "README.md").read_text()
    assert told in card and base in card and ("base_model" in card) == bool(base)
    assert "somebody" not in "".join(path.read_text() for path in (tmp_path / "model").iterdir())


def test_the_recipe_beside_the_card_is_a_complete_experiment(card: str, tmp_path: Path, run: Path) -> None:
    recipe = load_experiment(tmp_path / "model" / "experiment.toml")
    assert recipe.train == load_experiment(run / "experiment.toml").train


def test_the_curve_is_an_image_of_both_losses(card: str, tmp_path: Path) -> None:
    image = ET.parse(tmp_path / "model" / "training-loss.svg").getroot()
    texts = [element.text for element in image.iter(f"{SVG}text")]
    assert {"training loss", "evaluation"} <= set(texts)
    assert "(training-loss.svg)" in card


def test_a_spike_survives_the_thinning_of_a_curve() -> None:
    values = np.ones(100_000)
    values[54_321] = 50.0
    image = draw([Curve("loss", np.arange(100_000), values, "#000")])
    points = ET.fromstring(image).find(f"{SVG}polyline").attrib["points"].split()  # type: ignore[union-attr]
    heights = [float(point.split(",")[1]) for point in points]
    assert len(points) <= 400
    assert heights.count(min(heights)) == 1


def test_a_curve_of_nothing_is_still_an_image() -> None:
    assert ET.fromstring(draw([])) is not None
    assert ET.fromstring(draw([Curve("loss", np.arange(3), np.full(3, np.nan), "#000")])) is not None
