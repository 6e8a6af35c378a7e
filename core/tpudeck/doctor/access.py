"""Checks of access: whether there are credentials, and whether the Hub and the bucket that they are for let us in.

What the user has not set up is not asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tpudeck.doctor.findings import Finding
from tpudeck.doctor.surroundings import Surroundings
from tpudeck.errors import RetryLaterError, TpudeckError

__all__ = ["check_credentials", "check_hub", "check_store"]

_DEADLINE_S = 5.0


def check_credentials(here: Surroundings) -> Iterator[Finding]:
    """Whether buckets and the Hub will know us; nothing is asked over the network."""
    environ = here.environ
    named = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    default = Path(environ.get("HOME", "~")) / ".config/gcloud/application_default_credentials.json"
    if named and not Path(named).is_file():
        yield Finding(
            "credentials",
            "error",
            f"GOOGLE_APPLICATION_CREDENTIALS names {named}, which is not there",
            "unset it, or gcloud auth application-default login",
        )
    elif named or default.is_file() or here.on_google_cloud:
        yield Finding("credentials", "ok", "Google Cloud credentials are there")
    else:
        yield Finding(
            "credentials",
            "note",
            "no Google Cloud credentials: gs:// will not work",
            "gcloud auth application-default login",
        )
    if _hub_token(here):
        yield Finding("credentials", "ok", "a Hub token is there")
    else:
        yield Finding(
            "credentials",
            "note",
            "no Hub token: public data only, and nothing can be pushed",
            "hf auth login, or export HF_TOKEN=…",
        )


def _hub_token(here: Surroundings) -> str:
    """The user's token for the Hub, from where its client looks for it; empty where there is none."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if token := here.environ.get(name, "").strip():
            return token
    cache = Path(here.environ.get("HF_HOME") or Path(here.environ.get("HOME", "~")) / ".cache/huggingface")
    file = Path(here.environ.get("HF_TOKEN_PATH") or cache / "token")
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def check_hub(here: Surroundings) -> Iterator[Finding]:
    """With a token: whether the Hub knows it, and as whom."""
    token = _hub_token(here)
    if not token or here.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return
    import http.client
    import json
    import urllib.error
    import urllib.request

    from huggingface_hub import constants

    endpoint = (here.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
    try:
        request = urllib.request.Request(f"{endpoint}/api/whoami-v2", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=_DEADLINE_S) as answer:
            name = json.load(answer).get("name", "?")
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            yield Finding("hub", "error", "the Hub refuses the token that is set up", "hf auth login, with a new token")
        else:
            yield Finding("hub", "warning", f"the Hub answers {error.code} {error.reason}", "try again later")
    except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        fix = "check the network and HTTPS_PROXY; text of your own and what is cached need no Hub"
        yield Finding("hub", "warning", f"the Hub does not answer: {reason}", fix)
    else:
        yield Finding("hub", "ok", f"the Hub knows you as {name}")


def check_store(here: Surroundings) -> Iterator[Finding]:
    """With a store in ``config.toml``: whether its objects may be listed."""
    from tpudeck.storage.settings import settings

    try:
        store = settings(here.home).store
    except TpudeckError as error:
        yield Finding("store", "error", error.message, error.hint or "mend the file")
        return
    if not store:
        return
    try:
        _look_into(store)
    except RetryLaterError:
        fix = "check the network; where the store is a mistake, change [storage] in config.toml"
        yield Finding("store", "warning", f"{store} does not answer within {_DEADLINE_S:g} s", fix)
    except FileNotFoundError:
        yield Finding(
            "store", "error", f"the bucket of {store} is not there", "make it, or change [storage] in config.toml"
        )
    except TpudeckError as error:
        yield Finding("store", "error", error.message, error.hint or "see docs/buckets.md")
    else:
        yield Finding("store", "ok", f"{store} can be read")


def _look_into(store: str) -> None:
    """Ask for the name of one object, and once only: retries would take minutes."""
    from tpudeck.storage.client import bucket_named, split
    from tpudeck.storage.refusals import explained

    bucket, prefix = split(store)
    with explained(store):
        next(iter(bucket_named(bucket).list_blobs(prefix=prefix, max_results=1, timeout=_DEADLINE_S, retry=None)), None)
