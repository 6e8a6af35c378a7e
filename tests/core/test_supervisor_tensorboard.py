"""TensorBoard itself reads what we write without TensorFlow, also after a resume."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes import runs
from fakes.stages import loss_after
from tpudeck import launch
from tpudeck.config import Home


@pytest.fixture(autouse=True)
def _nothing_outlives_a_test(home: Home) -> Iterator[None]:
    yield
    runs.end_everything(home)


@pytest.mark.training
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_shows_each_step_once_also_after_a_resume(home: Home) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = runs.make(home, steps=100, step_s=0.02)
    launch.write_options(folder, launch.Options(tensorboard=True))
    with runs.faked_supervisor():
        launch.start(folder)
    runs.kill(runs.at_step(folder, 35).summary.trainer_pid)
    runs.ended(folder)
    runs.behave(folder)
    runs.resume(folder)
    runs.ended(folder)
    board = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    points = board.Scalars("loss")
    assert [point.step for point in points] == list(range(1, 101))
    assert [point.value for point in points] == pytest.approx([loss_after(step) for step in range(1, 101)], rel=1e-6)
    assert {"eval_loss", "tokens_per_s"} <= set(board.Tags()["scalars"])
