"""The client of Google Cloud Storage: one for a process, with the user's project, deadline and payer.

``STORAGE_EMULATOR_HOST`` points to another server.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from tpudeck.errors import InputError
from tpudeck.storage.settings import settings

if TYPE_CHECKING:
    from google.cloud import storage as gcs

__all__ = ["REQUEST_TIMEOUT_S", "bucket_named", "client", "object_at", "retry", "split"]

REQUEST_TIMEOUT_S = (10.0, 60.0)
"""To connect, and between two signs of life of an answer."""


def split(location: str) -> tuple[str, str]:
    """``gs://bucket/name`` → bucket and name."""
    bucket, _, name = location.removeprefix("gs://").partition("/")
    if not bucket or not location.startswith("gs://"):
        raise InputError(f"a bucket location is gs://BUCKET/NAME, got {location!r}")
    return bucket, name


def client() -> gcs.Client:
    """The client for this process, server and project."""
    return _client_for(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST", ""), settings().project)


@functools.lru_cache(maxsize=4)
def _client_for(pid: int, endpoint: str, project: str) -> gcs.Client:
    """It holds the connections and the credentials."""
    from google.cloud import storage as gcs

    return gcs.Client(project=project) if project else gcs.Client()


def bucket_named(bucket: str) -> gcs.Bucket:
    """A bucket, with whoever pays for the requests to it."""
    return client().bucket(bucket, user_project=settings().billing_project or None)


def object_at(location: str, generation: int | None = None) -> gcs.Blob:
    """An object, or one generation of it; nothing is asked of the server."""
    bucket, name = split(location)
    if not name:
        raise InputError(f"an object has a name after its bucket, got {location!r}")
    return bucket_named(bucket).blob(name, generation=generation)


def retry() -> Any:
    """Of every operation: each is safe to repeat, by its precondition or because it only reads."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_delay(initial=0.25, maximum=30.0, multiplier=2.0).with_timeout(settings().deadline_s)
