"""`yolofast export`: a network as a file for other runtimes, compared with the network before it is kept."""

import argparse
from functools import partial

from yolofast.config.flags import from_args
from yolofast.config.tools import ExportConfig
from yolofast.detect.networks import weights_of
from yolofast.export.folder import input_words, output_words
from yolofast.export.formats.contract import export_format
from yolofast.export.run import export
from yolofast.extensions import RUNTIMES
from yolofast.terminal.console import console, table
from yolofast.words import amount


def run(args: argparse.Namespace) -> None:
    config, out = from_args(ExportConfig, args), console()
    say = partial(out.print, soft_wrap=True)
    (weights,) = weights_of(config.weights, say)
    exported = export(config, weights, say)
    facts = exported.facts
    if exported.int8 is not None:
        searched = table("int8", "found", "target")
        for row in exported.int8.rows():
            searched.add_row(*row)
        out.print(searched)
    if exported.comparison is None:
        why = "--no-check" if config.to in RUNTIMES else f"nothing here runs {export_format(config.to).title} files"
        say(f"not compared with the network: {why}")
    else:
        listing = table("against the network", "found", "allowed")
        for row in exported.comparison.rows():
            listing.add_row(*row)
        out.print(listing)
    say(f"input {input_words(facts)}".replace("`", ""))
    say(f"output {output_words(facts, export_format(config.to))}".replace("`", ""))
    opset = f", opset {facts.opset}" if facts.opset else ""
    say(f"{exported.path}: {amount(exported.size)}, {facts.precision}{opset}")
