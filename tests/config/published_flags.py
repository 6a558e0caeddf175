"""The published command lines as plain argparse parsers, written down from their documentation: the reference."""

import argparse


def _parser(switches, values):
    parser = argparse.ArgumentParser()
    for flag in switches.split():
        parser.add_argument(flag, action="store_true")
    for flag, details in values.items():
        parser.add_argument(flag, **details)
    return parser


def text(default):
    return {"type": str, "default": default}


def whole(default):
    return {"type": int, "default": default}


def number(default):
    return {"type": float, "default": default}


def train():
    return _parser(
        "--rect --quad --multi-scale --image-weights --single-cls --cache-images --nosave --notest --noautoanchor"
        " --evolve --adam --sync-bn --linear-lr --exist-ok --v5-metric --upload_dataset",
        {
            "--weights": text("yolo7.pt"),
            "--cfg": text(""),
            "--data": text("data/coco.yaml"),
            "--hyp": text("data/hyp.scratch.p5.yaml"),
            "--epochs": whole(300),
            "--batch-size": whole(16),
            "--workers": whole(8),
            "--img-size": {"type": int, "nargs": "+", "default": [640, 640]},
            "--resume": {"nargs": "?", "const": True, "default": False},
            "--device": text(""),
            "--label-smoothing": number(0.0),
            "--project": text("runs/train"),
            "--name": text("exp"),
            "--freeze": {"type": int, "nargs": "+", "default": [0]},
            "--save_period": whole(-1),
            "--bbox_interval": whole(-1),
            "--entity": text(None),
            "--artifact_alias": text("latest"),
            "--bucket": text(""),
            "--local_rank": whole(-1),
        },
    )


def val():
    return _parser(
        "--single-cls --augment --verbose --save-txt --save-hybrid --save-conf --save-json --exist-ok --no-trace"
        " --v5-metric",
        {
            "--weights": {"type": str, "nargs": "+", "default": ["yolov7.pt"]},
            "--data": text("data/coco.yaml"),
            "--batch-size": whole(32),
            "--img-size": whole(640),
            "--conf-thres": number(0.001),
            "--iou-thres": number(0.65),
            "--task": text("val"),
            "--device": text(""),
            "--project": text("runs/test"),
            "--name": text("exp"),
        },
    )


def predict():
    return _parser(
        "--view-img --save-txt --save-conf --nosave --agnostic-nms --augment --update --exist-ok --no-trace",
        {
            "--weights": {"type": str, "nargs": "+", "default": ["yolov7.pt"]},
            "--source": text("inference/images"),
            "--img-size": whole(640),
            "--conf-thres": number(0.25),
            "--iou-thres": number(0.45),
            "--device": text(""),
            "--classes": {"type": int, "nargs": "+", "default": []},
            "--project": text("runs/detect"),
            "--name": text("exp"),
        },
    )
