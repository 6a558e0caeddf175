"""A motion model asked for the next boxes, once a frame, for all tracks at once.

On a GPU a network this small takes as long as its hundred kernels take to be launched. So it is captured as a CUDA
graph for 16, 32, 64 … histories, and those that are missing are padding. On a CPU `inference` does the same by fewer
operations. A weight file is read once, however many trackers use it.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yolofast.motion.inference import CpuTrackSSM
from yolofast.motion.trackssm import ROWS, TrackSSM, TrackSSMShape, in_octaves
from yolofast.motion.weights import read_motion
from yolofast.precision import device_of

Rows = npt.NDArray[np.float32]
_FEWEST = 16
_WARM_UP_RUNS = 3


class MotionPredictor:
    """Has no state: trackers share it, and copies of a tracker do too."""

    def __init__(self, model: TrackSSM, device: torch.device) -> None:
        self.shape: TrackSSMShape = model.shape
        self._device = device
        self._on_cpu = CpuTrackSSM(model) if device.type == "cpu" else None
        self._model = model.to(device).eval()
        self._graphs: dict[int, _Captured] = {}

    def __deepcopy__(self, _: dict[int, Any]) -> "MotionPredictor":
        return self

    def __call__(self, rows_BTF: Rows) -> Rows:
        """[B, T, 8 or 10] -> [B, 4] centre and size, normalised."""
        given = torch.from_numpy(np.ascontiguousarray(rows_BTF, np.float32))
        if not len(given):
            return np.zeros((0, 4), np.float32)
        if self._on_cpu is not None:
            return self._on_cpu(given).numpy()
        places = max(_FEWEST, 1 << (len(given) - 1).bit_length())
        if places not in self._graphs:
            with torch.cuda.device(self._device):
                self._graphs[places] = _Captured(self._model, places, self._device)
        return self._graphs[places](given)

    @staticmethod
    def in_octaves(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Intervals as columns of a row."""
        found: npt.NDArray[np.float64] = in_octaves(torch.from_numpy(seconds)).numpy()
        return found


class _Captured:
    """For one number of histories. Both ways over pinned memory, which the graph reads and writes itself."""

    def __init__(self, model: TrackSSM, places: int, device: torch.device) -> None:
        self._given = torch.zeros(places, ROWS, model.shape.columns).pin_memory()
        self._found = torch.zeros(places, 4).pin_memory()

        @torch.no_grad()
        def work() -> None:
            rows: Tensor = self._given.to(device, non_blocking=True)
            self._found.copy_(model(rows)[-1], non_blocking=True)

        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_RUNS):
                work()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            work()

    def __call__(self, rows_BTF: Tensor) -> Rows:
        count = len(rows_BTF)
        self._given[:count] = rows_BTF
        self._graph.replay()
        torch.cuda.current_stream().synchronize()
        return self._found[:count].numpy().copy()


def predictor(path: str | Path, *, sigmoid: bool = True, device: str = "") -> MotionPredictor:
    """That of a weight file, on the first GPU if there is one."""
    path = Path(path)
    changed = path.stat().st_mtime_ns if path.is_file() else 0
    return _kept(str(path), changed, sigmoid, device)


@lru_cache(maxsize=8)
def _kept(path: str, _changed: int, sigmoid: bool, device: str) -> MotionPredictor:
    return MotionPredictor(read_motion(path, sigmoid), device_of(device, flag="motion_device="))
