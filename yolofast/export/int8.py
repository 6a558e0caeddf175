"""Int8 with accuracy kept: which convolutions see their input in 8 bits is found by measuring, and so is the result.

Every weight is stored in 8 bits, which costs next to nothing. Inputs of layers are what destroys accuracy, a few layers
most of it: depthwise convolutions, and the ends of the head. One ONNX graph with a switch at each layer tells what each
costs; then the largest set is looked for that keeps AP on training images. The runtime's own times decide what stays.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from yolofast.boxes import iou
from yolofast.detect.accumulator import MetricAccumulator
from yolofast.detect.networks import TrainedModel
from yolofast.detect.predictor import to_validate
from yolofast.errors import UserError
from yolofast.export.formats.contract import Array
from yolofast.export.formats.facts import IMAGES, PREDICTIONS, ExportFacts
from yolofast.export.formats.onnx_based import OnnxBased
from yolofast.export.formats.onnx_graph import part_of
from yolofast.export.formats.onnx_int8 import SWITCHES, Convolution, InputRange, as_rounded, convolutions, with_int8
from yolofast.export.runtimes.contract import Session, open_session
from yolofast.export.runtimes.detections import filled, in_original, network_input, prepared
from yolofast.export.runtimes.onnx_runtime import started
from yolofast.export.timing import interleaved
from yolofast.image_index import ImageIndex
from yolofast.media.pictures import Fitted, fit
from yolofast.pixels import Image
from yolofast.words import amount, counted

MOST_LOST, LARGEST_SHARE = 0.01, 0.30
"""Targets: of AP, and of the bytes of the fp32 file. The third is to be faster than it."""
_MARGIN = 0.5
"""Share of the AP that may be lost on the images of the search: others lose a little more or less."""
_CALIBRATED, _PROBED, _HALVINGS, _ROUNDS = 32, 3, 5, 6
_LOOKED_AT = 100
"""Best predictions of an image, by which a layer is judged."""
_KEPT_OF_VALUE = 4000
"""Numbers kept of a value for each image."""
_SHRINKS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)


@dataclass(frozen=True)
class LabelledSample:
    """Labelled images of the training split."""

    images: Sequence[Image]
    index: ImageIndex


@dataclass(frozen=True)
class Candidate:
    title: str
    chosen: frozenset[str]
    ap: float
    ms: float
    size: int


@dataclass(frozen=True)
class Int8:
    build: Callable[[Candidate], Any]
    """The ONNX graph of a plan."""
    layers: int
    fp32: Candidate
    tried: tuple[Candidate, ...]
    best: Candidate

    def safer(self) -> "Int8 | None":
        """With the next best plan that sees fewer inputs in int8: for one that other images find wanting."""
        left = [one for one in _by_rank(self.tried, self.fp32) if len(one.chosen) < len(self.best.chosen)]
        return replace(self, best=left[0]) if left else None

    def rows(self) -> list[tuple[str, str, str]]:
        """What, how much, and the target."""
        faster, share = self.fp32.ms / self.best.ms, self.best.size / self.fp32.size
        lost = (self.fp32.ap - self.best.ap) * 100
        shown = [
            ("convolutions with int8 inputs", f"{len(self.best.chosen)} of {self.layers}: {self.best.title}", ""),
            ("points of mAP50-95 lost on train images", f"{lost:.2f}", f"{MOST_LOST * 100:g}"),
            ("size, of the fp32 file", f"{share:.1%} of {amount(self.fp32.size)}", f"{LARGEST_SHARE:.0%}"),
            ("ms a picture, of fp32", f"{self.best.ms:.1f} of {self.fp32.ms:.1f} ({faster:.2f}×)", "faster"),
        ]
        shown += [
            (f"also tried: {one.title}", f"mAP50-95 {one.ap:.4f}, {one.ms:.1f} ms, {amount(one.size)}", "")
            for one in self.tried
            if one is not self.best
        ]
        return shown

    def missed(self) -> list[str]:
        """Targets that are not met, in words."""
        lost, share = self.fp32.ap - self.best.ap, self.best.size / self.fp32.size
        words = {
            f"{lost * 100:.2f} points of AP are lost, {MOST_LOST * 100:g} is the target": lost > MOST_LOST,
            f"the file has {share:.1%} of the bytes of fp32, {LARGEST_SHARE:.0%} is the target": share > LARGEST_SHARE,
            f"it takes {self.best.ms:.1f} ms, fp32 {self.fp32.ms:.1f} ms": self.best.ms >= self.fp32.ms,
        }
        return [what for what, holds in words.items() if holds]


def _by_rank(tried: Sequence[Candidate], fp32: Candidate) -> list[Candidate]:
    """The fastest of those that keep AP with some margin; then the others, by AP."""
    kept = [one for one in tried if fp32.ap - one.ap <= _MARGIN * MOST_LOST]
    return sorted(tried, key=lambda one: (one not in kept, one.ms if one in kept else -one.ap))


def find_int8(
    name: str, form: OnnxBased, graph: Any, facts: ExportFacts, trained: TrainedModel, sample: LabelledSample
) -> Int8:
    """The best trade-off that was found for this runtime. `graph` is that of fp32."""
    if len(sample.images) < 2:
        raise UserError("int8 needs at least 2 labelled train images", fix="name a data set with --data")
    found = _Search(name, form, graph, facts, trained, sample)
    return found.result()


class _Search:
    def __init__(
        self, name: str, form: OnnxBased, graph: Any, facts: ExportFacts, trained: TrainedModel, sample: LabelledSample
    ) -> None:
        self._name, self._form, self._graph, self._facts = name, form, graph, facts
        self._fitted = [fit(one, facts.shape, facts.stride, facts.inputs) for one in sample.images]
        self._sample, self._thresholds = sample, to_validate(trained.model)
        places = np.arange(len(sample.images))
        self._calibrated = places[::2][:_CALIBRATED]
        self._measured = np.setdiff1d(places, self._calibrated)
        self._layers = convolutions(graph)
        self._seen = self._calibrate()

    def result(self) -> Int8:
        everything = self._chosen_by_measuring()
        dense = frozenset(one.value for one in self._layers if not one.depthwise) & everything
        plans = {"found by AP": everything, "without depthwise ones": dense, "weights only": frozenset[str]()}
        unlike = {title: chosen for place, (title, chosen) in enumerate(plans.items())
                  if chosen not in list(plans.values())[:place]}  # fmt: skip
        with TemporaryDirectory(prefix="yolofast-int8-") as folder:
            graphs = {"fp32": self._graph} | {title: self.built(chosen) for title, chosen in unlike.items()}
            opened = {title: self._written(one, Path(folder) / str(place)) for place, (title, one) in
                      enumerate(graphs.items())}  # fmt: skip
            pictures = [self._fitted[place].input for place in self._measured[:_PROBED]]
            runs = {title: _detector(session, self._facts) for title, (session, _) in opened.items()}
            times = interleaved(runs, pictures, batch=1, rounds=_ROUNDS, calls=len(pictures))
            judged = {
                title: Candidate(title, unlike.get(title, frozenset()), self._ap(session.predict),
                                 times[title].latency_ms(50), size)
                for title, (session, size) in opened.items()
            }  # fmt: skip
        fp32 = judged.pop("fp32")
        tried = tuple(judged.values())
        return Int8(lambda one: self.built(one.chosen), len(self._layers), fp32, tried, _by_rank(tried, fp32)[0])

    def built(self, chosen: Collection[str]) -> Any:
        return with_int8(self._graph, chosen, self._seen, folded=self._form.folds_weights)

    def _written(self, graph: Any, folder: Path) -> tuple[Session, int]:
        folder.mkdir()
        path = folder / f"model{self._form.suffix}"
        self._form.write_graph(graph, self._facts, path)
        return open_session(path, self._name), sum(one.stat().st_size for one in folder.iterdir())

    def _levels(self, place: int) -> Array:
        levels = prepared(network_input(self._fitted[place].input, self._facts), self._facts)
        return filled(levels, self._facts.batch or 1)

    def _calibrate(self) -> dict[str, InputRange]:
        """Of each layer's input the range by which rounding costs least, in squares, over the calibration images."""
        values = list(dict.fromkeys(one.taken for one in self._layers))
        session = started(part_of(self._graph, [IMAGES], values))
        kept: dict[str, list[Array]] = {value: [] for value in values}
        ends = dict.fromkeys(values, (0.0, 0.0))
        for numbers in self._inputs(session, values):
            for value, one in numbers.items():
                flat = one.reshape(-1)
                kept[value].append(flat[:: max(len(flat) // _KEPT_OF_VALUE, 1)].copy())
                ends[value] = min(ends[value][0], float(flat.min())), max(ends[value][1], float(flat.max()))
        ranges = {value: best_range(np.concatenate(kept[value]), *ends[value]) for value in values}
        sums: dict[str, Any] = dict.fromkeys(values, 0.0)
        for numbers in self._inputs(session, values):
            for value, one in numbers.items():
                rounded = as_rounded(one[0], *ranges[value])
                sums[value] = sums[value] + np.stack((one[0].mean((1, 2)), rounded.mean((1, 2))))
        means = {value: numbers / len(self._calibrated) for value, numbers in sums.items()}
        return {value: InputRange(*ranges[value], *means[value]) for value in values}

    def _inputs(self, session: Any, values: list[str]) -> Iterator[dict[str, Array]]:
        for place in self._calibrated:
            yield dict(zip(values, session.run(values, {IMAGES: self._levels(place)}), strict=True))

    def _chosen_by_measuring(self) -> frozenset[str]:
        every = [one.value for one in self._layers]
        graph = part_of(with_int8(self._graph, every, self._seen, folded=True, switched=True),
                        [IMAGES, SWITCHES], [PREDICTIONS])  # fmt: skip
        session = started(graph)

        def predict(images: Array, on: Sequence[Convolution]) -> Array:
            switches = np.zeros(len(self._layers), bool)
            switches[[one.layer for one in on]] = True
            found: Array = session.run([PREDICTIONS], {IMAGES: images, SWITCHES: switches})[0]
            return found

        probes = [self._levels(place) for place in self._calibrated[:_PROBED]]
        wanted = [predict(levels, [])[0] for levels in probes]
        harm = {
            one: sum(harm_of(ours, predict(levels, [one])[0]) for levels, ours in zip(probes, wanted, strict=True))
            for one in self._layers
        }
        ordered = sorted(self._layers, key=lambda one: harm[one])
        least = self._ap(lambda images: predict(images, [])) - _MARGIN * MOST_LOST
        low, high = 0, len(ordered) + 1  # low keeps AP, high is not known to
        middle = len(ordered)
        for _ in range(_HALVINGS + 1):
            if self._ap(lambda images, on=ordered[:middle]: predict(images, on)) >= least:
                low = middle
            else:
                high = middle
            if high - low <= 1:
                break
            middle = (low + high) // 2
        return frozenset(one.value for one in ordered[:low])

    def _ap(self, predict: Any) -> float:
        """On the images that ranges were not taken from."""
        accumulator = MetricAccumulator(len(self._facts.names))
        for place in self._measured:
            (one,) = self._thresholds.detections(torch.from_numpy(predict(self._levels(place))[:1]))
            fitted: Fitted = self._fitted[place]
            accumulator.add(
                self._sample.index, np.array([place]), [in_original(one, fitted, self._sample.images[place])]
            )
        return float(accumulator.result().metrics.map)


def _detector(session: Session, facts: ExportFacts) -> Any:
    def detect(pictures: Sequence[Image]) -> object:
        levels = np.concatenate([network_input(one, facts) for one in pictures])
        return session.predict(filled(prepared(levels, facts), facts.batch or len(pictures)))

    return detect


def best_range(values: Array, low: float, high: float) -> tuple[float, float]:
    """Both ends shrunk, as long as finer steps gain more than what is cut off costs. It holds 0, as padding needs."""
    low, high = min(low, 0.0), max(high, 1e-6)
    best, least = (low, high), np.inf
    for shorter in _SHRINKS if low < -high / 10 else (1.0,):  # such as SiLU's, whose lower end is at -0.28
        for less in _SHRINKS:
            start, end = low * shorter, high * less
            error = float(np.square(as_rounded(values, start, end) - values).mean())
            if error < least:
                best, least = (start, end), error
    return best


def harm_of(ours: Array, theirs: Array) -> float:
    """How far the best predictions `[N, 5 + nc]` of the network move, and their scores, by weight of the score."""
    score = ours[:, 4] * ours[:, 5:].max(1)
    rows = np.argsort(-score)[:_LOOKED_AT]
    one, other = (torch.from_numpy(_corners(table[rows, :4])) for table in (ours, theirs))
    overlap = iou(one, other).numpy()
    moved = np.nan_to_num(1 - overlap, nan=1.0)
    scored = np.abs(ours[rows, 4:5] * ours[rows, 5:] - theirs[rows, 4:5] * theirs[rows, 5:]).max(1)
    return float((score[rows] * moved + scored).sum())


def _corners(boxes: Array) -> Array:
    found: Array = np.concatenate((boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2), axis=1)
    return found


def missed_words(found: Int8) -> str:
    """One line for the console; empty if all targets are met."""
    missed = found.missed()
    if not missed:
        return ""
    tried = counted(len(found.tried), "plan")
    return f"warning: int8: {'; '.join(missed)}. This is the best of {tried} that were tried on this processor."
