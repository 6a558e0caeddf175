"""Small sequences made up: objects that walk and cross, with detections of every quality."""

import numpy as np

from yolofast.track.formats.detections import make_detections, write_detections
from yolofast.track.formats.mot import write_mot, write_seqinfo
from yolofast.track.formats.sequence import make_sequence
from yolofast.track.sweep.scene import make_scene


def walkers(name, seed, frames=50, objects=7):
    """Truth and detections: misses in bursts, doubles, false ones, scores all over."""
    random = np.random.default_rng(seed)
    frame, who = (grid.ravel() for grid in np.meshgrid(np.arange(1, frames + 1), np.arange(objects), indexing="ij"))
    start, speed = random.uniform(50, 450, (objects, 2)), random.normal(0, 5, (objects, 2))
    size = random.uniform(30, 70, (objects, 2))
    centre = start[who] + speed[who] * frame[:, None] + 8 * np.sin(frame / 6 + who)[:, None]
    box = np.concatenate((centre - size[who] / 2, centre + size[who] / 2), axis=1)
    truth = make_sequence(name, frame=frame, id=who + 1, box=box, label=np.ones(len(who)), length=frames)
    missed = (np.sin(frame / 5 + 3 * who) > 0.85) | (random.random(len(who)) < 0.05)
    seen = np.flatnonzero(~missed)
    doubled = random.choice(seen, len(seen) // 4, replace=False)
    false = random.uniform(0, 450, (frames, 2))
    boxes = np.concatenate((box[seen], box[doubled], np.concatenate((false, false + 50), axis=1)))
    scores = np.concatenate(
        (random.beta(4, 1.5, len(seen)), random.beta(2, 4, len(doubled)), random.beta(2, 4, frames))
    )
    found = make_detections(
        name, frame=np.concatenate((frame[seen], frame[doubled], np.arange(1, frames + 1))),
        box=boxes + random.normal(0, 1.5, boxes.shape), score=scores.clip(0.01, 1), length=frames, frame_rate=25.0,
        label=np.concatenate((np.zeros(len(seen) + len(doubled)), np.ones(frames))), names=("walker", "ghost"),
    )  # fmt: skip
    return truth, found


def scenes(count=3, **more):
    return tuple(make_scene(*walkers(f"SEQ-{place}", place, **more)) for place in range(count))


def write_folder(folder, count=3, **more):
    """MOTChallenge folders below `truth`, detections as `predict --save-detections` writes them."""
    for place in range(count):
        truth, found = walkers(f"SEQ-{place}", place, **more)
        write_mot(folder / "truth" / truth.name / "gt" / "gt.txt", truth, "truth")
        write_seqinfo(folder / "truth" / truth.name / "seqinfo.ini", truth)
        write_detections(folder / "detections" / f"{truth.name}.npz", found)
    return folder
