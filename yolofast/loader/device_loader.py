"""Batches made on the device: a thread plans, a side stream renders one batch ahead, the host is nearly idle.

Plans are made for several batches at once, because NumPy costs per call rather than per element, and travel in one
copy. Images are written into a few fixed buffers, used in turn, so that a captured CUDA graph can read them. A batch is
valid until the next one is requested; work queued with it by then on the current stream is waited for. Targets are
not in the buffers: they are valid as long as they are held, at new addresses all the time.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.augment import render_torch, render_triton
from yolofast.augment.plan import Plan
from yolofast.augment.planner import Planner
from yolofast.augment.render_table import HostTable, RenderTable, build_table
from yolofast.files.threads import read_ahead
from yolofast.image_index import Ints, starts_of
from yolofast.loader.device_pixels import DevicePixels, Fetched
from yolofast.loader.order import BatchForm, EpochOrder, OrderedBatch
from yolofast.profile.step_phases import AUGMENT, TO_DEVICE
from yolofast.structures import Batch, BatchMix, Targets, bucketed

_BATCHES_PER_PLAN = 8
_FETCHED_BYTES = 256 * 2**20
_IMAGES_PER_IMAGE = 4  # a mosaic shows so many, or a few more
_PLANS_AHEAD = 2


@dataclass(frozen=True)
class InputFormat:
    """What the network takes as input."""

    dtype: torch.dtype = torch.float32
    rgb: bool = True
    gain: float = 1 / 255
    """Levels are multiplied by this; YOLOX takes them as they are."""


@dataclass(frozen=True)
class _Chunk:
    """Several batches, planned: small tables on the host, pixels on their way."""

    table: HostTable
    targets: Targets
    fetched: Fetched
    batches: list[tuple[Ints, int, BatchMix]]
    """Images, how many padding slots they need (the chunk has those of its fullest batch), and mix of each."""
    shape: tuple[int, int]
    """Height and width."""


@dataclass(frozen=True)
class _Rendered:
    batch: Batch
    ready: Any
    """The event after which it is, on a GPU."""
    slot: int


class DeviceLoader:
    """`epoch(…)` yields the batches of an epoch."""

    def __init__(
        self, planner: Planner, pixels: DevicePixels, order: EpochOrder, device: torch.device | str,
        input_format: InputFormat | None = None, *, slots: int = 2, capacity: int | None = None,
        shapes: Ints | None = None, close_mosaic_from: int | None = None, strengths: Sequence[float] = (),
    ) -> None:  # fmt: skip
        """`slots` buffers hold images, all but one of them rendered ahead. `capacity` is the number of boxes an image
        may have, those beyond being left out; None finds it from the boxes. `shapes` `[batches, 2]` are the heights and
        widths of rectangular batches, which have no mosaics; nor has any epoch from `close_mosaic_from` on. `strengths`
        are those of augmentation, by epoch."""
        self.planner, self.pixels, self.order, self.device = planner, pixels, order, torch.device(device)
        self.format, self.capacity = input_format or InputFormat(), capacity
        self._form = BatchForm(planner.height, planner.width, shapes, close_mosaic_from, strengths)
        self.timed: Callable[[str], AbstractContextManager[None]] = lambda phase: nullcontext()
        """Around what is queued on the side stream, by the name of its phase."""
        self._on_gpu = self.device.type == "cuda"
        self._stream: Any = torch.cuda.Stream(self.device) if self._on_gpu else None  # type: ignore[no-untyped-call]
        self._batch = order.batch_size // order.world
        numbers = 3 * self._batch * self._form.most_pixels
        self._slots = [torch.empty(numbers, dtype=self.format.dtype, device=self.device) for _ in range(slots)]
        self._free: list[Any] = [torch.cuda.Event() for _ in range(slots if self._on_gpu else 0)]  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        """Batches of an epoch."""
        return len(self.order)

    def epoch(self, number: int, start_batch: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from `start_batch` on; each is valid until the next one is requested."""
        with closing(read_ahead(self._planned(number, start_batch), _PLANS_AHEAD, patience=None)) as chunks:
            yield from self._one_ahead(self._rendered(chunks))

    def _one_ahead(self, rendered: Iterator[_Rendered]) -> Iterator[Batch]:
        """Hand out a batch only when the one after it is being rendered, as far as there are slots for that.

        The first one goes at once: the GPU has nothing to do yet.
        """
        waiting: deque[_Rendered] = deque()
        for item in islice(rendered, 1):
            yield from self._hand_out(item)
        for item in rendered:
            waiting.append(item)
            if len(waiting) == len(self._slots):
                yield from self._hand_out(waiting.popleft())
        while waiting:
            yield from self._hand_out(waiting.popleft())

    def _hand_out(self, item: _Rendered) -> Iterator[Batch]:
        """The batch; when the next one is requested, what was done with this one has been started."""
        if self._stream is None:
            yield item.batch
            return
        current = torch.cuda.current_stream(self.device)
        current.wait_event(item.ready)
        for tensor in (item.batch.targets.boxes, item.batch.targets.labels, item.batch.targets.valid):
            tensor.record_stream(current)
        try:
            yield item.batch
        finally:
            self._free[item.slot].record(torch.cuda.current_stream(self.device))

    def _rendered(self, chunks: Iterator[_Chunk]) -> Iterator[_Rendered]:
        number = 0
        for chunk in chunks:
            with self._side_stream(), self.timed(TO_DEVICE):
                data = chunk.fetched.on_device()
                table, targets = chunk.table.to(self.device), chunk.targets.to(self.device, non_blocking=True)
            first = 0
            for images, places, mix in chunk.batches:
                which, slot = slice(first, first + len(images)), number % len(self._slots)
                out = _images_in(self._slots[slot], len(images), *chunk.shape)
                with self._side_stream():
                    part = _part(targets, which, places)
                    ready = self._render_when_free(slot, table.of_images(which), data, out)
                yield _Rendered(Batch(out, part, images, mix=mix), ready, slot)
                first, number = which.stop, number + 1

    def _side_stream(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self._stream) if self._stream is not None else nullcontext()

    def _render_when_free(self, slot: int, table: RenderTable, data: Tensor, out: Tensor) -> Any:
        """Returns the event that says it is done."""
        if self._stream is not None:
            self._stream.wait_event(self._free[slot])
        with self.timed(AUGMENT):
            self._render(table, data, out)
        return None if self._stream is None else self._stream.record_event()

    def _render(self, table: RenderTable, data: Tensor, out: Tensor) -> None:
        additive, style = self.planner.recipe.style == "yolox", self.format
        if render_triton.can_run(self.device):
            render_triton.render_table(table, data, out, additive=additive, rgb=style.rgb, gain=style.gain)
            return
        height, width = out.shape[2:]
        levels = render_torch.render_table(table, data, width, height, additive, rgb=style.rgb)
        out.copy_(levels if style.gain == 1 else levels.float() * style.gain)

    def _planned(self, epoch: int, start_batch: int) -> Generator[_Chunk]:
        at_once, most = 1, self._batches_at_once()  # few at first: training is waiting
        mosaic, strength = self._form.has_mosaics(epoch), self._form.strength(epoch)
        for shape, alike in groupby(self.order.batches(epoch, start_batch), self._form.shape):
            planner = self.planner.changed(*shape, mosaic, strength)
            while some := list(islice(alike, at_once)):
                yield self._plan(planner, epoch, some)
                at_once = min(2 * at_once, most)

    def _plan(self, planner: Planner, epoch: int, batches: Sequence[OrderedBatch]) -> _Chunk:
        images = np.concatenate([batch.images for batch in batches])
        planned = planner.plan(images, np.concatenate([batch.positions for batch in batches]), epoch)
        fetched, plan, sizes = self._fetch(planned.plan)
        table = build_table(plan, fetched.starts, sizes, pin=self._on_gpu)
        targets = padded_targets(planned.rows, len(images), self.capacity, pin=self._on_gpu)
        shape, ends = (planner.height, planner.width), np.cumsum([len(batch.images) for batch in batches]).tolist()
        parts = [slice(end - len(batch.images), end) for end, batch in zip(ends, batches, strict=True)]
        boxes = targets.valid.numpy().sum(axis=1)
        about = [(images[part], self.capacity or bucketed(int(boxes[part].max())), plan.mix(part)) for part in parts]
        return _Chunk(table, targets, fetched, about, shape)

    def _fetch(self, plan: Plan) -> tuple[Fetched, Plan, Ints]:
        """The pixels a plan needs, the plan in terms of what is fetched, and its sizes."""
        if self.pixels.resident:
            return self.pixels.fetch(np.arange(len(self.pixels.sizes))), plan, self.pixels.sizes
        sources = plan.sources()
        return self.pixels.fetch(sources), plan.renumbered(sources), self.pixels.sizes[sources]

    def _batches_at_once(self) -> int:
        """How many batches are planned together: as many as pay, and as few as their pixels need."""
        if self.pixels.resident:
            return _BATCHES_PER_PLAN
        image_bytes = 3 * self.pixels.sizes.prod(axis=1).mean()
        batch_bytes = image_bytes * _IMAGES_PER_IMAGE * self._batch
        return int(np.clip(_FETCHED_BYTES // batch_bytes, 1, _BATCHES_PER_PLAN))


def _part(targets: Targets, images: slice, places: int) -> Targets:
    """Boxes come first, so what is cut off is empty."""
    parts = (targets.boxes[images, :places], targets.labels[images, :places], targets.valid[images, :places])
    return Targets(*(part.contiguous() for part in parts))


def _images_in(slot: Tensor, count: int, height: int, width: int) -> Tensor:
    """The beginning of a buffer as `[count, 3, height, width]`, channels last."""
    return slot[: count * height * width * 3].view(count, height, width, 3).permute(0, 3, 1, 2)


def padded_targets(rows: npt.NDArray[np.float32], images: int, capacity: int | None, *, pin: bool) -> Targets:
    """As `Targets.from_rows`, for rows in the order of their images; `pin` for a fast copy to a GPU.

    In NumPy: torch would wake all its threads for arrays this small.
    """
    image = rows[:, 0].astype(np.int64)
    counts = np.bincount(image, minlength=images)
    if capacity is None:
        capacity = bucketed(int(counts.max(initial=0)))
    place = np.arange(len(rows)) - starts_of(counts)[image]
    room = place < capacity  # boxes beyond are left out
    image, place, rows = image[room], place[room], rows[room]
    boxes = torch.empty(images, capacity, 4, pin_memory=pin)
    labels = torch.empty(images, capacity, dtype=torch.int64, pin_memory=pin)
    valid = torch.empty(images, capacity, dtype=torch.bool, pin_memory=pin)
    for tensor, values in ((boxes, rows[:, 2:]), (labels, rows[:, 1]), (valid, True)):
        array = tensor.numpy()
        array[...] = 0
        array[image, place] = values
    return Targets(boxes, labels, valid)
