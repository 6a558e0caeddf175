"""Detection on a GPU: latency of one image in memory, throughput of batches; captured, eager, and the published way.

    python -m benchmarks.bench_detect [--cfg yolov7-tiny] [--size 640] [--batch 64] [--precision fp16] [--rounds 30]

Pictures are uint8 arrays of COCO's sizes in host memory; decoding of files is not part of it. A call ends when boxes
in the pictures' own pixels are on the host. `graph` is `Detector(gear="graph")`, `eager` is `Detector`. `published`
does what the published `detect.py` does: OpenCV's resize and padding per image, a copy to the device, the folded
network in half precision, and torchvision's `batched_nms` image by image. Without torchvision, its operator is said to
be missing and that row is left out. The rows take turns in each round.

The network is not trained. Its objectness is raised until a picture has some hundred candidates (`--objects`), so that
suppression has work; the numbers of candidates and detections are printed. Stages of the captured work are timed by
themselves, each as a graph of its own, so that what launching takes is not counted. Under four minutes.
"""

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.timing import captured, environment, median_ms
from yolofast import build_model
from yolofast.boxes import cxcywh_to_xyxy
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.detect.captured import CapturedDetector
from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.detect.fixed_candidates import detections_in_rows
from yolofast.detect.letterbox import Pictures, letterbox
from yolofast.evaluate.nms import Thresholds
from yolofast.export.formats.contract import DecodedNetwork
from yolofast.fused import conv_act
from yolofast.media.pictures import fit
from yolofast.pixels import Image

_SIZES = ((480, 640), (640, 480), (427, 640), (640, 427), (640, 640), (375, 500))
_CONF, _IOU, _MOST = 0.25, 0.45, 300
Run = Callable[[Sequence[Image]], int]
"""Gives the number of detections."""


def save_busy(path: Path, cfg: str, size: int, objects: float) -> None:
    """Weights whose objectness lets about so many rows of a random image through."""
    torch.manual_seed(0)
    model = build_model(cfg).eval()
    with torch.no_grad():
        raw = model(torch.rand(1, 3, size, size))
        rows = torch.cat([one[..., 4].flatten() for one in raw])
        raised = torch.logit(torch.tensor(2 * _CONF)) - rows.topk(int(objects)).values[-1]
        for conv in model.head.m:
            bias = conv.bias.view(raw[0].shape[1], -1)
            bias[:, 4] += raised
            bias[:, 5:] += 6.0  # class scores near 1, so that objectness decides
    save_checkpoint(path, model_content(model, config={"img_size": [size]}))


class Published:
    def __init__(self, detector: ImageDetector) -> None:
        from torchvision.ops import batched_nms

        self._nms, self._detector = batched_nms, detector
        self._network = DecodedNetwork(detector.predictor.models[0], half=True).cuda()

    @torch.no_grad()
    def __call__(self, pictures: Sequence[Image]) -> int:
        detector, inputs = self._detector, self._detector.predictor.inputs
        fitted = [fit(one, detector.shape, detector.predictor.stride, inputs) for one in pictures]
        levels = np.stack([one.input[..., ::-1] if inputs.rgb else one.input for one in fitted]).transpose(0, 3, 1, 2)
        images = torch.from_numpy(np.ascontiguousarray(levels)).cuda().float() / inputs.divisor
        count = 0
        for rows, one in zip(self._network(images), fitted, strict=True):
            rows = rows[rows[:, 4] > _CONF]
            scores, labels = (rows[:, 5:] * rows[:, 4:5]).max(1)
            kept = scores > _CONF
            boxes, scores, labels = cxcywh_to_xyxy(rows[kept, :4]), scores[kept], labels[kept]
            places = self._nms(boxes, scores, labels, _IOU)[:_MOST]
            found = boxes[places].cpu().numpy()
            lies = one.place
            (found - np.tile(lies.pad, 2)) / np.tile(lies.gain, 2)
            count += len(found)
        return count


def timed(runs: dict[str, Run], pictures: Sequence[Image], rounds: int, warm_up: int = 3) -> dict[str, list[float]]:
    """Seconds of each call; all take turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(warm_up):
            run(pictures)
    for _ in range(rounds):
        for name, run in runs.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            run(pictures)
            times[name].append(time.perf_counter() - start)
    return times


def stages(detector: CapturedDetector, pictures: Sequence[Image]) -> None:
    """Of the captured work, and what the host does."""
    chosen = Thresholds(conf=_CONF, iou=_IOU, multi_label=False, max_detections=_MOST)
    room = sum(one.size for one in pictures)
    host, device = (Pictures.room_for(len(pictures), room, one) for one in (None, detector.device))
    put_s = []
    for _ in range(20):
        start = time.perf_counter()
        used = host.put(pictures, detector.shape, detector.inputs, detector.threads)
        put_s.append(time.perf_counter() - start)
    device.copy_from(host, used)

    def fitted() -> torch.Tensor:
        return letterbox(device, detector.shape, detector.inputs, detector.dtype, detector.network.channels)

    with torch.no_grad():
        images = fitted()
        raw = detector.raw_maps(images)
        found = detector.candidates(raw, chosen)
        rows: dict[str, float] = {
            "to pinned memory (host)": statistics.median(put_s) * 1e3,
            "to the device": median_ms(lambda: device.copy_from(host, used)),
            "fitted": median_ms(captured(fitted)),
            "network": median_ms(captured(lambda: detector.raw_maps(images))),
            "candidates": median_ms(captured(lambda: detector.candidates(raw, chosen))),
            "suppression": median_ms(captured(lambda: detections_in_rows(found, device, chosen))),
            "all of the graph": median_ms(captured(lambda: detector.work(device, chosen))),
        }
    print(f"stages of {len(pictures)}, ms: " + ", ".join(f"{name} {ms:.3f}" for name, ms in rows.items()))
    print(f"candidates of an image: {found.counts.float().mean().item():.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cfg", default="yolov7-tiny")
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--precision", default="fp16", choices=("fp16", "bf16", "fp32"))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--objects", type=float, default=300)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this needs a GPU")
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (*_SIZES[n % len(_SIZES)], 3), np.uint8) for n in range(args.batch * 8)]
    with TemporaryDirectory() as folder:
        weights = Path(folder) / "busy.pt"
        save_busy(weights, args.cfg, args.size, args.objects)
        made: dict[str, Any] = {
            gear: ImageDetector(weights, device="0", precision=args.precision, gear=gear) for gear in ("eager", "graph")
        }
    made["eager"].predictor.inputs = replace(made["eager"].predictor.inputs, whole=True)
    chosen = DetectionFilter(conf=_CONF, iou=_IOU, most=_MOST)

    def run_of(detector: ImageDetector) -> Run:
        return lambda pictures: sum(map(len, detector.detect(pictures, chosen)))

    runs: dict[str, Run] = {"graph": run_of(made["graph"]), "eager": run_of(made["eager"])}
    if find_spec("torchvision"):
        runs["published"] = Published(made["eager"])
    else:
        print("torchvision is not installed: the published way is left out")
    print(f"{args.cfg} {args.size} {args.precision}; {environment()}")
    start = time.perf_counter()
    for count in (1, args.batch):
        runs["graph"](images[:count])
    print(f"graphs of 1 and {args.batch} captured in {time.perf_counter() - start:.1f} s")
    ways = Counter("cuDNN" if way is None else "×".join(map(str, way)) for way in conv_act._chosen.values())
    print("quickest convolutions:", ", ".join(f"{way} {count}" for way, count in ways.most_common()))
    print("detections of 64 images:", ", ".join(f"{name} {run(images[:64])}" for name, run in runs.items()))
    for number in range(6):
        found = timed(runs, images[number : number + 1], args.rounds)
        ms = {name: np.percentile(times, (50, 99)) * 1e3 for name, times in found.items()}
        words = (f"{name} {median:.3f} (p99 {p99:.3f})" for name, (median, p99) in ms.items())
        height, width = images[number].shape[:2]
        print(f"one image of {width}×{height}, ms: {', '.join(words)}")
    found = timed(runs, images, max(args.rounds // 6, 3), warm_up=1)
    rates = (f"{name} {len(images) / statistics.median(times):,.0f}" for name, times in found.items())
    print(f"{len(images)} images in batches of {args.batch} (eager: 32), images/s: {', '.join(rates)}")
    for count in (1, args.batch):
        stages(made["graph"]._captured, images[:count])
    print(f"GPU memory at most: {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
