"""How long an evaluation takes, metrics included, and where the time goes.

    python -m benchmarks.bench_val [--cfg yolov7-tiny] [--size 320] [--images 5000] [--batch 32 128] [--device cpu]

Images are made up: noise of COCO's shapes, packed in memory, with 7 boxes of 80 classes each. The network is not
trained, but its objectness is raised so far that every image has some hundred detections, as at the start of a
training; suppression and matching are then at their most expensive. `loader` goes through the batches alone, `predict`
adds the copy to the device and the network, `NMS` adds suppression and waits for its result, `all` is `evaluate` as in
`val`, `kept` as in training from the third epoch on, with batches that were kept: the second pass each, because the
first one loads kernels.

A second table takes suppression apart, for one batch that is on the device: `candidates` finds and sorts them, `kernel`
is greedy suppression in Triton, `torch` the same in plain torch, `torchvision` (if it is installed) its `batched_nms`
on the same candidates, image by image. The host waits after each.
"""

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterable
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import environment
from yolofast.detect.evaluation import accumulate_metrics
from yolofast.detect.predictor import Predictor
from yolofast.evaluate.candidates import Candidates, best_candidates, find_usable_rows
from yolofast.evaluate.greedy import suppress_torch, suppress_triton
from yolofast.evaluate.nms import non_max_suppression
from yolofast.image_index import ImageIndex, fitted_size, starts_of
from yolofast.loader.validation_batches import ValidationBatches, validation_batches
from yolofast.model.network import build_model
from yolofast.pixels import PackedImages
from yolofast.precision import Precision, device_of

_SHAPES = np.array([(640, 480), (480, 640), (640, 427), (427, 640), (640, 640), (500, 375)])
_BOXES, _CLASSES = 7, 80
_CONF, _IOU, _MOST = 0.001, 0.65, 300


def made_up(images: int, size: int) -> tuple[ImageIndex, PackedImages]:
    random = np.random.default_rng(0)
    sizes, boxes = _SHAPES[random.integers(0, len(_SHAPES), images)], images * _BOXES
    index = ImageIndex(
        names=tuple(map(str, range(_CLASSES))),
        files=np.array([b""] * images),
        sizes=sizes,
        starts=starts_of([_BOXES] * images),
        labels=random.integers(0, _CLASSES, boxes),
        boxes=np.concatenate((random.uniform(0.3, 0.7, (boxes, 2)), random.uniform(0.05, 0.5, (boxes, 2))), 1).astype(
            "f4"
        ),
        points=np.zeros((0, 2), np.float32),
        point_starts=np.zeros(boxes + 1, np.int64),
        crowd=np.zeros(boxes, np.bool_),
        image_ids=np.arange(images),
        category_ids=np.arange(_CLASSES),
    )
    stored = fitted_size(sizes, size, size)
    count = stored.prod(axis=1) * 3
    data = torch.from_numpy(np.resize(random.integers(0, 256, 2**24, dtype=np.uint8), count.sum()))
    return index, PackedImages(data, starts_of(count)[:-1], stored)


def seconds(work: Callable[[], object]) -> float:
    for _ in range(2):
        started = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return time.perf_counter() - started


def row(batches: ValidationBatches, kept: ValidationBatches, index: ImageIndex, predictor: Predictor) -> list[float]:
    def look(suppress: bool) -> None:
        for batch in batches:
            predictions = predictor(batch.images)
            if suppress:
                non_max_suppression(predictions, _CONF, _IOU, multi_label=True)

    model, precision = predictor.models[0], predictor.precision
    times = [
        seconds(lambda: [None for _ in batches]),
        seconds(lambda: look(False)),
        seconds(lambda: look(True)),
        seconds(lambda: accumulate_metrics(model, batches, index, precision).result()),
    ]
    for _ in range(2):  # the second time they are kept
        deque(kept, maxlen=0)
    return [*times, seconds(lambda: accumulate_metrics(model, kept, index, precision).result())]


def suppression_row(batches: ValidationBatches, predictor: Predictor) -> dict[str, float]:
    """Milliseconds for the first batch."""
    predictions = predictor(next(iter(batches)).images)

    def candidates() -> Candidates:
        return best_candidates(find_usable_rows(predictions, _CONF), _CONF, multi_label=True, classes=None, most=30_000)

    found = candidates()
    ways: dict[str, Callable[[], object]] = {"candidates": candidates}
    if found.boxes.is_cuda and find_spec("triton") is not None:
        ways["kernel"] = lambda: suppress_triton(found, _IOU, agnostic=False, most=_MOST)
    ways["torch"] = lambda: suppress_torch(found, _IOU, agnostic=False, most=_MOST)
    if find_spec("torchvision") is not None:
        ways["torchvision"] = lambda: _torchvision(found)
    return {name: 1000 * seconds(way) for name, way in ways.items()}


def _torchvision(found: Candidates) -> list[Tensor]:
    from torchvision.ops import batched_nms

    parts = zip(found.boxes, found.scores, found.labels, found.counts.tolist(), strict=True)
    return [batched_nms(boxes[:n], scores[:n], labels[:n], _IOU)[:_MOST] for boxes, scores, labels, n in parts]


def figures(values: Iterable[object], width: int) -> str:
    return "".join(f"{value:>{width}.2f}" if isinstance(value, float) else f"{value!s:>{width}}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cfg", default="yolov7-tiny")
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--device", default="")
    args = parser.parse_args()
    torch.manual_seed(0)
    index, images = made_up(args.images, args.size)
    model = build_model(args.cfg, _CLASSES)
    with torch.no_grad():
        for conv in model.head.m:  # type: ignore[operator]
            conv.bias[4 :: 5 + _CLASSES] = -1.0
    predictor = Predictor([model], Precision.choose("auto", device_of(args.device)))
    print(environment() if torch.cuda.is_available() else f"CPU, torch {torch.__version__}")
    print(f"{args.cfg}, {args.images:,} images at {args.size}, seconds")
    print(figures(("batch", "loader", "predict", "NMS", "all", "kept", "img/s"), 9))
    subjects = {
        size: [
            validation_batches(
                index,
                images,
                size,
                args.size,
                predictor.stride,
                rect=True,
                keep=keep,
                device=predictor.precision.device,
            )
            for keep in (False, True)
        ]
        for size in args.batch
    }
    for size, (fresh, kept) in subjects.items():
        times = row(fresh, kept, index, predictor)
        print(figures((size, *times, round(args.images / times[-2])), 9), flush=True)
    print("\nsuppression of one batch, ms")
    for size, (fresh, _) in subjects.items():
        parts = suppression_row(fresh, predictor)
        print(figures(("batch", *parts), 13) + "\n" + figures((size, *parts.values()), 13), flush=True)


if __name__ == "__main__":
    main()
