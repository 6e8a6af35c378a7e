"""``tpudeck corpus …``: look at text before anything is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tpudeck.cli.source import ALL_OPTION, SAMPLE_OPTION, SET_OPTION, SOURCE_HELP

if TYPE_CHECKING:
    from tpudeck.corpus import CorpusCounts
    from tpudeck.presets import Experiment
    from tpudeck.presets.schema import Corpus

app = typer.Typer(
    help="Text: the documentation that Python carries, files, buckets, the Hub.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_SHOWN_CHARACTERS = 160


@app.command()
def show(
    source: str = typer.Argument("builtin", metavar="[SOURCE]", help=SOURCE_HELP),
    column: str = typer.Option("", "--column", help="The column (or JSON key) that holds the text."),
    config: str = typer.Option("", "--config", help="Hub data sets: the configuration."),
    limit: int = typer.Option(0, "--limit", min=0, help="Read so many documents only; 0: all."),
    samples: int = typer.Option(5, "--samples", min=0, help="How many documents to show."),
    statistics: bool = typer.Option(False, "--statistics", help="Also lengths, copies, leaks, broken encodings."),
    sample_mb: float | None = SAMPLE_OPTION,
    everything: bool = ALL_OPTION,
    overrides: list[str] = SET_OPTION,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Read a corpus: its documents, characters and splits, what was left out and why, and a few documents.

    Statistics are of a sample where there is more than a gigabyte of text, unless --all is given.
    """
    from tpudeck.cli.corpus_views import print_statistics
    from tpudeck.cli.output import emit_json, emit_table, narrate
    from tpudeck.cli.source import experiment_for, sample_request

    sample = sample_request(sample_mb, everything)

    given = {"column": column, "config": config, "max_documents": limit or ""}
    overrides = [*overrides, *(f"corpus.{key}={value}" for key, value in given.items() if value)]
    experiment = experiment_for(source, overrides)
    settings = experiment.corpus
    counts, shown = _read(settings, samples)
    inspected = _inspect(experiment, sample) if statistics or sample else None
    if as_json:
        emit_json(_as_data(settings, counts, shown) | ({"statistics": inspected} if inspected else {}))
        return
    columns = ("documents", "characters", "bytes")
    rows = [(split, *(f"{getattr(of, name):,}" for name in columns)) for split, of in counts.items()]
    emit_table(("split", *columns), rows)
    if shown:
        print()
        emit_table(("document",), [(_shortened(document),) for document in shown])
    if inspected:
        print_statistics(inspected)
    for what, count in counts["train"].oddities().items():
        narrate(f"{what}: {count:,}")


def _inspect(experiment: Experiment, request: dict[str, Any]) -> dict[str, Any]:
    from tpudeck import jobs
    from tpudeck.cli.source import progress_line

    with progress_line(lambda told: f"inspecting: {told['done']:,} documents") as on_progress:
        return jobs.run("inspect-corpus", experiment, request=request, on_progress=on_progress)


def _read(settings: Corpus, samples: int) -> tuple[dict[str, CorpusCounts], list[str]]:
    """Both sides of the corpus, counted, and some documents from all over the first."""
    from tpudeck.corpus import open_corpus

    counts: dict[str, CorpusCounts] = {}
    shown: list[str] = []
    documents = open_corpus(settings, "train")
    seen, stride = 0, 1
    for batch in documents:
        for document in batch:
            # Keep every stride-th, and when there are twice too many, every other one of them.
            if seen % stride == 0 and samples:
                shown.append(document)
            if len(shown) == 2 * samples and samples:
                shown, stride = shown[::2], 2 * stride
            seen += 1
    counts["train"] = documents.counts
    held_out = open_corpus(settings, "validation")
    for _ in held_out:
        pass
    counts["validation"] = held_out.counts
    return counts, shown[:samples]


def _as_data(settings: Corpus, counts: dict[str, CorpusCounts], shown: list[str]) -> dict[str, Any]:
    from tpudeck.corpus import fingerprint

    return {
        "source": settings.source,
        "fingerprint": fingerprint(settings),
        "settings": settings.model_dump(),
        "splits": {split: of.to_dict() for split, of in counts.items()},
        "samples": shown,
    }


def _shortened(document: str) -> str:
    line = " ".join(document.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 1]}…"
