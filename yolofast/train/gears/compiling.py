"""The way from images to losses, compiled; where kernels are kept from run to run; what torch makes of the step.

Network and loss are compiled apart. The network is most of the work and the same for every number of padding slots and
every loss; the loss is compiled for each in a fraction of the time. Kernels are kept under a key of the sources that
are compiled: those of the modules a step is made of, and of all they import. `USE_COMPILE=1` asks for the compiled
gear, `DIAGNOSE_COMPILE=1` for a report.
"""

import ast
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from yolofast.config.common import Gear
from yolofast.errors import UserError, shorten
from yolofast.files.atomic_file import user_cache_folder
from yolofast.model.network import build_model
from yolofast.profile.step_phases import FUSED
from yolofast.structures import Batch, LossTerms, Targets
from yolofast.train.losses.loss_schedule import ScheduledLoss
from yolofast.train.step import LossOf, TrainStep

PACKAGE = Path(__file__).parents[2]


def sources_of(modules: Iterable[str], package: Path = PACKAGE) -> list[Path]:
    """Found by reading, without importing anything; imports inside functions count. `package` may be a copy."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = None if module in found else _source(module, package)
        if path is not None:
            found[module] = path
            waiting += _imported(path)
    return sorted(found.values())


def _source(module: str, package: Path) -> Path | None:
    """None of what is a name in a module, of another package, or of rooms around. The package itself says nothing."""
    top, *names = module.split(".")
    if top != PACKAGE.name or not names or names[0] in AROUND:
        return None
    path = package.joinpath(*names)
    files = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _imported(path: Path) -> Iterator[str]:
    """Names that may be modules: `from a.b import c` may mean `a.b` or `a.b.c`, and tables say `a.b:c`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            yield node.value.partition(":")[0]


AROUND = ("commands", "config", "dataset", "export", "loader", "track")
"""Rooms that prepare what a step is given, or use what it has taught. Tables and settings name them; nothing of them is
compiled, so an edit there costs nobody their kernels."""
_SECONDS_KEPT = 30 * 24 * 3600
_KINDS_OF_BATCHES = 64
"""Numbers of places, losses and sets of layers that learn, in one run; torch gives up beyond."""
_FOLDER_SETTING = "TORCHINDUCTOR_CACHE_DIR"
"""Torch sets it itself, to a folder among temporary files, as soon as anything imports its compiler."""
_COMPILED = (TrainStep, build_model, ScheduledLoss)
"""What a compiled step is made of, with all that the modules of these import."""


def compiled_loss_of(step: TrainStep, backend: str | Callable[..., Any] = "inductor") -> LossOf:
    """Compiles at its first call and its first backward pass, or finds what an earlier run has compiled."""
    keep_compiled_kernels()
    torch._dynamo.config.recompile_limit = _KINDS_OF_BATCHES
    network = torch.compile(step.raw_maps, fullgraph=True, dynamic=False, backend=backend)
    loss = torch.compile(step.loss_from, fullgraph=True, dynamic=False, backend=backend)

    def loss_of(images: Tensor, targets: Targets) -> LossTerms:
        raw = network(images)
        if step.probe is not None:
            step.probe.mark(FUSED)
        return loss(raw, targets)

    return loss_of


def keep_compiled_kernels() -> None:
    """In the cache folder rather than among temporary files, and for losses that write their own gradient too."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir  # takes a second

    if os.environ.get(_FOLDER_SETTING) in (None, os.path.abspath(default_cache_dir())):
        os.environ[_FOLDER_SETTING] = str(kernel_folder())
        forget_unused(kernel_folder())
    import torch._functorch.config as tracing

    # What has changed since then is told apart by the folder: torch does not look into hand-written gradients.
    if hasattr(tracing, "autograd_cache_allow_custom_autograd_functions"):
        tracing.autograd_cache_allow_custom_autograd_functions = True  # type: ignore[attr-defined,unused-ignore]


def forget_unused(folder: Path) -> None:
    """Kernels of other sources, which nobody has used for a month: a network's take some 400 MB."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        for other in folder.parent.iterdir():
            if time.time() - other.stat().st_mtime > _SECONDS_KEPT:
                shutil.rmtree(other, ignore_errors=True)


@cache
def kernel_folder() -> Path:
    """A folder per state of the sources that are compiled."""
    return user_cache_folder() / "kernels" / key_of_sources()


def key_of_sources(package: Path = PACKAGE) -> str:
    """Another one after a change of anything that is compiled, the same after any other."""
    state = hashlib.sha256(torch.__version__.encode())
    for path in compiled_sources(package):
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def compiled_sources(package: Path = PACKAGE) -> list[Path]:
    return sources_of([part.__module__ for part in _COMPILED], package)


def compile_report(step: TrainStep, batch: Batch) -> str:
    torch._dynamo.reset()
    found: Any = torch._dynamo.explain(step.loss_of)(batch.images, batch.targets)
    torch._dynamo.reset()
    lines = [
        f"torch {torch.__version__}, {step.precision.device}, images {tuple(batch.images.shape)} {batch.images.dtype}",
        f"graphs: {found.graph_count}, breaks: {found.graph_break_count}, operations: {found.op_count}",
    ]
    lines += [_break(number, reason) for number, reason in enumerate(found.break_reasons, start=1)]
    if found.graph_count == 1 and not found.graph_break_count:
        lines.append("from images to losses in one graph: it can be compiled and captured whole")
    else:
        lines.append("it cannot be compiled whole: --gear compile and graph will fall back to the step as written")
    return "\n".join(lines)


def _break(number: int, reason: Any) -> str:
    frame = reason.user_stack[-1] if reason.user_stack else None
    where = f" at {frame.filename}:{frame.lineno} ({frame.line})" if frame is not None else ""
    return f"break {number}: {str(reason.reason).strip().splitlines()[0]}{where}"


_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class CompileRequest:
    gear: Gear
    diagnose: bool
    """Print the report and exit with code 0, instead of training."""


def compile_request(gear: Gear, environ: Mapping[str, str] | None = None) -> CompileRequest:
    """A gear named by a flag counts for more than the environment: it was typed later."""
    environ = os.environ if environ is None else environ
    compiled = _is_on("USE_COMPILE", environ)
    return CompileRequest("compile" if compiled and gear == "auto" else gear, _is_on("DIAGNOSE_COMPILE", environ))


def _is_on(name: str, environ: Mapping[str, str]) -> bool:
    value = environ.get(name, "").strip().lower()
    if value not in _ON + _OFF:
        raise UserError(f"the environment variable {name} is {shorten(environ[name])}", fix=f"set {name}=1 or {name}=0")
    return value in _ON
