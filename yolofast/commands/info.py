"""`yolofast info`: what a network is made of, what it costs, and what a weight file holds of it."""

import argparse
import dataclasses
import json
import sys
from typing import Any

from rich.console import Console

from yolofast.checkpoint.load import LoadReport
from yolofast.config.flags import from_args
from yolofast.config.tools import InfoConfig
from yolofast.detect.networks import in_strides, load_model
from yolofast.model.contract import Network
from yolofast.model.freeze import frozen_of
from yolofast.model.fuse import fuse
from yolofast.model.summary import LayerRow, Summary, summarise
from yolofast.terminal.console import console, table

_COLUMNS = ("module", "layers", ">parameters", ">share", "state", ">GFLOPs", "output")


def run(args: argparse.Namespace) -> None:
    config = from_args(InfoConfig, args)
    transfer, flag = config.transfer_weights, "pass --transfer-weights"
    loaded = load_model(config.cfg, config.weights, config.nc, config.head_config, transfer, or_else=flag)
    model, report = fuse(loaded.model) if config.fuse else loaded.model, loaded.report
    # Weights that are transferred to another network say nothing of the size that one is for.
    trained = None if config.cfg and config.transfer_weights else loaded.shape
    summary = summarise(model, _size(model, config.img_size, trained), frozen_of(model, config.freeze))
    name = str(config.cfg or config.weights)  # one of them, or there was nothing to load
    if config.json:
        print(json.dumps(_as_json(name, summary, report), indent=2))
        return
    out = console()
    if report is not None:
        _print_report(out, report, every=config.transfer_weights)
    _print_summary(out, name, summary, summary.layers if config.layers else summary.sections)


def _size(model: Network, given: tuple[int, ...] | None, trained: tuple[int, int] | None) -> tuple[int, int]:
    """Height and width, as `train` and `val` would use them. Warnings go to standard error, because of `--json`."""
    sides = given or trained or (model.inputs.size,)
    height, width = sides if len(sides) == 2 else (sides[0], sides[0])
    given_by = "--img" if given else "the network's image size"
    used = in_strides((height, width), max(model.layout.strides), lambda word: print(word, file=sys.stderr), given_by)
    return used[0], used[1]


def _print_summary(out: Console, name: str, summary: Summary, rows: tuple[LayerRow, ...]) -> None:
    height, width = summary.image_size
    out.print(f"{name}, {summary.nc} classes, {height}×{width}\n")
    listing = table(*(_COLUMNS if summary.numbered else _COLUMNS[:1] + _COLUMNS[2:]))
    for row in rows:
        numbers = str(row.first) if row.first == row.last else f"{row.first}-{row.last}"
        listing.add_row(
            row.name,
            *([numbers] if summary.numbered else []),
            f"{row.parameters:,}",
            f"{row.parameters / summary.parameters:.1%}",
            row.state,
            f"{row.gflops:.2f}",
            "×".join(map(str, row.output)),
        )
    out.print(listing, "")
    share = summary.trainable / summary.parameters
    out.print(f"parameters   {summary.parameters:,}")
    out.print("             " + ", ".join(f"{part} {count:,}" for part, count in summary.parts.items()))
    out.print(f"trainable    {summary.trainable:,} ({share:.1%}), frozen {summary.parameters - summary.trainable:,}")
    per_image = f"{summary.gflops:.2f} GFLOPs per image of {height}×{width} forward"
    out.print(f"compute      {per_image} (2 × multiply-adds of the convolutions)")
    mib = f"{summary.activation_bytes / 2**20:,.0f} MiB"
    out.print(f"activations  {mib} per image stored for backward in float32 (estimate;")
    out.print("             about half under autocast)")
    out.print(f"strides      {', '.join(map(str, summary.strides))}")
    for position, shape in enumerate(summary.outputs):
        out.print(("output       " if position == 0 else " " * 13) + "×".join(map(str, shape)))


def _print_report(out: Console, report: LoadReport, every: bool) -> None:
    out.print(str(report))
    listing = table("status", "tensor", "in file", "in model")
    for row in report.rows():
        if every or row[0] != "loaded":
            listing.add_row(*row)
    if listing.row_count:
        out.print(listing)
    out.print()


def _as_json(name: str, summary: Summary, report: LoadReport | None) -> dict[str, Any]:
    content: dict[str, Any] = {"model": name, **dataclasses.asdict(summary)}
    for key in ("sections", "layers"):
        content[key] = [
            {**dataclasses.asdict(row), "share": row.parameters / summary.parameters, "state": row.state}
            for row in getattr(summary, key)
        ]
    if report is not None:
        names = ("status", "tensor", "file_shape", "model_shape")
        content["weights"] = {
            "loaded": len(report.loaded),
            "total": report.total,
            "tensors": [dict(zip(names, row, strict=True)) for row in report.rows()],
        }
    return content
