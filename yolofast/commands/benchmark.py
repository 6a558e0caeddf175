"""`yolofast benchmark`: which format is how fast, how large and how good on this machine."""

import argparse
import json
import shlex
import sys
from functools import partial

from yolofast.config.flags import from_args
from yolofast.config.predict import BenchmarkConfig
from yolofast.detect.networks import weights_of
from yolofast.export.benchmark import COLUMNS, benchmark, cells, page_of
from yolofast.files.atomic_file import write_output
from yolofast.files.known_numbers import without_nan
from yolofast.pages.html import render_page
from yolofast.pages.tables import cell_text
from yolofast.runs.folder import new_run_folder
from yolofast.terminal.console import console, table
from yolofast.train.record import environment
from yolofast.words import own_command


def run(args: argparse.Namespace) -> None:
    config, out = from_args(BenchmarkConfig, args), console()
    say = partial(out.print, soft_wrap=True)
    found = benchmark(config, weights_of(config.weights, say), environment(), say)
    listing = table(COLUMNS[0], COLUMNS[1], *(f">{name}" for name in COLUMNS[2:]))
    for row in found.rows:
        listing.add_row(*map(cell_text, cells(row)))
    out.print(listing)
    for name, why in found.missing.items():
        say(f"{name} is left out: {why}")
    folder = new_run_folder(config.project, config.name, config.exist_ok)
    command = shlex.join([own_command(), *sys.argv[1:]])
    written = json.dumps(without_nan({"command": command, **found.as_json()}), indent=2) + "\n"
    write_output(folder / "benchmark.json", written.encode())
    write_output(folder / "benchmark.html", render_page(page_of(found, command)).encode())
    say(f"results: {folder}")
