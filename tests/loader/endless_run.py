"""A program that loads batches until it is stopped: `python -m tests.loader.endless_run plain|fast [stop-early]`.

It prints the workers' process numbers once batches come. What it does on signals is what the command line does.
"""

import sys

from tests.loader.small_set import made_up_loader
from yolofast.interrupts import exit_code, stops_raise


def run(fast, batches):
    loader = made_up_loader(workers=2, fast=fast)
    epoch = 0
    while True:
        for batch in loader.epoch(epoch):
            assert len(batch.images)
            if epoch == 1:
                print(*loader.processes(), flush=True)
            batches -= 1
            if batches == 0:
                return
        epoch += 1


if __name__ == "__main__":
    try:
        with stops_raise():
            run(sys.argv[1] == "fast", 5 if "stop-early" in sys.argv else -1)
    except KeyboardInterrupt:
        sys.exit(exit_code())
