"""`yolofast strip` and `yolofast reparam`: weight files made smaller, or turned from training into deploy form."""

import argparse
from pathlib import Path

from yolofast.checkpoint.read import read_weights
from yolofast.checkpoint.save import halved, model_content, save_checkpoint, strip_checkpoint
from yolofast.config.flags import from_args
from yolofast.config.tools import ReparamConfig, StripConfig
from yolofast.detect.networks import load_model
from yolofast.model.deploy import reparameterise


def strip(args: argparse.Namespace) -> None:
    config = from_args(StripConfig, args)
    source = Path(config.weights)
    before = source.stat().st_size if source.exists() else 0
    target = strip_checkpoint(source, config.out)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, was {before / 1e6:.1f} MB")


def reparam(args: argparse.Namespace) -> None:
    config = from_args(ReparamConfig, args)
    deploy = reparameterise(load_model(config.cfg, config.weights, config.nc, None, transfer=False).model)
    content = model_content(deploy, img_size=read_weights(config.weights).img_size)
    save_checkpoint(config.out, {**content, "model": halved(content["model"])})
    print(f"{config.out}: deploy form of {config.weights}, head at layer {len(deploy.layers) - 1}")
