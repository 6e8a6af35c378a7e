"""Tokenizers: trained on a corpus or brought along, kept as artefacts, loaded for encoding."""

from tpudeck.tokenizer.loaded import LoadedTokenizer, load

__all__ = ["LoadedTokenizer", "load"]
