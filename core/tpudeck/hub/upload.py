"""A folder to the Hub, as one commit.

Large files are sent first, each once: the Hub keeps what arrived, so a push that was interrupted sends only the rest.
The commit that names them comes last, and is all or nothing. What fails for a reason that passes is tried again until
the deadline; a request that hangs doesn't hold the caller beyond it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from tpudeck.errors import InputError, RetryLaterError, TpudeckError, WorkError
from tpudeck.hub.redact import redact
from tpudeck.units import format_duration

__all__ = ["Pushed", "push_folder"]

Kind = Literal["model", "dataset"]

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True)
class Pushed:
    """A commit on the Hub."""

    name: str
    url: str
    commit: str
    private: bool
    files: int
    size_bytes: int

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def push_folder(
    folder: Path,
    name: str,
    *,
    kind: Kind = "model",
    public: bool = False,
    revision: str = "",
    message: str = "Upload with tpudeck",
    deadline_s: float = 1800.0,
    narrate: Callable[[str], None] = lambda line: None,
) -> Pushed:
    """Commit the files of a folder to a repository, which is made where it is missing, private unless ``public``.

    Raises :class:`InputError` for a name, a token or a repository that cannot work (a public one without ``public`` is
    one), :class:`RetryLaterError` where the Hub cannot be reached before the deadline; the same call then goes on.
    """
    push = _Push(folder, name, kind, public, revision, message)
    end = time.monotonic() + deadline_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return push.attempt(end - time.monotonic())
        except RetryLaterError as error:
            if time.monotonic() + pause_s >= end:
                waited = format_duration(deadline_s)
                raise RetryLaterError(
                    f"{name} is not complete on the Hub after {waited}: {error.message}",
                    hint="the same command sends what is missing",
                ) from error
            narrate(f"{error.message}; again in {format_duration(pause_s)}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


@dataclass(frozen=True)
class _Push:
    folder: Path
    name: str
    kind: Kind
    public: bool
    revision: str
    message: str

    def attempt(self, left_s: float) -> Pushed:
        """One try, in a thread: a request that never ends is left behind."""
        outcome: list[Pushed | BaseException] = []

        def work() -> None:
            try:
                outcome.append(self._commit())
            except BaseException as error:  # noqa: BLE001 (handed to the caller's thread)
                outcome.append(error)

        thread = threading.Thread(target=work, daemon=True, name="hub push")
        thread.start()
        thread.join(max(0.0, left_s))
        if not outcome:
            raise RetryLaterError("the Hub does not answer")
        if isinstance(outcome[0], BaseException):
            raise _explained(outcome[0], self.name) from None
        return outcome[0]

    def _commit(self) -> Pushed:
        from huggingface_hub import CommitOperationAdd, HfApi
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
        files = sorted(path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        if not files:
            raise InputError(f"{self.folder} holds no files to push")
        api = HfApi()
        api.create_repo(self.name, repo_type=self.kind, private=not self.public, exist_ok=True)
        private = bool(api.repo_info(self.name, repo_type=self.kind).private)
        if not private and not self.public:
            raise InputError(f"{self.name} is public on the Hub", hint="say --public, or push to another name")
        if self.revision:
            api.create_branch(self.name, branch=self.revision, repo_type=self.kind, exist_ok=True)
        additions = [CommitOperationAdd(path.relative_to(self.folder).as_posix(), path) for path in files]
        commit = api.create_commit(
            self.name, additions, commit_message=self.message, repo_type=self.kind, revision=self.revision or None
        )
        size_bytes = sum(path.stat().st_size for path in files)
        return Pushed(self.name, str(commit.repo_url), str(commit.oid), private, len(files), size_bytes)


def _explained(error: BaseException, name: str) -> BaseException:
    """What the Hub's library raised, in plain words and without secrets."""
    import requests
    from huggingface_hub import errors as hub
    from huggingface_hub import get_token

    reason = redact(str(error).strip().partition("\n")[0], get_token() or "")
    if isinstance(error, TpudeckError):
        return error
    if isinstance(error, hub.LocalTokenNotFoundError):
        return InputError("nobody is logged in to the Hub", hint="log in with `hf auth login`, or set HF_TOKEN")
    if isinstance(error, hub.HFValidationError):
        return InputError(f"{name!r} is no name on the Hub: {reason}", hint="a name is ORG/NAME")
    if isinstance(error, hub.OfflineModeIsEnabled):
        return InputError("the Hub is switched off (HF_HUB_OFFLINE)", hint="unset HF_HUB_OFFLINE to push")
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if status in (401, 403, 404):
        return InputError(
            f"the Hub refused {name} with status {status}: {reason}",
            hint="log in with `hf auth login` or set HF_TOKEN, to a token that may write there",
        )
    if status is not None and 400 <= status < 500 and status not in (408, 409, 412, 429):
        return InputError(f"the Hub refused {name} with status {status}: {reason}")
    if isinstance(error, requests.ConnectionError) and error.request is not None:
        host = urlsplit(str(error.request.url)).hostname
        reason = f"no connection to {host}"  # the library's own words are a page
    if status is not None or isinstance(error, (requests.RequestException, ConnectionError, TimeoutError)):
        return RetryLaterError(f"the Hub could not be reached for {name}: {reason}")
    if isinstance(error, (OSError, RuntimeError)):
        return WorkError(f"{name} could not be pushed: {reason}")
    return error
