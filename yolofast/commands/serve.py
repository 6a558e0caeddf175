"""`yolofast serve`: a network as a small HTTP service."""

import argparse
import os
from functools import partial

from yolofast.config.flags import from_args
from yolofast.config.predict import ServeConfig
from yolofast.detect.networks import weights_of
from yolofast.extensions import needed
from yolofast.terminal.console import console


def run(args: argparse.Namespace) -> None:
    config, out = from_args(ServeConfig, args), console()
    for package in ("fastapi", "uvicorn"):
        needed(package, "serve", "serve")
    from yolofast.serve.run import serve  # imports them

    say = partial(out.print, soft_wrap=True, highlight=False)
    (weights,) = weights_of(config.weights, say)
    serve(config, weights, os.environ.get("YOLOFAST_TOKEN") or None, say)
