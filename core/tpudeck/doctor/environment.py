"""Checks of what is installed, and of how this process was started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tpudeck.doctor.findings import Finding
from tpudeck.doctor.surroundings import Surroundings

__all__ = ["check_packages", "check_python", "check_terminal", "check_variables", "package_faults"]

LIBTPU_PIN = "tensorflow-tpu==2.20.0 libtpu==0.0.21"
_TPU_INSTALL = f"pip install {LIBTPU_PIN}, then pip install tf-keras==2.20.1 --no-deps"


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def package_faults(versions: Mapping[str, str]) -> Iterator[Finding]:
    """Combinations that abort, or silently lose the TPU."""
    builds = [name for name in ("tensorflow", "tensorflow-cpu", "tensorflow-tpu") if name in versions]
    if "tensorflow-tpu" in builds and len(builds) > 1:
        yield Finding(
            "packages",
            "error",
            f"{' and '.join(builds)} share a folder: whichever was installed last is used, and the TPU may be lost",
            f"pip uninstall {' '.join(builds)} tf-keras, then {_TPU_INSTALL}",
        )
    libtpu = versions.get("libtpu")
    if "tensorflow-tpu" in versions and libtpu and not (0, 0, 21) <= _release(libtpu) < (0, 0, 32):
        yield Finding(
            "packages",
            "error",
            f"libtpu {libtpu} makes tensorflow-tpu {versions['tensorflow-tpu']} abort when it is imported",
            f"pip install {LIBTPU_PIN}",
        )


def check_packages(here: Surroundings) -> Iterator[Finding]:
    """Versions, and whether they go together."""
    versions = here.versions
    yield from package_faults(versions)
    build = next((name for name in ("tensorflow-tpu", "tensorflow", "tensorflow-cpu") if name in versions), None)
    if build is None:
        yield Finding(
            "packages",
            "error",
            "TensorFlow is not installed: nothing can be trained",
            'pip install "tpudeck[cpu]" or "tpudeck[gpu]"; for a TPU see docs/tpu.md',
        )
    elif _release(versions[build])[:2] != (2, 20):
        yield Finding(
            "packages",
            "warning",
            f"{build} {versions[build]} is not the 2.20 that this was tested with",
            f"pip install '{build}==2.20.*'",
        )
    if build and "tf-keras" not in versions:
        yield Finding(
            "packages",
            "error",
            "tf-keras is not installed: Transformers' TensorFlow models need it",
            "pip install tf-keras==2.20.1 --no-deps",
        )
    elif build and _release(versions["tf-keras"])[:2] != _release(versions[build])[:2]:
        yield Finding(
            "packages",
            "error",
            f"tf-keras {versions['tf-keras']} does not go with {build} {versions[build]}",
            "pip install 'tf-keras==2.20.*' --no-deps",
        )
    if _release(versions.get("transformers", "4.57"))[0] != 4:
        yield Finding(
            "packages",
            "error",
            f"transformers {versions['transformers']} has no TensorFlow models",
            "pip install 'transformers>=4.57,<5'",
        )
    if here.chips() and "tensorflow-tpu" not in versions:
        yield Finding("packages", "error", "there are TPU chips here, and no TensorFlow that uses them", _TPU_INSTALL)
    if "tensorflow-tpu" in versions and "libtpu" not in versions:
        yield Finding("packages", "error", "libtpu is not installed", f"pip install {LIBTPU_PIN}")
    shown = (
        "tensorflow-tpu",
        "tensorflow",
        "tensorflow-cpu",
        "tf-keras",
        "libtpu",
        "transformers",
        "tokenizers",
        "datasets",
        "numpy",
        "textual",
    )
    yield Finding("packages", "ok", ", ".join(f"{name} {versions[name]}" for name in shown if name in versions))


def check_python(here: Surroundings) -> Iterator[Finding]:
    major, minor = here.python
    supported = (3, 10) <= here.python <= (3, 13)
    fix = "" if supported else "make a virtual environment with Python 3.10 to 3.13"
    yield Finding("python", "ok" if supported else "error", f"Python {major}.{minor}", fix)


def check_variables(here: Surroundings) -> Iterator[Finding]:
    """Environment variables that change what TensorFlow and libtpu do."""
    environ = here.environ
    if environ.get("TF_USE_LEGACY_KERAS", "1").lower() not in {"1", "true"}:
        yield Finding(
            "variables", "note", "TF_USE_LEGACY_KERAS is off; training turns it on, because Transformers needs it"
        )
    if environ.get("TPU_LOAD_LIBRARY") == "0":
        yield Finding(
            "variables",
            "warning",
            "TPU_LOAD_LIBRARY=0 keeps TensorFlow from seeing a TPU",
            "unset TPU_LOAD_LIBRARY, or set device.kind",
        )
    if environ.get("PJRT_DEVICE") or environ.get("XRT_TPU_CONFIG"):
        yield Finding("variables", "note", "PJRT_DEVICE or XRT_TPU_CONFIG is set, which only PyTorch/XLA reads")
    library = environ.get("TPU_LIBRARY_PATH")
    if library and not (here.root / library.lstrip("/")).exists():
        yield Finding("variables", "error", f"TPU_LIBRARY_PATH names {library}, which is not there", "unset it")
    name = environ.get("TPU_NAME", "")
    if name and name != "local" and here.chips():
        yield Finding(
            "variables",
            "warning",
            f"TPU_NAME={name} names a TPU elsewhere, and there are chips here",
            "unset TPU_NAME, or set device.name = local",
        )


def check_terminal(here: Surroundings) -> Iterator[Finding]:
    """Locale and terminal, as far as the console depends on them."""
    environ = here.environ
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if not re.search(r"utf-?8", locale, re.IGNORECASE):
        yield Finding(
            "terminal",
            "warning",
            f"the locale is {locale or 'not set'}: charts need UTF-8",
            "export LC_ALL=C.UTF-8, or start the console with --ascii",
        )
    term = environ.get("TERM", "")
    if term in {"", "dumb"}:
        yield Finding(
            "terminal",
            "warning",
            f"TERM is {term or 'not set'}: the console cannot draw here",
            "connect with a terminal (ssh -t); commands work without one",
        )
    elif not re.search(r"256color|truecolor|kitty|alacritty|ghostty|direct", term + environ.get("COLORTERM", "")):
        fix = "in tmux: set -g default-terminal tmux-256color" if "TMUX" in environ else "export TERM=xterm-256color"
        yield Finding("terminal", "note", f"TERM is {term}: 16 colours", fix)
    else:
        yield Finding("terminal", "ok", f"{term}, {locale or 'no locale'}")
