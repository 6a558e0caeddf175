"""`yolofast strip` and `yolofast reparam`: weight files made smaller, or turned from training into deploy form."""

import argparse
from pathlib import Path

from yolofast.checkpoint.save import model_content, save_checkpoint, strip_checkpoint
from yolofast.commands.load_model import load_model
from yolofast.model.deploy import reparameterise


def strip(args: argparse.Namespace) -> None:
    target = strip_checkpoint(args.weights, args.out)
    before, after = Path(args.weights).stat().st_size, target.stat().st_size
    size = f"{after / 1e6:.1f} MB" + (f", was {before / 1e6:.1f} MB" if args.out else "")
    print(f"{target}: {size}")


def reparam(args: argparse.Namespace) -> None:
    model, _ = load_model(args.cfg, args.weights, args.nc, None, transfer=False)
    deploy = reparameterise(model)
    save_checkpoint(args.out, model_content(deploy.half()))
    print(f"{args.out}: deploy form of {args.weights}, head at layer {len(deploy.model) - 1}")
