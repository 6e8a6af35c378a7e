"""Any byte of a shard set may be damaged: the answer is a fault or an :class:`ArtefactError`, never anything else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardsets import build_set, some_documents, tokenizer
from tpudeck.errors import ArtefactError
from tpudeck.inspection.shards import inspect_shards
from tpudeck.shards import open_set
from tpudeck.shards.manifest import Manifest
from tpudeck.shards.verify import verify

FUZZ = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=["compact", "published"])
def whole(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    documents = some_documents(40)
    words = tokenizer(folder / "tokenizer")
    return build_set(folder / "set", words, train=documents, validation=documents, layout=request.param).folder


def damaged(whole: Path, tmp_path: Path, name: str, data: st.DataObject) -> Path:
    """A copy of the set in which some bytes of a file are changed, removed or added."""
    folder = tmp_path / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    content = bytearray((folder / name).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    removed = data.draw(st.integers(0, 3))
    content[at : at + removed] = data.draw(st.binary(max_size=3))
    (folder / name).write_bytes(content)
    return folder


@FUZZ
@given(data=st.data())
def test_a_damaged_shard_is_always_found(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    names = sorted(str(path.relative_to(whole)) for path in whole.rglob("*.tfrecord"))
    name = data.draw(st.sampled_from(names))
    folder = damaged(whole, tmp_path, name, data)
    if (folder / name).read_bytes() == (whole / name).read_bytes():
        return
    (fault,) = verify(folder).faults
    assert name in fault


@FUZZ
@given(name=st.sampled_from(["manifest.json", "token-counts.npy"]), data=st.data())
def test_a_damaged_description_is_an_artefact_error_or_harmless(
    whole: Path, tmp_path: Path, name: str, data: st.DataObject
) -> None:
    folder = damaged(whole, tmp_path, name, data)
    try:
        verify(folder)
        inspect_shards(open_set(folder))
    except ArtefactError:
        return


@pytest.mark.parametrize("name", ["../other.tfrecord", "/etc/passwd"])
def test_a_manifest_cannot_point_outside_its_folder(whole: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "set"
    shutil.copytree(whole, folder)
    text = (folder / "manifest.json").read_text()
    first = Manifest.load(folder).splits["train"].files[0].name  # type: ignore[union-attr]
    (folder / "manifest.json").write_text(text.replace(f'"{first}"', f'"{name}"'))
    with pytest.raises(ArtefactError, match="outside the set's folder"):
        open_set(folder)
