"""`yolofast heads` and `yolofast anchors`: parts of a model fitted to the labels of a data set before training."""

import argparse
import dataclasses

import numpy as np
import numpy.typing as npt

from yolofast.commands.console import console, table
from yolofast.commands.data_argument import data_file
from yolofast.commands.load_model import load_model
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.image_index import ImageIndex
from yolofast.model.autoanchor import anchor_fit, autoanchor, boxes_at_image_size
from yolofast.model.grouping import LabelStatistics, geometry_grouping, hybrid_grouping
from yolofast.model.head_config import write_head_config


def heads(args: argparse.Namespace) -> None:
    index = read_split(data_file(args.data))
    statistics = LabelStatistics(
        image_index=index.image_of_box(),
        class_id=index.labels,
        box_wh_px=index.boxes[:, 2:] * _image_sizes(index),
        nc=len(index.names),
    )
    if args.grouping == "geometry":
        config = geometry_grouping(statistics, args.heads)
    else:
        config = hybrid_grouping(statistics, args.heads, balance=not args.no_balance)
    config = dataclasses.replace(config, full_head=args.full_head)
    write_head_config(config, args.out)
    boxes = np.bincount(index.labels, minlength=len(index.names))
    listing = table("head", ">classes", ">boxes", "first")
    for head in config.heads:
        first = ", ".join(index.names[c] for c in head.classes[:4])
        listing.add_row(head.name, str(len(head.classes)), f"{boxes[list(head.classes)].sum():,}", first)
    out = console()
    out.print(f"{args.out}: {config.grouping} grouping of {len(index.names)} classes\n")
    out.print(listing)


def anchors(args: argparse.Namespace) -> None:
    if len(args.img_size) != 1:
        raise UserError("anchors are fitted to one image size", fix="give one number after --img-size")
    model = load_model(args.cfg, args.weights, args.nc, args.head_config, transfer=True).model
    if not model.layout.has_anchors:
        raise UserError("YOLOX has no anchors", fix="there is nothing to fit: train it as it is")
    index = read_split(data_file(args.data))
    boxes = boxes_at_image_size(
        index.boxes[:, 2:], _image_sizes(index), args.img_size[0], np.random.default_rng(args.seed)
    )
    if not (boxes > 0).all(1).any():
        raise UserError(
            "no box has a size", where=args.data, fix="check the labels: yolofast needs boxes to fit anchors"
        )
    result = autoanchor(model.anchors_px.numpy(), boxes, args.anchor_t, seed=args.seed)
    out = console()
    out.print(
        f"{len(boxes):,} boxes at {args.img_size[0]} pixels; an anchor reaches a box within a factor of {args.anchor_t}"
    )
    out.print(f"this model's anchors reach {result.before.bpr:.2%} of them")
    rounded = result.anchors.round()
    reached = anchor_fit(boxes, rounded, args.anchor_t).bpr
    if not result.replaced or reached <= result.before.bpr:
        out.print("they are good enough, or nothing better was found: nothing to change")
        return
    out.print(f"better anchors reach {reached:.2%}; put them into the model file:\n\nanchors:")
    for level in rounded:
        out.print("  - [" + ",  ".join(f"{w:.0f},{h:.0f}" for w, h in level) + "]")


def _image_sizes(index: ImageIndex) -> npt.NDArray[np.int64]:
    """[L, 2] width and height of the image each box is in."""
    return index.sizes[index.image_of_box()]
