"""Detection as one CUDA graph: bytes of pictures in, boxes in their pixels out, and nothing on the host between.

Pictures of any sizes lie one after the other in one buffer; where each lies is data too. So one graph serves all
pictures of a batch that together fit into the buffer. Fitting, the folded network, decoding and suppression are
captured; shapes are fixed because the best 4,096 predictions enter suppression, however many there are. Two batches are
in flight: one is copied while the other is computed. Images are padded to the whole input, as exported files pad them.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yolofast.detect.fixed_candidates import detections_in_rows, fixed_candidates
from yolofast.detect.inference import InferenceNetwork
from yolofast.detect.letterbox import COPYING_THREADS, Pictures, letterbox
from yolofast.errors import UserError
from yolofast.evaluate.candidates import Candidates
from yolofast.evaluate.nms import Thresholds
from yolofast.export.formats.contract import DecodedNetwork
from yolofast.model.contract import Network
from yolofast.pixels import Image
from yolofast.precision import Precision
from yolofast.structures import Detections, InputConvention

MOST_AT_ONCE = 64
_BATCHES = (1, 2, 4, 8, 16, 32, MOST_AT_ONCE)
_LEAST_BYTES = 2**21
_IN_FLIGHT = 2
_KEPT_GRAPHS = 8
_WARM_UP_RUNS = 3


class _Slot:
    """A captured graph with the memory it reads and writes, and its stream."""

    def __init__(self, owner: "CapturedDetector", images: int, capacity: int, chosen: Thresholds) -> None:
        device = owner.device
        self._host, self._pictures = (Pictures.room_for(images, capacity, one) for one in (None, device))
        self._owner = owner
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._graph: Any = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.device(device), torch.cuda.stream(self._stream):
            for _ in range(_WARM_UP_RUNS):  # kernels are compiled, and cuDNN measures which of its own are the fastest
                owner.work(self._pictures, chosen)
            self._stream.synchronize()
            with torch.cuda.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"):
                self._rows = owner.work(self._pictures, chosen)
            self._out = torch.zeros(self._rows.shape, pin_memory=True)
        self._done: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def begin(self, images: Sequence[Image]) -> None:
        """Waits for nothing but the copy of the pictures to pinned memory."""
        used = self._host.put(images, self._owner.shape, self._owner.inputs, self._owner.threads)
        with torch.cuda.device(self._owner.device), torch.cuda.stream(self._stream):
            self._pictures.copy_from(self._host, used)
            self._graph.replay()
            self._out.copy_(self._rows, non_blocking=True)
            self._done.record(self._stream)

    def result(self, count: int) -> list[Detections]:
        self._done.synchronize()
        return split(self._out.numpy()[:count])


def split(table: Any) -> list[Detections]:
    counts = (table[..., 4] > 0).sum(1).tolist()
    copied = table.copy()
    return [
        Detections(rows[:n, :4], rows[:n, 4], rows[:n, 5].astype(np.int64))
        for rows, n in zip(copied, counts, strict=True)
    ]


class CapturedDetector:
    """`detect(pictures, thresholds)`; graphs are captured when they are first needed, and the last few are kept."""

    def __init__(self, model: Network, shape: tuple[int, int], precision: Precision) -> None:
        if precision.device.type != "cuda":
            raise UserError("gear graph needs a CUDA GPU, but this runs on the CPU", fix='omit it, or device="0"')
        self._prepare(model, shape, precision)

    def _prepare(self, model: Network, shape: tuple[int, int], precision: Precision) -> None:
        stride = max(model.layout.strides)
        height, width = (-(-side // stride) * stride for side in shape)
        self.device, self.shape, self.dtype = precision.device, (height, width), precision.dtype
        self.inputs = InputConvention(
            rgb=model.inputs.rgb, divisor=model.inputs.divisor, top_left=model.inputs.top_left, whole=True,
            linear=model.inputs.linear, size=max(shape),
        )  # fmt: skip
        self._reader = DecodedNetwork(model).to(self.device)  # boxes are decoded in fp32 from anchors in fp32
        folded = self._reader.network.to(dtype=self.dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = InferenceNetwork(folded).eval()
        self._slots: OrderedDict[Any, list[_Slot]] = OrderedDict()
        self.threads = ThreadPoolExecutor(COPYING_THREADS, "yolofast-pinned")

    @torch.no_grad()
    def work(self, pictures: Pictures, chosen: Thresholds) -> Tensor:
        """What is captured."""
        images = letterbox(pictures, self.shape, self.inputs, self.dtype, self.network.channels)
        return detections_in_rows(self.candidates(self.raw_maps(images), chosen), pictures, chosen)

    def raw_maps(self, images: Tensor) -> Sequence[Tensor]:
        # `cudnn.flags` would set all that it is not told, too: TF32, which nobody asked for.
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        try:
            return self.network(images)  # type: ignore[no-any-return]
        finally:
            torch.backends.cudnn.benchmark = before

    def candidates(self, raw: Sequence[Tensor], chosen: Thresholds) -> Candidates:
        return fixed_candidates(raw, self._reader, chosen)

    def detect(self, images: Sequence[Image], chosen: Thresholds) -> list[Detections]:
        return [one for batch in self.stream(_parts(images), chosen) for one in batch]

    def stream(self, batches: Iterable[Sequence[Image]], chosen: Thresholds) -> Iterator[list[Detections]]:
        """Of each batch of at most 64; the next is copied and launched before a result is waited for."""
        begun: deque[tuple[_Slot, int]] = deque()
        for images in batches:
            if len(begun) == _IN_FLIGHT:
                slot, count = begun.popleft()
                yield slot.result(count)
            slot = self._free_slot(images, chosen, [one for one, _ in begun])
            slot.begin(images)
            begun.append((slot, len(images)))
        for slot, count in begun:
            yield slot.result(count)

    def _free_slot(self, images: Sequence[Image], chosen: Thresholds, busy: Sequence[_Slot]) -> _Slot:
        batch = next(one for one in _BATCHES if one >= len(images))
        needed = sum(image.size for image in images)
        capacity = max(_LEAST_BYTES * batch // 2, 1 << (needed - 1).bit_length())
        key = batch, capacity, str(chosen)
        slots = self._slots.setdefault(key, [])
        self._slots.move_to_end(key)
        while len(self._slots) > _KEPT_GRAPHS:
            self._slots.popitem(last=False)
        free = next((one for one in slots if one not in busy), None)
        if free is None:
            free = _Slot(self, batch, capacity, chosen)
            slots.append(free)
        return free


def _parts(images: Sequence[Image]) -> Iterator[Sequence[Image]]:
    return (images[start : start + MOST_AT_ONCE] for start in range(0, len(images), MOST_AT_ONCE))
