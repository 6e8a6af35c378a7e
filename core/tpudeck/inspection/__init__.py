"""What text, tokenizers and shards really are: statistics, computed by streaming, and what to do about them."""

from tpudeck.inspection.findings import Finding

__all__ = ["Finding"]
