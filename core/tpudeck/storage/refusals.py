"""What a bucket refuses, in plain words: this project's errors for those of the client library."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from tpudeck.errors import InputError, RetryLaterError, TpudeckError, WorkError
from tpudeck.storage.client import split
from tpudeck.storage.settings import settings
from tpudeck.units import format_duration

__all__ = ["explained", "no_bucket"]


@contextlib.contextmanager
def explained(location: str) -> Iterator[None]:
    """Turn what the client raises into this project's errors."""
    import requests
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import InvalidResponse

    try:
        yield
    except (GoogleAPIError, GoogleAuthError, InvalidResponse, requests.RequestException, ConnectionError) as error:
        raise _explanation(error, location) from error


def _explanation(error: Exception, location: str) -> Exception:
    from google.api_core import exceptions as api
    from google.auth.exceptions import GoogleAuthError

    if isinstance(error, GoogleAuthError):
        return _not_logged_in("no usable credentials for object storage were found", error)
    code = getattr(error, "code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, api.RetryError) or code is None or code in (408, 410, 429) or code >= 500:
        waited = format_duration(settings().deadline_s)
        return RetryLaterError(
            f"{location} could not be reached within {waited}: {_reason(error)}",
            hint="the same command goes on where this one ended",
        )
    if code == 404:
        return FileNotFoundError(f"there is nothing at {location}")
    if code == 412:
        return RetryLaterError(f"{location} was written by somebody else at the same time")
    if code == 401:
        return _not_logged_in(f"{location}: the credentials were refused", error)
    if code == 403:
        return _not_allowed(error, location)
    if "requester pays" in str(error).lower():
        hint = "set billing_project under [storage] in config.toml: it is billed for the requests"
        return InputError(f"{location} is in a bucket whose reader pays", hint=hint)
    return WorkError(f"{location}: {_reason(error)}")


def no_bucket(location: str) -> InputError:
    """The error for a location whose bucket is not there."""
    return InputError(f"there is no bucket {split(location)[0]}", hint="make it first, or check the name")


def _not_logged_in(message: str, error: Exception) -> TpudeckError:
    hint = "log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
    return InputError(f"{message}: {_reason(error)}", hint=hint)


def _not_allowed(error: Exception, location: str) -> TpudeckError:
    reason = _reason(error)
    found = re.search(r"(\S+) does not have (storage\.\S+) access", reason)
    if found is None:
        return InputError(f"{location}: access was refused: {reason}")
    account, permission = found.groups()
    if account.lower() in {"caller", "anonymous"}:
        return _not_logged_in(f"{location}: nobody is logged in", error)
    role = "roles/storage.objectViewer" if permission.endswith((".get", ".list")) else "roles/storage.objectUser"
    bucket, _ = split(location)
    kind = "serviceAccount" if "gserviceaccount" in account or ".iam" in account else "user"
    command = f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --member={kind}:{account} --role={role}"
    return InputError(f"{account} may not do this with {location}: it lacks {permission}", hint=command)


def _reason(error: Exception) -> str:
    """What the service said, without the URL: that of an upload is as good as a password."""
    cause = getattr(error, "cause", None) or error
    text = str(cause)
    found = re.search(r'"message": ?"((?:[^"\\]|\\.)*)"', text)
    if found:
        return found[1].replace('\\"', '"')
    text = re.sub(r"https?://\S+", "…", text)
    return " ".join(text.split())[:200] or type(cause).__name__
