"""`yolofast strip` and `yolofast reparam`: weight files made smaller, or turned from training into deploy form."""

import argparse
from pathlib import Path

from yolofast.checkpoint.read import read_weights
from yolofast.checkpoint.save import halved, model_content, save_checkpoint, strip_checkpoint
from yolofast.engine.networks import load_model
from yolofast.model.deploy import reparameterise


def strip(args: argparse.Namespace) -> None:
    source = Path(args.weights)
    before = source.stat().st_size if source.exists() else 0
    target = strip_checkpoint(source, args.out)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, was {before / 1e6:.1f} MB")


def reparam(args: argparse.Namespace) -> None:
    deploy = reparameterise(load_model(args.cfg, args.weights, args.nc, None, transfer=False).model)
    content = model_content(deploy, img_size=read_weights(args.weights).img_size)
    save_checkpoint(args.out, {**content, "model": halved(content["model"])})
    print(f"{args.out}: deploy form of {args.weights}, head at layer {len(deploy.layers) - 1}")
