"""`python -m tests.train.distributed.tight_ranks WORDS`: a training by two ranks of which one has little memory.

They are forked: what they would import, a program of `tests.programs` has in memory already. Ranks that are started
anew are those of `tests/train/two_ranks.py` and of `torchrun`.
"""

import functools
import gc
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from yolofast.cli import main
from yolofast.train import fitting_batch
from yolofast.train.distributed import launch as launching
from yolofast.train.distributed.averaged_gradients import AveragedGradients
from yolofast.train.step import TrainStep


def destroy_group(own=dist.destroy_process_group):
    """Sums that outlive the ranks' group end it with Python's lock held, and may wait for ever."""
    assert not any(isinstance(one, AveragedGradients) for one in gc.get_objects())
    own()


def train_as_rank(report, command, small, after_steps, fits, room):
    """On the rank `small` no more images of a batch than `fits` fit, once there were so many steps."""
    own, run, steps = int(os.environ["RANK"]), TrainStep.run, []

    def run_small_batches(step, images, *more):
        steps.append(len(images))
        if own == small and len(images) > fits and len(steps) > after_steps:
            raise torch.OutOfMemoryError
        run(step, images, *more)

    TrainStep.run, dist.destroy_process_group = run_small_batches, destroy_group
    if room:  # as on GPUs, whose memory is measured
        fitting_batch.device_of_rank = lambda name: torch.device("cuda", own)
        fitting_batch._own_part = lambda config, data, device, most: min(room[own], most)
    code = main(command)
    report("")
    return code


if __name__ == "__main__":
    launching.spawn = functools.partial(start_processes, start_method="fork")
    launching.launch(train_as_rank, tuple(json.loads(sys.argv[1])), 2)
