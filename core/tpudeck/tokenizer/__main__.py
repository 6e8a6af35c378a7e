"""``python -m tpudeck.tokenizer tokenizer FOLDER``: the stage of a run, or a data command's child."""

from tpudeck import jobs
from tpudeck.tokenizer.stage import prepare

if __name__ == "__main__":
    jobs.main({"tokenizer": prepare})
