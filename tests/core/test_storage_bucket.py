"""Objects in a bucket: a real server, behind a proxy that breaks things."""

from __future__ import annotations

import itertools
import os
import tracemalloc
from pathlib import Path

import pytest

from gcsfaults import Fault, ObjectStore, Plan, Request
from tpudeck import storage
from tpudeck.config import Home
from tpudeck.errors import InputError, RetryLaterError, WorkError
from tpudeck.storage import bucket
from tpudeck.storage.settings import settings

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

PASSING: list[Fault] = ["429", "503", "slow", "cut", "lost"]


def once(fault: Fault, *, after: int = 0, content: bool = True) -> Plan:
    """The fault for one request that carries content, after so many that go well."""
    count = itertools.count()

    def plan(request: Request) -> Fault | None:
        carries = request.sends_content or request.reads_content
        return fault if carries == content and next(count) == after else None

    return plan


def always(fault: Fault) -> Plan:
    return lambda request: fault


@pytest.fixture
def impatient(home: Home) -> None:
    home.settings_file.write_text('[storage]\ndeadline = "1 s"\n')


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that goes up in four parts."""
    monkeypatch.setattr(bucket, "_PART_BYTES", 1 << 18)
    path = tmp_path / "large.bin"
    path.write_bytes(os.urandom((3 << 18) + 17))
    return path


class TestReading:
    def test_an_object_reads_like_a_file(self, object_store: ObjectStore) -> None:
        data = bytes(range(256)) * 40
        bucket.write_bytes("gs://bucket/a", data)
        with storage.open_binary("gs://bucket/a") as file:
            assert file.read(10) == data[:10]
            file.seek(-10, os.SEEK_END)
            assert file.read() == data[-10:]
            file.seek(5)
            assert file.read() == data[5:]
        assert storage.size_bytes("gs://bucket/a") == len(data)

    def test_a_stream_is_read_in_ranges(self, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bucket, "_READ_BYTES", 1000)
        data = os.urandom(10_500)
        bucket.write_bytes("gs://bucket/a", data)
        object_store.reset()
        with storage.open_binary("gs://bucket/a") as file:
            first = file.read(1)
            asked = object_store.count(lambda request: request.reads_content)
            rest = file.read()
        assert first + rest == data
        assert asked == 1

    @pytest.mark.parametrize("fault", PASSING)
    def test_a_fault_that_passes_is_not_noticed(self, object_store: ObjectStore, fault: Fault) -> None:
        data = os.urandom(100_000)
        bucket.write_bytes("gs://bucket/a", data)
        object_store.reset(once(fault))
        with storage.open_binary("gs://bucket/a") as file:
            assert file.read() == data
        assert [kind for _, kind in object_store.injected] == [fault]

    def test_a_flipped_byte_is_noticed_at_the_end_of_a_stream(self, object_store: ObjectStore) -> None:
        bucket.write_bytes("gs://bucket/a", b"content" * 100)
        object_store.reset(once("flip"))
        with storage.open_binary("gs://bucket/a") as file, pytest.raises(WorkError, match="damaged"):
            file.read()

    def test_a_missing_object_is_a_missing_file(self, object_store: ObjectStore) -> None:
        assert not storage.exists("gs://bucket/nothing")
        with pytest.raises(FileNotFoundError, match="gs://bucket/nothing"):
            storage.open_binary("gs://bucket/nothing")

    def test_the_version_changes_with_the_content(self, object_store: ObjectStore) -> None:
        before = bucket.write_bytes("gs://bucket/a", b"one")
        bucket.write_bytes("gs://bucket/a", b"two", replaces=before.generation)
        assert storage.stat("gs://bucket/a").version != before.generation


class TestListing:
    @pytest.fixture(autouse=True)
    def objects(self, object_store: ObjectStore) -> None:
        for name in ("a/one.txt", "a/sub/two.txt", "a/.hidden", "a/.parts/x", "ab.txt"):
            bucket.write_bytes(f"gs://bucket/{name}", b"x")

    @pytest.mark.parametrize(
        ("location", "names"),
        [
            ("gs://bucket", ["a/one.txt", "a/sub/two.txt", "ab.txt"]),
            ("gs://bucket/a", ["a/one.txt", "a/sub/two.txt"]),
            ("gs://bucket/a/", ["a/one.txt", "a/sub/two.txt"]),
            ("gs://bucket/ab.txt", ["ab.txt"]),
            ("gs://bucket/a/*.txt", ["a/one.txt"]),
            ("gs://bucket/a/**/*.txt", ["a/one.txt", "a/sub/two.txt"]),
            ("gs://bucket/a/on[a-e].txt", ["a/one.txt"]),
            ("gs://bucket/a/on[!a-e].txt", []),
            ("gs://bucket/a/?ne.txt", ["a/one.txt"]),
            ("gs://bucket/nothing", []),
        ],
    )
    def test_a_location_names_what_a_local_path_would(self, location: str, names: list[str]) -> None:
        assert list(storage.list_files(location)) == [f"gs://bucket/{name}" for name in names]

    def test_sizes_and_versions_come_with_the_listing(self, object_store: ObjectStore) -> None:
        object_store.reset()
        stats = list(storage.list_stats("gs://bucket/a/"))
        assert stats[0] == storage.stat("gs://bucket/a/one.txt")
        assert len(stats) == 2

    def test_ten_thousand_objects_are_listed_page_by_page(self, object_store: ObjectStore) -> None:
        object_store.copy_object("bucket", "a/sub/two.txt", [f"{index:05d}" for index in range(9_999)])
        object_store.reset()
        found = storage.list_files("gs://bucket/a/sub/")
        first = next(found)
        pages_for_the_first = object_store.count(lambda request: request.path.endswith("/o"))
        assert first == "gs://bucket/a/sub/00000"
        assert pages_for_the_first == 1
        assert 1 + sum(1 for _ in found) == 10_000
        assert object_store.count(lambda request: request.path.endswith("/o")) == 10

    def test_a_long_listing_takes_the_memory_of_a_page(self, object_store: ObjectStore) -> None:
        object_store.copy_object("bucket", "a/sub/two.txt", [f"{index:05d}" for index in range(9_999)])
        found = storage.list_files("gs://bucket/a/sub/")
        tracemalloc.start()
        try:
            peaks = []
            for objects in (2_000, 8_000):
                tracemalloc.reset_peak()
                assert sum(1 for _ in itertools.islice(found, objects)) == objects
                peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert peaks[1] < 1.5 * peaks[0]


class TestUploading:
    def test_an_object_is_never_overwritten_by_accident(self, object_store: ObjectStore) -> None:
        bucket.write_bytes("gs://bucket/a", b"theirs")
        with pytest.raises(RetryLaterError, match="written by somebody else"):
            bucket.write_bytes("gs://bucket/a", b"ours")
        assert bucket.read_bytes("gs://bucket/a") == b"theirs"

    def test_the_generation_that_was_seen_is_replaced_and_no_other(self, object_store: ObjectStore) -> None:
        seen = bucket.write_bytes("gs://bucket/a", b"one")
        bucket.write_bytes("gs://bucket/a", b"two", replaces=seen.generation)
        with pytest.raises(RetryLaterError):
            bucket.write_bytes("gs://bucket/a", b"three", replaces=seen.generation)
        assert bucket.read_bytes("gs://bucket/a") == b"two"

    @pytest.mark.parametrize("fault", PASSING)
    @pytest.mark.parametrize("size", [1_000, 9 << 20], ids=["one request", "resumable"])
    @pytest.mark.parametrize("after", [0, 1])
    def test_a_fault_that_passes_is_not_noticed(
        self, object_store: ObjectStore, tmp_path: Path, fault: Fault, size: int, after: int
    ) -> None:
        path = tmp_path / "file"
        path.write_bytes(os.urandom(size))
        object_store.reset(once(fault, after=after))
        stored = bucket.upload(path, "gs://bucket/a")
        assert (stored.size_bytes, stored.crc32c) == (size, bucket.checksum(path))
        assert bucket.read_bytes("gs://bucket/a") == path.read_bytes()

    def test_a_lost_answer_is_told_apart_from_somebody_else(self, object_store: ObjectStore) -> None:
        object_store.reset(once("lost"))
        bucket.write_bytes("gs://bucket/a", b"ours")
        assert object_store.count(lambda request: request.sends_content) == 2
        assert bucket.read_bytes("gs://bucket/a") == b"ours"

    def test_a_large_file_is_composed_of_parts_and_none_stays(self, object_store: ObjectStore, large: Path) -> None:
        stored = bucket.upload(large, "gs://bucket/large")
        assert stored.crc32c == bucket.checksum(large)
        assert [found.location for found in bucket.scan("gs://bucket/")] == ["gs://bucket/large"]
        assert bucket.read_bytes("gs://bucket/large") == large.read_bytes()

    def test_an_interrupted_upload_sends_only_the_parts_that_are_missing(
        self, object_store: ObjectStore, large: Path
    ) -> None:
        object_store.reset(once("403", after=2))
        with pytest.raises(InputError):
            bucket.upload(large, "gs://bucket/large")
        object_store.reset()
        bucket.upload(large, "gs://bucket/large")
        assert object_store.count(lambda request: request.sends_content) == 2
        assert bucket.read_bytes("gs://bucket/large") == large.read_bytes()

    def test_parts_of_another_file_are_not_taken(self, object_store: ObjectStore, large: Path) -> None:
        object_store.reset(once("403", after=2))
        with pytest.raises(InputError):
            bucket.upload(large, "gs://bucket/large")
        object_store.reset()
        large.write_bytes(large.read_bytes()[::-1])
        bucket.upload(large, "gs://bucket/large")
        assert bucket.read_bytes("gs://bucket/large") == large.read_bytes()


class TestDownloading:
    @pytest.mark.parametrize("fault", [*PASSING, "flip"])
    def test_a_fault_that_passes_leaves_a_whole_file(
        self, object_store: ObjectStore, tmp_path: Path, fault: Fault
    ) -> None:
        data = os.urandom(3 << 20)
        stored = bucket.write_bytes("gs://bucket/a", data)
        object_store.reset(once(fault))
        bucket.download(stored, tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == data
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
        assert len(object_store.injected) == 1

    @pytest.mark.usefixtures("impatient")
    def test_an_interrupted_download_goes_on_where_it_ended(self, object_store: ObjectStore, tmp_path: Path) -> None:
        data = os.urandom(4 << 20)
        stored = bucket.write_bytes("gs://bucket/a", data)
        outage = itertools.count()
        object_store.reset(lambda request: "cut" if next(outage) == 0 else "503")
        with pytest.raises(RetryLaterError):
            bucket.download(stored, tmp_path / "a")
        (part,) = tmp_path.iterdir()
        assert 0 < part.stat().st_size < len(data)
        object_store.reset(once("flip"))  # the second half only: the check covers what came before and after
        bucket.download(stored, tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == data

    def test_content_that_stays_damaged_is_an_error_and_no_file(
        self, object_store: ObjectStore, tmp_path: Path
    ) -> None:
        stored = bucket.write_bytes("gs://bucket/a", b"content" * 100)
        object_store.reset(always("flip"))
        with pytest.raises(WorkError, match="damaged 3 times"):
            bucket.download(stored, tmp_path / "a")
        assert not list(tmp_path.iterdir())


class TestErrors:
    def test_a_refusal_names_the_account_the_permission_and_the_command(self, object_store: ObjectStore) -> None:
        object_store.reset(always("403"))
        with pytest.raises(InputError, match=r"trainer@example\.iam .* lacks storage\.objects\.create") as caught:
            bucket.write_bytes("gs://bucket/a", b"x")
        assert "gs://bucket --member=serviceAccount:trainer@example.iam" in caught.value.hint

    def test_a_bucket_that_is_not_there_is_named(self, object_store: ObjectStore) -> None:
        with pytest.raises(InputError, match="there is no bucket elsewhere"):
            bucket.write_bytes("gs://elsewhere/a", b"x")
        with pytest.raises(InputError, match="there is no bucket elsewhere"):
            list(bucket.scan("gs://elsewhere/"))

    def test_a_bucket_whose_reader_pays_asks_for_a_project(self, object_store: ObjectStore, home: Home) -> None:
        object_store.reset(lambda request: None if "userProject=ours" in request.query else "payer")
        with pytest.raises(InputError, match="reader pays") as caught:
            bucket.write_bytes("gs://bucket/a", b"x")
        assert "billing_project" in caught.value.hint
        home.settings_file.write_text('[storage]\nbilling_project = "ours"\n')
        bucket.write_bytes("gs://bucket/a", b"x")
        assert bucket.read_bytes("gs://bucket/a") == b"x"
        assert [found.location for found in bucket.scan("gs://bucket/")] == ["gs://bucket/a"]

    @pytest.mark.usefixtures("impatient")
    @pytest.mark.parametrize("fault", ["503", "429", "cut", "lost"])
    def test_an_outage_ends_at_the_deadline_and_the_same_command_may_work_later(
        self, object_store: ObjectStore, fault: Fault
    ) -> None:
        object_store.reset(always(fault))
        with pytest.raises(RetryLaterError, match="gs://bucket/a could not be reached within 1s") as caught:
            bucket.write_bytes("gs://bucket/a", b"x")
        assert object_store.url not in caught.value.show()

    def test_without_credentials_the_hint_says_how_to_log_in(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        with pytest.raises(InputError, match="no usable credentials") as caught:
            storage.open_binary("gs://bucket/a")
        assert "gcloud auth application-default login" in caught.value.hint

    def test_a_setting_that_is_not_known_is_named(self, home: Home) -> None:
        home.settings_file.write_text('[storage]\nbiling_project = "ours"\n')
        with pytest.raises(InputError, match="biling_project"):
            settings(home)


@pytest.mark.parametrize("text", ["data/gs/corpus.txt", "gs", "./gs:/bucket/a", "/tmp/gs:/x", "GS://bucket/a"])
def test_gs_inside_a_local_path_is_not_a_bucket(text: str) -> None:
    assert not storage.is_bucket(text)
