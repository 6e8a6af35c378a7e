"""Snapshot in, cells out: what the live screen is made of. No I/O here."""
