"""`yolofast`, disturbed in its third epoch: `python -m tests.gpu.disturbed_run NOTES MODES train …`.

Modes, with commas between them: how it is disturbed, `exact` for kernels that add in one order, `compiled` for the
highest gear from the first step on. NOTES gets a line of JSON per batch: what was learnt before an epoch, as a digest
of all tensors that steps change, and the mean losses of the epoch so far.
"""

import json
import os
import signal
import sys
from hashlib import sha256
from pathlib import Path

import torch

from yolofast.cli import main
from yolofast.train import loop
from yolofast.train.gears.gear_box import GearBox
from yolofast.train.step import TrainStep

EPOCH, BATCH = 2, 1
"""Of the batch after which it happens, from 0."""


class Lie:
    """More of the GPU's memory than there is."""

    def __init__(self, tensor):
        self.__cuda_array_interface__ = {
            "shape": (2**44,), "typestr": "|u1", "data": (tensor.data_ptr(), False), "version": 2,
        }  # fmt: skip


def fail_an_assertion():
    torch.zeros(1, device="cuda")[torch.tensor([2**20], device="cuda")]


def read_beyond_memory():
    torch.as_tensor(Lie(torch.zeros(1, device="cuda")), device="cuda")[-4:].sum()


def take_all_memory():
    torch.cuda.set_per_process_memory_fraction(0.02)  # there are others
    taken = []
    while True:
        taken.append(torch.empty(2**28, dtype=torch.uint8, device="cuda"))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


DISTURBANCES = {"killed": die, "assertion": fail_an_assertion, "address": read_beyond_memory, "memory": take_all_memory}


def digest_of(tensors):
    digest = sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()


def note_and_disturb(notes, modes):
    turn, states = loop.turn, {}

    def noted(run, *arguments, epoch, iteration, **more):
        if epoch not in states:
            states[epoch] = digest_of(run.step.tensors())
        result = turn(run, *arguments, epoch=epoch, iteration=iteration, **more)
        batch = iteration - epoch * len(run.batches)
        losses = run.step.losses.means()
        with notes.open("a") as file:
            print(json.dumps({"epoch": epoch, "batch": batch, "state": states[epoch], "losses": losses}), file=file)
        if (epoch, batch) == (EPOCH, BATCH):
            for mode in modes & DISTURBANCES.keys():
                DISTURBANCES[mode]()
        return result

    loop.turn = noted


def kernels_add_in_one_order():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    GearBox._worth_tuning = lambda box, batch: False  # what is measured as the fastest differs from time to time


def compile_at_once():
    run, settled = GearBox.run, []

    def in_the_highest(box, batch, kind):
        if not settled:
            box.settle(batch)
            settled.append(box)
            assert box.compiled, box.compile_failed
        run(box, batch, kind)

    GearBox.run = in_the_highest


def ask_while_capturing():
    """As a loss with `.item()` does."""
    run = TrainStep.run

    def asking(step, *arguments):
        run(step, *arguments)
        torch.cuda.current_stream().synchronize()

    TrainStep.run = asking


if __name__ == "__main__":
    given = set(sys.argv[2].split(","))
    note_and_disturb(Path(sys.argv[1]), given)
    for name, prepare in (
        ("exact", kernels_add_in_one_order), ("compiled", compile_at_once), ("capture", ask_while_capturing),
    ):  # fmt: skip
        if name in given:
            prepare()
    sys.exit(main(sys.argv[3:]))
