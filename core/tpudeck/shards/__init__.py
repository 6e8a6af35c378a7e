"""Shards: the encoded text on disk, built once, verified, and read in the order that training asks for."""

from tpudeck.shards.sets import Sequences, ShardSet, open_set

__all__ = ["Sequences", "ShardSet", "open_set"]
