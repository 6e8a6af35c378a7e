"""The only TensorFlow of this program: it runs in a process of its own, ``python -m tpudeck.training TASK FOLDER``.

::

    inputs         tokenizer and shards, checked before TensorFlow is imported
    strategy       which devices, and what runs on each of them
    configuration  an experiment → a configuration of Transformers
    names          TensorFlow's variables under the names that PyTorch's state dicts use
    transformer    the arithmetic of the five families, from embeddings to hidden states and logits
    model          weights (made by Transformers' class), and their logits
    initial        existing weights, to start from
    dropout        random bits from (seed, layer, step, microstep, replica)
    optimizer      AdamW
    learning_rate  warm-up and decay, on the host
    batches        which sequences with which masks: from (seed, step), on the host
    step           forward, backward, update: one optimizer step of one replica
    loop           many steps in one call, on all replicas
    evaluate       loss, perplexity and accuracy on fixed masks, and what token frequencies alone would score
    setup          all that a run needs before its first step, and its plan
    pace           how many steps a call does
    meter          from the outcomes of calls to lines of metrics
    checkpoints    written aside, manifest last
    environment    what the last digits depend on besides the seed
    keeper         what is kept in a checkpoint, when, and how an attempt goes on from it
    profiling      some steps recorded by TensorFlow's profiler; trace says where their time went
    trainer        the training stage: what happens when
    export, fill   what a checkpoint is good for

Everything random is a pure function of (seed, step), so a resumed run equals an uninterrupted one, to the last bit on
the same CPU.
"""

from __future__ import annotations

import os

# Read when TensorFlow and Transformers are imported, which every module below does: Keras 2, and errors only.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
