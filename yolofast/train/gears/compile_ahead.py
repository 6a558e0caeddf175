"""Compiling in a process of its own, so that training can continue meanwhile.

The other process compiles the same thing for images of zeros and throws the result away. What stays are the kernels
in the cache folder, with which compiling in this process takes seconds instead of minutes. It needs the memory of a
second step for a moment; where that is not to be had, training stays as it is.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from yolofast.train.gears.compiling import PACKAGE, compiled_loss_of, keep_compiled_kernels
from yolofast.train.gears.gears import empty_targets, tuned_convolutions
from yolofast.train.step import TrainStep

_NICENESS = 3
_ORPHAN_CHECK_S = 1.0


def _products() -> str:
    """How CUDA multiplies matrices of float32: `none` where nobody has set it, which torch tells from the default."""
    return str(getattr(torch.backends.cuda.matmul, "fp32_precision", "none"))


def _set_products(name: str) -> None:
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"


_TORCH_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "deterministic": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "matmul": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "products": (_products, _set_products),
}
"""Those that decide what is compiled: with others, nothing of it would be found in the process that trains."""


class CompileAhead:
    """Begins at once; `finished` says when, `failure` whether and why not."""

    def __init__(self, step: TrainStep, images: Tensor, slots: Sequence[int]) -> None:
        """For batches of images like these, with these numbers of padding slots."""
        keep_compiled_kernels()
        self._folder = tempfile.TemporaryDirectory(prefix="yolofast-compile-", ignore_cleanup_errors=True)
        self._started, self.seconds = time.monotonic(), 0.0
        parcel = Path(self._folder.name) / "step.pt"
        parts = {"model": step.model, "criterion": step.criterion, "precision": step.precision}
        parts |= {"images": torch.empty_like(images, device="meta"), "slots": tuple(slots)}
        torch.save({**parts, "settings": {name: get() for name, (get, _) in _TORCH_SETTINGS.items()}}, parcel)
        self._errors = (Path(self._folder.name) / "errors").open("w+b")
        # The package is found there as it is here.
        path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(parcel)], env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors,
        )  # fmt: skip

    @property
    def finished(self) -> bool:
        if self._process.poll() is None:
            return False
        self.seconds = self.seconds or time.monotonic() - self._started
        return True

    @property
    def failure(self) -> str | None:
        """The last thing the process said, if it did not succeed."""
        if self._process.returncode == 0:
            return None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def close(self) -> None:
        """Ends it, whatever it has reached."""
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        self._errors.close()
        self._folder.cleanup()


def _end_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_ORPHAN_CHECK_S)
    os._exit(1)


def compile_parcel(path: Path) -> None:
    threading.Thread(target=_end_without, args=(os.getppid(),), daemon=True).start()
    with suppress(OSError):
        os.nice(_NICENESS)
    # Written by the process that waits for us, into a folder that only its user can read.
    parcel = torch.load(path, weights_only=False)
    path.unlink()  # as large as the network, and nobody would remove it if the run is killed
    for name, (get, set_) in _TORCH_SETTINGS.items():
        if parcel["settings"][name] != get():  # setting it to what it is anyway counts as another setting for torch
            set_(parcel["settings"][name])
    precision = parcel["precision"]
    nothing: Any = None
    step = TrainStep(parcel["model"], parcel["criterion"], nothing, nothing, precision)
    images, loss_of = torch.zeros_like(parcel["images"], device=precision.device), compiled_loss_of(step)
    for slots in parcel["slots"]:
        with tuned_convolutions(), step.batch_counters.counted_together():
            terms = loss_of(images, empty_targets(len(images), slots, precision.device))
            step.loss_scale.scaled(terms.total).backward()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    compile_parcel(Path(sys.argv[1]))
