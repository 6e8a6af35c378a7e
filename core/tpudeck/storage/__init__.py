"""Files, local or in a bucket, behind a few functions.

A location is a string: ``gs://bucket/name`` or a local path. ``gs`` anywhere else in a path means nothing. The cloud
client is imported when the first bucket is touched, never before.

=============  =====================================================================================
``local``      whole or not at all: atomic writes, JSON, hashes
``locations``  read and list, wherever it is
``bucket``     objects: verified uploads and downloads, preconditions
``sets``       folders to and from a bucket as a whole; a half-uploaded one is never taken for whole
``cache``      copies of objects on this machine, under a limit
=============  =====================================================================================

Below ``bucket``: ``settings``, ``client``, ``refusals`` (errors in plain words), ``stored`` (checksums), ``streams``.
"""

from __future__ import annotations

from tpudeck.storage.local import hash_file, read_json, write_atomic, write_json
from tpudeck.storage.locations import (
    FileStat,
    exists,
    is_bucket,
    list_files,
    list_stats,
    local_folder,
    open_binary,
    size_bytes,
    stat,
)

__all__ = [
    "FileStat",
    "exists",
    "hash_file",
    "is_bucket",
    "list_files",
    "list_stats",
    "local_folder",
    "open_binary",
    "read_json",
    "size_bytes",
    "stat",
    "write_atomic",
    "write_json",
]
