"""tpudeck: launch, watch, stop, resume and inspect the training of language models from one terminal program.

This package is the headless core and the command line. It does nothing at import: see ``docs/architecture.md`` for the
order in which its parts build on each other.
"""

__version__ = "0.1.0"
