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
from yolofast.export.check import ExportComparison, compare
from yolofast.export.folder import CHECK, write_companions
from yolofast.export.formats.contract import ExportFormat, export_format
from yolofast.export.formats.facts import ExportFacts
from yolofast.export.formats.onnx_based import OnnxBased
from yolofast.export.formats.onnx_graph import graph_of
from yolofast.export.int8 import Int8, LabelledSample, find_int8, missed_words
from yolofast.export.layers import first_difference
from yolofast.export.runtimes.contract import format_of, open_session
from yolofast.extensions import RUNTIMES
from yolofast.files.atomic_file import name_beside, remove_abandoned
from yolofast.image_index import ImageIndex
from yolofast.media.download import sum_of
from yolofast.media.pictures import read_picture
from yolofast.pixels import Image
from yolofast.words import counted

Say = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    path: Path
    """The file, or the folder."""
    facts: ExportFacts
    size: int
    """Bytes of the model."""
    comparison: ExportComparison | None
    """None without a check."""
    int8: Int8 | None


def export(config: ExportConfig, weights: str, say: Say) -> Exported:
    form = export_format(config.to)
    form.need()
    if format_of(weights) is not None:
        raise UserError("is an exported file already", where=weights, fix="name the weights it was made of: best.pt")
    in_folder, target = _target(config, weights, form)
    trained = read_trained(weights, config.cfg or None, config.head_config or None)
    facts = facts_for(config, trained, say)
    form.refuse(facts)
    judges = _images(config, facts, say) if config.check and config.to in RUNTIMES else None
    made = name_beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target.parent, target.name, folders=True)
        made.mkdir()
        model = made / (f"{Path(weights).stem}{form.suffix}" if in_folder else target.name)
        comparison, int8 = _written(config, form, facts, trained, model, judges, say)
        size = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
        runs = config.to in RUNTIMES
        write_companions(made, model, facts, form, comparison, int8, alone=not in_folder, runs=runs)
        _put(made, target, in_folder)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=target, fix="name another --out") from error
    except UserError as error:
        if error.where is None or not Path(error.where).is_relative_to(made):
            raise
        what = f"what was written does not run: {error.what}"  # it lies where nobody will find it
        raise UserError(what, where=target, fix=error.fix) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return Exported(target, facts, size, comparison, int8)


_Judges = tuple[list[Image], ImageIndex | None]


def _written(
    config: ExportConfig, form: ExportFormat, facts: ExportFacts, trained: TrainedModel, model: Path,
    judges: _Judges | None, say: Say,
) -> tuple[ExportComparison | None, Int8 | None]:  # fmt: skip
    """The model, as it was compared; of int8 the best plan that the val images do not find wanting."""

    def compared() -> ExportComparison | None:
        return None if judges is None else compare(trained, open_session(model, config.to), *judges)

    int8 = None
    if config.int8 and isinstance(form, OnnxBased):
        found = _int8(config, form, facts, trained, say)
        form.write_graph(found.build(found.best), facts, model)
        comparison = compared()
        while comparison is not None and (fault := comparison.fault()) and (safer := found.safer()) is not None:
            say(f"int8: {found.best.title}: {fault} on other images, so {safer.best.title} is tried")
            found = safer
            form.write_graph(found.build(found.best), facts, model)
            comparison = compared()
        int8 = found
        if warning := missed_words(found):
            say(warning)
    else:
        form.write(form.network(trained.model, facts), facts, model)
        comparison = compared()
    if judges is not None and comparison is not None and (fault := comparison.fault()):
        layer = first_difference(trained, open_session(model, config.to), config.to, judges[0][0])
        what = f"the {form.title} file is not the network: {fault}; {layer}"
        raise UserError(what, fix="report it as a defect; --no-check writes the file all the same")
    return comparison, int8


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
        if not (made / (check := f"{target.name}.{CHECK}")).exists():  # an earlier one is about another file
            target.with_name(check).unlink(missing_ok=True)
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
    model, form = trained.model, export_format(config.to)
    suppression: str = config.suppression
    if suppression == "onnx" and suppression not in form.suppressions:
        suppression = form.suppressions[0]
        say(f"{form.title} files have suppression {suppression}: apply it to what they give")
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
        precision="int8" if config.int8 else config.precision,
        opset=config.opset if form.of_onnx else 0,
        version=__version__,
        weights=trained.path.name,
        weights_sha256=sum_of(trained.path),
    )


def _images(config: ExportConfig, facts: ExportFacts, say: Say) -> tuple[list[Image], ImageIndex | None]:
    """Of the data set's val split, with their labels; without one, drawn shapes."""
    if not config.data:
        return [scene("val", number, 0).image for number in range(config.images)], None
    images, index = _spread(config.data, "val", config.images, say)
    if len(index.names) != len(facts.names):
        say(f"warning: {config.data} has {len(index.names)} classes, the network {len(facts.names)}: no AP")
        return images, None
    return images, index


def _spread(data: str, split: str, count: int, say: Say) -> tuple[list[Image], ImageIndex]:
    """Images of a split, evenly spread."""
    index = read_named_split(data_file(data, say), split, say, single_cls=False, fraction=1.0, skip_bad=True)
    if not len(index):
        raise UserError(f"the {split} split has no images", where=data, fix="name another data set, or omit --data")
    chosen = index.take(np.unique(np.linspace(0, len(index) - 1, min(count, len(index))).round().astype(np.int64)))
    return [read_picture(chosen.path(place)) for place in range(len(chosen))], chosen


def _int8(config: ExportConfig, form: OnnxBased, facts: ExportFacts, trained: TrainedModel, say: Say) -> Int8:
    images, index = _spread(config.data, "train", config.search_images, say)
    if len(index.names) != len(facts.names):
        what = f"{config.data} has {len(index.names)} classes, the network {len(facts.names)}, so AP cannot be measured"
        raise UserError(what, fix="name the data set that it was trained on")
    say(f"int8: looking for layers that keep AP, on {counted(len(images), 'train image')}")
    graph = graph_of(form.network(trained.model, replace(facts, precision="fp32")), facts)
    return find_int8(config.to, form, graph, facts, trained, LabelledSample(images, index))
