"""The real TPU compiler on the real training step, without a TPU.

libtpu compiles for a chip that is not there, and says what the program needs: memory by kind, operations, bytes moved.
Three processes, because TensorFlow, the compiler, and whoever waits for them should not share one:

===============  =====================================================================================
``preflight``    (:mod:`~tpudeck.preflight.trials`) tries batch sizes
``lower``        (:mod:`~tpudeck.preflight.lowering`) TensorFlow: one replica's training step → HLO
``compile``      (:mod:`~tpudeck.preflight.compiler`) jax and libtpu: HLO → what the program needs; remembered
===============  =====================================================================================

:mod:`~tpudeck.preflight.program` reads the optimised program, :mod:`~tpudeck.preflight.report` draws the conclusions.
What is compiled is one replica's step: the sums over replicas and the loop of many steps are not in it. A bound is a
bound: it compares programs and finds what limits them, and no real step is that fast.

Front ends start the task ``preflight`` (:func:`tpudeck.jobs.run`) and import nothing from here.
"""
