"""How long an evaluation takes, metrics included, and where the time goes.

    python -m benchmarks.bench_val [--cfg yolov7-tiny] [--size 320] [--images 5000] [--batch 32 128] [--device cpu]

Images are made up: noise of COCO's shapes, packed in memory, with 7 boxes of 80 classes each. The network is not
trained, but its objectness is raised so far that every image has some hundred detections, as at the start of a
training; suppression and matching are then at their most expensive. `loader` goes through the batches alone, `predict`
adds the copy to the device and the network, `NMS` adds suppression, `all` is `evaluate`: the second pass each, because
the first one loads kernels.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.timing import environment
from yolofast.engine.devices import device_of
from yolofast.engine.evaluation import evaluate
from yolofast.engine.precision import Precision
from yolofast.engine.predictor import Predictor
from yolofast.evaluate.nms import non_max_suppression
from yolofast.image_index import ImageIndex, starts_of
from yolofast.loader.validation import ValidationBatches, validation_batches
from yolofast.model.network import build_model
from yolofast.pixels import PackedImages, fitted_size

_SHAPES = np.array([(640, 480), (480, 640), (640, 427), (427, 640), (640, 640), (500, 375)])
_BOXES, _CLASSES = 7, 80


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


def row(batches: ValidationBatches, index: ImageIndex, predictor: Predictor) -> list[float]:
    def look(suppress: bool) -> None:
        for batch in batches:
            predictions = predictor(batch.images)
            if suppress:
                non_max_suppression(predictions, 0.001, 0.65, multi_label=True)

    model, precision = predictor.models[0], predictor.precision
    return [
        seconds(lambda: [None for _ in batches]),
        seconds(lambda: look(False)),
        seconds(lambda: look(True)),
        seconds(lambda: evaluate(model, batches, index, precision)),
    ]


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
    print(f"{'batch':>6}{'loader':>9}{'predict':>9}{'NMS':>9}{'all':>9}{'img/s':>9}")
    for size in args.batch:
        batches = validation_batches(index, images, size, args.size, predictor.stride, rect=True)
        times = row(batches, index, predictor)
        print(
            f"{size:>6}" + "".join(f"{value:>9.2f}" for value in times) + f"{args.images / times[-1]:>9,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
