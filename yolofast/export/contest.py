"""What `benchmark` compares: weights run by torch, the files they are exported to, and files that exist."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from yolofast.config.predict import BenchmarkConfig
from yolofast.config.tools import ExportConfig
from yolofast.detect.detector import DetectionFilter, ImageDetector
from yolofast.errors import UserError
from yolofast.export.formats.contract import export_format
from yolofast.export.run import export
from yolofast.export.runtimes.contract import format_of, model_file, open_session
from yolofast.export.runtimes.detections import detect
from yolofast.export.timing import Detect
from yolofast.extensions import RUNTIMES
from yolofast.precision import device_of

Say = Callable[[str], None]
NATIVE = "pytorch"
_CHOSEN = DetectionFilter()
"""What exports have as defaults too."""


@dataclass(frozen=True)
class Opened:
    detect: Detect
    precision: str
    shape: tuple[int, int]


@dataclass(frozen=True)
class Contestant:
    name: str
    weights: str
    """The file that is run."""
    cfg: str = ""


def open_detector(weights: str, cfg: str, size: Sequence[int] | None, device: str) -> Opened:
    """A file runs as it is, with its own suppression; weights are run by torch."""
    if (form := format_of(weights)) is not None:
        session = open_session(weights, form, gpu=device_of(device).type == "cuda")
        return Opened(lambda pictures: detect(session, pictures), session.facts.precision, session.facts.shape)
    native = ImageDetector(weights, cfg=cfg or None, size=size, device=device)
    # Padded as a file of one size pads, or the network would see fewer pixels than the files.
    native.predictor.inputs = replace(native.predictor.inputs, whole=True)
    number_type = str(native.precision.dtype).removeprefix("torch.")
    short = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[number_type]
    return Opened(lambda pictures: native.detect(pictures, _CHOSEN), short, native.shape)


def bytes_of(weights: str) -> int:
    """Of a file, or of the folder it is a part of."""
    path, form = Path(weights), format_of(weights)
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not _is_companion(file))
    if form is not None and export_format(form).folder:  # its other files have its name
        file = model_file(path, form)
        return sum(one.stat().st_size for one in file.parent.glob(f"{file.stem}.*") if not _is_companion(one))
    return path.stat().st_size


def _is_companion(file: Path) -> bool:
    return file.suffix in (".md", ".txt")


def contestants(
    config: BenchmarkConfig, weights: Sequence[str], folder: Path, say: Say
) -> tuple[list[Contestant], dict[str, str]]:
    """Those that run here, and why others do not, by name. Exports are made in `folder`."""
    made, missing = [], {}
    several = len(weights) > 1
    for one in weights:
        label = f" of {Path(one).name}" if several else ""
        if (form := format_of(one)) is not None:
            made.append(Contestant(f"{form}: {Path(one).name}", one))
            continue
        for name in config.formats or (NATIVE, *RUNTIMES):
            if name == NATIVE:
                made.append(Contestant(f"{NATIVE}{label}", one, config.cfg))
                continue
            try:
                made.append(Contestant(f"{name}{label}", _exported(config, one, name, folder, say)))
            except UserError as error:
                if name in config.formats:
                    raise
                missing[f"{name}{label}"] = error.what
    return made, missing


def _exported(config: BenchmarkConfig, weights: str, name: str, folder: Path, say: Say) -> str:
    """One that takes any batch."""
    export_format(name).need()
    say(f"{name}: {Path(weights).name} is exported")
    wanted = ExportConfig(
        weights=(weights,), cfg=config.cfg, to=name, out=str(folder / f"{Path(weights).stem}_{name}"), check=False,
        dynamic="batch", img_size=config.img_size,
    )  # fmt: skip
    return str(export(wanted, weights, lambda text: None).path)


def checked_sizes(opened: Sequence[Opened]) -> tuple[int, int]:
    """All see images of one size, or times would not compare."""
    shapes = {one.shape for one in opened}
    if len(shapes) > 1:
        words = ", ".join(f"{height}×{width}" for height, width in sorted(shapes))
        raise UserError(f"the files take images of different sizes: {words}", fix="export them at one size")
    return next(iter(shapes))
