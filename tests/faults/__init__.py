"""Faults injected into real runs: ``PYTHONPATH=tests python -m faults`` (``make faults``).

Every scenario is one run that suffers several faults, drawn from its seed, and is resumed until it has finished. Then
it must look as if nothing had happened: no logged step lost or doubled, the final state equal to the last bit, and no
process, lock or status left over that claims a life there isn't.
"""
