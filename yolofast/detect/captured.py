"""Detection as one CUDA graph: bytes of pictures in, boxes in their pixels out, and nothing on the host between.

Pictures of any sizes lie one after the other in one buffer; where each lies is data too. So one graph serves all
pictures of a batch that together fit into the buffer. Fitting, the folded network, decoding and suppression are
captured; shapes are fixed because the best 4,096 predictions enter suppression, however many there are. Two batches are
in flight: one is copied while the other is computed. Images are padded to the whole input, as exported files pad them.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yolofast.augment.plan import FILL
from yolofast.boxes import cxcywh_to_xyxy
from yolofast.decoding import decode
from yolofast.errors import UserError
from yolofast.evaluate.candidates import Candidates, best_of, class_scores
from yolofast.evaluate.greedy import greedy_suppression
from yolofast.evaluate.nms import Thresholds
from yolofast.export.formats.contract import DecodedNetwork
from yolofast.media.pictures import placement
from yolofast.model.contract import Network
from yolofast.pixels import Image
from yolofast.precision import Precision
from yolofast.structures import Detections, InputConvention

try:
    from yolofast.detect._letterbox_kernel import letterbox_kernel
except ImportError:  # Triton is not there on every platform
    letterbox_kernel = None

MOST_AT_ONCE = 64
_BATCHES = (1, 2, 4, 8, 16, 32, MOST_AT_ONCE)
_CANDIDATES = 4096
_LEAST_BYTES = 2**21
_IN_FLIGHT = 2
_KEPT_GRAPHS = 8
_WARM_UP_RUNS = 3
_BLOCK = 1024
_COPYING_THREADS = 8


@dataclass(frozen=True)
class Pictures:
    """Of a batch, as the device reads them."""

    levels: Tensor
    """uint8: all pictures one after the other."""
    starts: Tensor
    """`[B]` int64: where each begins."""
    sizes: Tensor
    """`[B, 6]` int32: its width and height, those it has in the input, and where it lies there: left, top."""
    scales: Tensor
    """`[B, 2]` float32: pixels of the picture per pixel of the input, x and y."""

    @staticmethod
    def room_for(images: int, capacity: int, device: torch.device | None) -> "Pictures":
        """On the host (None) in pinned memory if there is a GPU."""
        options: dict[str, Any] = {"device": device} if device else {"pin_memory": torch.cuda.is_available()}
        return Pictures(
            torch.zeros(capacity, dtype=torch.uint8, **options),
            torch.zeros(images, dtype=torch.int64, **options),
            torch.ones((images, 6), dtype=torch.int32, **options),
            torch.ones((images, 2), dtype=torch.float32, **options),
        )

    def put(
        self, images: Sequence[Image], shape: tuple[int, int], inputs: InputConvention, threads: ThreadPoolExecutor
    ) -> int:
        """The bytes that are used. Places without an image show the first one again."""
        flat, start = self.levels.numpy(), 0
        copies, starts, sizes, scales = [], [], [], []
        for image in images:
            height, width = image.shape[:2]
            lies = placement(width, height, shape, 1, inputs)
            copies.append((flat[start : start + image.size].reshape(image.shape), image))
            starts.append(start)
            sizes.append((width, height, *lies.size, *lies.pad))
            scales.append((width / lies.size[0], height / lies.size[1]))
            start += image.size
        for own, values in ((self.starts, starts), (self.sizes, sizes), (self.scales, scales)):
            own.numpy()[: len(images)] = values
            own.numpy()[len(images) :] = values[0]
        if len(copies) == 1:
            np.copyto(*copies[0])
        else:
            list(threads.map(lambda pair: np.copyto(*pair), copies))
        return start

    def copy_from(self, host: "Pictures", used: int) -> None:
        self.levels[:used].copy_(host.levels[:used], non_blocking=True)
        for own, other in ((self.starts, host.starts), (self.sizes, host.sizes), (self.scales, host.scales)):
            own.copy_(other, non_blocking=True)


def letterbox(pictures: Pictures, shape: tuple[int, int], inputs: InputConvention, dtype: torch.dtype) -> Tensor:
    """`[B, 3, H, W]` in the network's range. Resized linearly and rounded, as `fit` does but for one level of 255."""
    (height, width), device = shape, pictures.levels.device
    out = torch.empty((len(pictures.starts), height, width, 3), dtype=dtype, device=device)
    if device.type == "cuda" and letterbox_kernel is not None:
        letterbox_kernel[(len(pictures.starts), -(-height * width // _BLOCK))](
            pictures.levels, pictures.starts, pictures.sizes, pictures.scales, out, height, width, float(FILL),
            inputs.divisor, SWAP=inputs.rgb, BLOCK=_BLOCK,
        )  # fmt: skip
        return out.permute(0, 3, 1, 2)
    wide, high, used_w, used_h, left, top = (pictures.sizes[:, column, None].long() for column in range(6))
    x, y = torch.arange(width, device=device)[None] - left, torch.arange(height, device=device)[None] - top
    x0, x1, share_x = _neighbours(x, pictures.scales[:, :1], wide)
    y0, y1, share_y = _neighbours(y, pictures.scales[:, 1:], high)
    colours = torch.tensor((2, 1, 0) if inputs.rgb else (0, 1, 2), device=device)

    def levels(rows: Tensor, columns: Tensor) -> Tensor:
        place = (rows[:, :, None] * wide[:, None] + columns[:, None]) * 3 + pictures.starts[:, None, None]
        return pictures.levels[place[..., None] + colours].float()

    share_x, share_y = share_x[:, None, :, None], share_y[:, :, None, None]
    above = levels(y0, x0) + (levels(y0, x1) - levels(y0, x0)) * share_x
    below = levels(y1, x0) + (levels(y1, x1) - levels(y1, x0)) * share_x
    found = (above + (below - above) * share_y + 0.5).floor()
    shown = ((y >= 0) & (y < used_h))[:, :, None, None] & ((x >= 0) & (x < used_w))[:, None, :, None]
    out.copy_(torch.where(shown, found, float(FILL)) / inputs.divisor)
    return out.permute(0, 3, 1, 2)


def _neighbours(place: Tensor, scale: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The two pixels between which it lies, and the share of the second."""
    at = ((place + 0.5) * scale - 0.5).clamp(min=0.0).minimum(size - 1.0)
    first = at.floor().long()
    return first, (first + 1).minimum(size - 1), at - first


def fixed_detections(predictions: Tensor, pictures: Pictures, chosen: Thresholds) -> Tensor:
    """`[B, most, 6]`: x1, y1, x2, y2 in pixels of the pictures, score, class; rows of zeros are none. Never waits."""
    exists_BN = (predictions[..., 4] > chosen.conf) & predictions[..., :4].isfinite().all(-1)
    scores_BN, labels_BN = class_scores(predictions, exists_BN).max(dim=2)
    counts_BN = scores_BN > chosen.conf
    if chosen.classes is not None:
        # Compared one by one: a list of them would have to be copied to the device, which a captured graph cannot.
        wanted_BN = torch.zeros_like(counts_BN)
        for one in chosen.classes:
            wanted_BN |= labels_BN == one
        counts_BN &= wanted_BN
    key_BK, row_BK = best_of(scores_BN, counts_BN, min(_CANDIDATES, scores_BN.shape[1]))
    boxes_BK4 = cxcywh_to_xyxy(predictions[..., :4].gather(1, row_BK[..., None].expand(-1, -1, 4)))
    scores_BK, labels_BK = scores_BN.gather(1, row_BK), labels_BN.gather(1, row_BK)
    candidates = Candidates(boxes_BK4, scores_BK, labels_BK, (key_BK > 0).sum(1))
    kept_BS, count_B = greedy_suppression(candidates, chosen.iou, agnostic=chosen.agnostic, most=chosen.max_detections)
    used_BS = torch.arange(chosen.max_detections, device=kept_BS.device) < count_B[:, None]
    boxes_BS4 = boxes_BK4.gather(1, kept_BS[..., None].expand(-1, -1, 4))
    pads_B4 = pictures.sizes[:, 4:].repeat(1, 2)[:, None]
    scales_B4, own_B4 = pictures.scales.repeat(1, 2)[:, None], pictures.sizes[:, :2].repeat(1, 2)[:, None]
    boxes_BS4 = ((boxes_BS4 - pads_B4) * scales_B4).clamp(min=0).minimum(own_B4)
    scores_BS, labels_BS = scores_BK.gather(1, kept_BS), labels_BK.gather(1, kept_BS)
    rows = torch.cat((boxes_BS4, scores_BS[..., None], labels_BS[..., None].float()), dim=-1)
    return torch.where(used_BS[..., None], rows, 0.0)


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
        self._network = DecodedNetwork(model).to(self.device)  # boxes are decoded in fp32 from anchors in fp32
        self._network.network.to(dtype=self.dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._slots: OrderedDict[Any, list[_Slot]] = OrderedDict()
        self.threads = ThreadPoolExecutor(_COPYING_THREADS, "yolofast-pinned")

    @torch.no_grad()
    def work(self, pictures: Pictures, chosen: Thresholds) -> Tensor:
        """What is captured."""
        images = letterbox(pictures, self.shape, self.inputs, self.dtype)
        return fixed_detections(self.predictions(images), pictures, chosen)

    def predictions(self, images: Tensor) -> Tensor:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            raw = self._network.network(images)
        layout = self._network.layout
        return decode(raw[: layout.levels * layout.heads], self._network)

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
