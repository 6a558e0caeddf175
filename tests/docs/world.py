"""A folder in which the commands of the pages find the files that they name, each as small as it can be."""

import os
import shutil
import tarfile

import cv2

from tests.dataset.formats import samples
from tests.detect.seeing import picture, save_seeing, save_video
from tests.report.logs.logs import falling, results_txt
from tests.track.nuscenes.made_up import make_root
from yolofast import build_model
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.cli import main
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.dataset.shapes.outline import NAMES

RUNS = ("exp", "exp2", "base", "new", "base_s0", "base_s1", "new_s0", "new_s1")


def make_world(folder, trained):
    """`trained` is the folder of a finished run."""
    make_shapes(folder, n=12)  # data.yaml, images, labels
    (folder / "small.yaml").write_text("base: {data: data.yaml, cfg: mini}\ngrid: {lr0: [0.01, 0.02]}\n")
    make_shapes(folder / "shapes", n=12)
    with tarfile.open(folder / "shards.tar", "w") as tar:
        for name in ("data.yaml", "images", "labels"):
            tar.add(folder / "shapes" / name, name)
    for name in ("best.pt", "last.pt"):
        save_seeing(folder / name, names=NAMES, img_size=64)
    save_checkpoint(folder / "yolov7-tiny.pt", model_content(build_model("yolov7-tiny")))
    nano = build_model("yolox-nano", nc=len(NAMES))
    nano.names = tuple(NAMES)
    save_checkpoint(folder / "yolox_nano.pth", model_content(nano))
    for name in RUNS:
        shutil.copytree(trained, folder / "runs" / "train" / name, copy_function=linked)
    (folder / "path" / "to").mkdir(parents=True)
    losses = falling(20)
    (folder / "path" / "to" / "results.txt").write_text(results_txt(losses, losses, losses))
    for name in ("VOC", "VOCdevkit/VOC2007"):
        samples.voc(folder / name)
    _pictures(folder)
    _sequences(folder)
    _foreign(folder)
    make_root(folder / "nuscenes_tables", drawn=True)
    (folder / "my_hyp.yaml").write_text("mosaic: 0.5\n")
    (folder / "my_recipe.yaml").write_text("model: yolox-nano\nepochs: 60\nno_aug_epochs: 10\n")
    (folder / "mine.yaml").write_text("plan:\n- {until: 50%, train: [head]}\n- {train: [head, neck]}\n")
    return folder


def linked(source, target):
    """Large files are never changed in place: commands write beside and rename."""
    large = str(source).endswith((".pt", ".pth", ".jpg", ".mp4"))
    return os.link(source, target) if large else shutil.copy(source, target)


def _pictures(folder):
    (folder / "pictures").mkdir()
    for place in ("street.jpg", "pictures/one.jpg"):
        cv2.imwrite(str(folder / place), picture(0))
    for name in ("street", "traffic", "left", "right"):
        save_video(folder / f"{name}.mp4", frames=6)


def _sequences(folder):
    """Moving shapes under the names of what people have, and tracks as good as the truth."""
    for name, more in (("moving", ("--video",)), ("MOT17/train", ()), ("others", ("--seed", "1"))):
        flags = ["--frames", "16", "--sequences", "2", "--objects", "3", *more]
        assert main(["dataset", "shapes-video", "--out", str(folder / name), *flags]) == 0
    for name in ("tracks", "detections"):
        (folder / name).mkdir()
    for sequence in sorted((folder / "MOT17" / "train").glob("SHAPES-*")):
        rows = [line.split(",") for line in (sequence / "gt" / "gt.txt").read_text().splitlines()]
        (folder / "tracks" / f"{sequence.name}.txt").write_text(
            "".join(",".join([*row[:6], "0.9", "-1", "-1", "-1"]) + "\n" for row in rows)
        )
        (folder / "detections" / sequence.name / "det").mkdir(parents=True)
        shutil.copy(sequence / "seqinfo.ini", folder / "detections" / sequence.name)
        (folder / "detections" / sequence.name / "det" / "det.txt").write_text(
            "".join(",".join([row[0], "-1", *row[2:6], "0.9"]) + "\n" for row in rows)
        )


def _foreign(folder):
    """Labelled images of other forms."""
    samples.voc(folder / "BCCD")
    samples.cvat(folder / "task")
    samples.labelme(folder / "frames")
    samples.coco_files(folder / "coco")
    samples.kitti(folder / "kitti")
    rows = (f"{name} 0 0 0 1 1 20 20 1 1 1 1 1 1 1\n" for name in ("Car", "Van", "Truck", "Tram"))
    (folder / "kitti/training/label_2/a.txt").write_text("".join(rows))
    shutil.make_archive(str(folder / "export"), "zip", folder / "BCCD")
