"""What PyTorch and today's Transformers make of a model folder: ``python reference.py FOLDER REQUEST ANSWER``.

Runs in an environment of its own, with nothing of this project in it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import transformers

import torch


def answer(folder: str, request: dict[str, Any]) -> dict[str, Any]:
    kind = transformers.AutoModelForCausalLM if request["causal"] else transformers.AutoModelForMaskedLM
    model, loading = kind.from_pretrained(folder, output_loading_info=True)
    model.eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(request["ids"])).logits
    told: dict[str, Any] = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "class": type(model).__name__,
        "missing": sorted(map(str, loading["missing_keys"])),
        "unexpected": sorted(map(str, loading["unexpected_keys"])),
        "mismatched": sorted(map(str, loading["mismatched_keys"])),
        "logits": logits.float().tolist(),
        "token_ids": tokenizer(request["text"])["input_ids"],
        "vocabulary": len(tokenizer),
    }
    if request["causal"]:
        ids = torch.tensor([request["prompt_ids"]])
        new = model.generate(ids, max_new_tokens=request["new_tokens"], do_sample=False, pad_token_id=request["pad_id"])
        told["generated_ids"] = new[0].tolist()
        go_on = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
        told["generated"] = go_on(request["text"], max_new_tokens=request["new_tokens"], do_sample=False)[0]
    else:
        fill = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer)
        answers = fill(request["text"], top_k=5)
        told["filled"] = [{"id": one["token"], "probability": one["score"]} for one in answers]
    return told


if __name__ == "__main__":
    folder, request, out = sys.argv[1:]
    Path(out).write_text(json.dumps(answer(folder, json.loads(Path(request).read_text()))))
