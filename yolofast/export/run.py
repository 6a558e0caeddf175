"""`export`: weights to a file or folder that is kept only if it is proven equal."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yolofast._version import __version__
from yolofast.config.tools import ExportConfig
from yolofast.dataset.data_argument import data_file, read_named_split
from yolofast.dataset.shapes.files import scene
from yolofast.detect.networks import TrainedModel, in_strides, read_trained, shape_of
from yolofast.errors import UserError
from yolofast.export.check import Comparison, compare, first_difference
from yolofast.export.folder import write_companions
from yolofast.export.formats.contract import DecodedNetwork, ExportFormat, export_format, format_of
from yolofast.export.formats.facts import ExportFacts
from yolofast.files.atomic_file import name_beside, remove_abandoned
from yolofast.image_index import ImageIndex
from yolofast.media.download import sum_of
from yolofast.media.pictures import read_picture
from yolofast.pixels import Image

Say = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    path: Path
    """The file, or the folder."""
    facts: ExportFacts
    size: int
    """Bytes of the model."""
    comparison: Comparison | None
    """None without a check."""


def export(config: ExportConfig, weights: str, say: Say) -> Exported:
    form = export_format(config.to)
    form.need()
    if format_of(weights) is not None:
        raise UserError("is an exported file already", where=weights, fix="name the weights it was made of: best.pt")
    in_folder, target = _target(config, weights, form)
    trained = read_trained(weights, config.cfg or None, config.head_config or None)
    facts = facts_for(config, trained, say)
    images, index = _images(config, facts, say) if config.check else ([], None)
    made = name_beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target.parent, target.name, folders=True)
        made.mkdir()
        model = made / (f"{Path(weights).stem}{form.suffix}" if in_folder else target.name)
        form.write(DecodedNetwork(trained.model, half=facts.precision == "fp16"), facts, model)
        comparison = _proven(trained, form, model, images, index) if config.check else None
        size = sum(file.stat().st_size for file in made.iterdir())
        write_companions(made, model, facts, form, comparison, alone=not in_folder)
        _put(made, target, in_folder)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=target, fix="name another --out") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return Exported(target, facts, size, comparison)


def _target(config: ExportConfig, weights: str, form: ExportFormat) -> tuple[bool, Path]:
    """Whether it is a folder, and where it will be."""
    usual = Path(weights).with_suffix(form.suffix)
    if form.folder:
        usual = usual.with_name(f"{usual.stem}_{config.to}")
    target = usual if config.out is None else Path(config.out)
    in_folder = form.folder or target.suffix.lower() != form.suffix
    if in_folder and target.suffix and config.out is not None and not target.is_dir():
        what = f"--out {config.out} does not end in {form.suffix}"
        raise UserError(what, fix=f"a file NAME{form.suffix}, or a folder, without an ending")
    if target.exists():
        ours = target.is_dir() == in_folder and (
            not in_folder or format_of(target) == config.to or not any(target.iterdir())
        )
        if not ours:
            raise UserError("exists and is something else", where=target, fix="name another place with --out")
        if not config.force:
            raise UserError("exists", where=target, fix="--force replaces it; --out names another place")
    return in_folder, target


def _put(made: Path, target: Path, in_folder: bool) -> None:
    """All at once; what was there is replaced."""
    if not in_folder:
        for file in sorted(made.iterdir(), key=lambda one: one.name == target.name):  # the model last
            os.replace(file, target.with_name(file.name))
        return
    if target.exists():
        old = name_beside(target)
        target.rename(old)
        made.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        made.rename(target)


def facts_for(config: ExportConfig, trained: TrainedModel, say: Say) -> ExportFacts:
    model, suppression = trained.model, config.suppression
    stride = max(model.layout.strides)
    if config.img_size and len(config.img_size) == 2:
        wanted: tuple[int, ...] = config.img_size
    else:
        wanted = shape_of([trained], config.img_size)
    height, width = in_strides(wanted, stride, say, "--img" if config.img_size else "the network's image size")
    any_sides = config.dynamic == "all"
    inputs = replace(model.inputs, whole=model.inputs.whole or not any_sides, size=max(height, width))
    return ExportFacts(
        family=model.family,
        names=trained.names,
        strides=model.layout.strides,
        shape=(height, width),
        batch=config.batch_size if config.dynamic == "none" else 0,
        any_sides=any_sides,
        inputs=inputs,
        validation=model.validation,
        nms=suppression,
        agnostic=config.agnostic,
        conf=config.conf_thres,
        iou=config.iou_thres,
        max_det=config.max_det,
        threshold_inputs=config.threshold_inputs,
        end2end=config.end2end or suppression == "efficientnms",
        image_order="" if config.with_preprocessing == "none" else config.with_preprocessing,
        precision=config.precision,
        opset=config.opset,
        version=__version__,
        weights=trained.path.name,
        weights_sha256=sum_of(trained.path),
    )


def _images(config: ExportConfig, facts: ExportFacts, say: Say) -> tuple[list[Image], ImageIndex | None]:
    """Of the data set's val split, evenly spread, with their labels; without one, drawn shapes."""
    if not config.data:
        return [scene("val", number, 0).image for number in range(config.images)], None
    index = read_named_split(data_file(config.data, say), "val", say, single_cls=False, fraction=1.0, skip_bad=True)
    if not len(index):
        raise UserError("the val split has no images", where=config.data, fix="name another data set, or omit --data")
    places = np.unique(np.linspace(0, len(index) - 1, min(config.images, len(index))).round().astype(np.int64))
    chosen = index.take(places)
    images = [read_picture(chosen.path(place)) for place in range(len(chosen))]
    if len(index.names) != len(facts.names):
        say(f"warning: {config.data} has {len(index.names)} classes, the network {len(facts.names)}: no AP")
        return images, None
    return images, chosen


def _proven(
    trained: TrainedModel, form: ExportFormat, model: Path, images: list[Image], index: ImageIndex | None
) -> Comparison:
    session = form.open(model)
    comparison = compare(trained, session, images, index)
    if fault := comparison.fault():
        layer = first_difference(trained, session, images[0])
        where = f"; the first layer that differs is {layer}" if layer else "; no layer differs, but what follows them"
        what = f"the {form.title} file is not the network: {fault}{where}"
        raise UserError(what, fix="report it as a defect; --no-check writes the file all the same")
    return comparison
