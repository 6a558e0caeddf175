"""`yolofast heads` and `yolofast anchors`: parts of a model fitted to the labels of a data set before training."""

import argparse
import dataclasses

import numpy as np
import numpy.typing as npt

from yolofast.config.flags import from_args
from yolofast.config.tools import AnchorsConfig, HeadsConfig
from yolofast.dataset.data_argument import data_file
from yolofast.dataset.split import read_split
from yolofast.detect.networks import load_model
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.model.autoanchor import anchor_fit, autoanchor, boxes_at_image_size
from yolofast.model.grouping import LabelStatistics, geometry_grouping, hybrid_grouping
from yolofast.model.head_config import write_head_config
from yolofast.terminal.console import console, table


def heads(args: argparse.Namespace) -> None:
    config = from_args(HeadsConfig, args)
    index = read_split(data_file(config.data))
    statistics = LabelStatistics(
        image_index=index.image_of_box(),
        class_id=index.labels,
        box_wh_px=index.boxes[:, 2:] * _image_sizes(index),
        nc=len(index.names),
    )
    if config.grouping == "geometry":
        grouped = geometry_grouping(statistics, config.heads)
    else:
        grouped = hybrid_grouping(statistics, config.heads, balance=not config.no_balance)
    grouped = dataclasses.replace(grouped, full_head=config.full_head)
    write_head_config(grouped, config.out)
    boxes = np.bincount(index.labels, minlength=len(index.names))
    listing = table("head", ">classes", ">boxes", "first")
    for head in grouped.heads:
        first = ", ".join(index.names[c] for c in head.classes[:4])
        listing.add_row(head.name, str(len(head.classes)), f"{boxes[list(head.classes)].sum():,}", first)
    out = console()
    out.print(f"{config.out}: {grouped.grouping} grouping of {len(index.names)} classes\n")
    out.print(listing)


def anchors(args: argparse.Namespace) -> None:
    config = from_args(AnchorsConfig, args)
    if len(config.img_size) != 1:
        raise UserError("anchors are fitted to one image size", fix="give one number after --img-size")
    model = load_model(config.cfg, config.weights, config.nc, config.head_config, transfer=True).model
    if not model.layout.has_anchors:
        raise UserError("YOLOX has no anchors", fix="there is nothing to fit: train it as it is")
    index = read_split(data_file(config.data))
    boxes = boxes_at_image_size(
        index.boxes[:, 2:], _image_sizes(index), config.img_size[0], np.random.default_rng(config.seed)
    )
    if not (boxes > 0).all(1).any():
        raise UserError("no box has a size", where=config.data, fix="check the labels: anchors are fitted to boxes")
    result = autoanchor(model.anchors_px.numpy(), boxes, config.anchor_t, seed=config.seed)
    out = console()
    reach = f"an anchor reaches a box within a factor of {config.anchor_t}"
    out.print(f"{len(boxes):,} boxes at {config.img_size[0]} pixels; {reach}")
    out.print(f"this model's anchors reach {result.before.bpr:.2%} of them")
    rounded = result.anchors.round()
    reached = anchor_fit(boxes, rounded, config.anchor_t).bpr
    if not result.replaced or reached <= result.before.bpr:
        out.print("they are good enough, or nothing better was found: nothing to change")
        return
    out.print(f"better anchors reach {reached:.2%}; put them into the model file:\n\nanchors:")
    for level in rounded:
        out.print("  - [" + ",  ".join(f"{w:.0f},{h:.0f}" for w, h in level) + "]")


def _image_sizes(index: ImageIndex) -> npt.NDArray[np.int64]:
    """[L, 2] width and height of the image each box is in."""
    return index.sizes[index.image_of_box()]
