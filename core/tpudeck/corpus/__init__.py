"""Text as a stream of documents: from Python's own documentation, files, buckets, or the Hub.

A corpus is opened once per pass and read in order, in batches; memory holds one batch, whatever the size of the corpus.
Three steps: a reader turns a source into *rows* (``builtin``, ``files``,
``hub``), :class:`Documents` turns rows into documents and counts what it meets, and a content hash says which side of
the validation split a document is on.
"""

from tpudeck.corpus.documents import MAX_DOCUMENT_CHARACTERS, CorpusCounts, Documents
from tpudeck.corpus.opening import Split, fingerprint, open_corpus

__all__ = ["MAX_DOCUMENT_CHARACTERS", "CorpusCounts", "Documents", "Split", "fingerprint", "open_corpus"]
