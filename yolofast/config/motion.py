"""The settings of `motion train` and `motion val`: motion models learnt from tracks."""

from dataclasses import dataclass
from typing import Literal

from yolofast.config import section
from yolofast.config.settings import Settings
from yolofast.errors import UserError


@dataclass(frozen=True, kw_only=True)
class MotionTrainConfig(Settings):
    # fmt: off
    model: Literal["trackssm"] = section.model("trackssm", "--model", help="trackssm: the next box from the last five")
    weights: str = section.model("", "--weights", metavar="FILE", help="begin with these: a published file, or ours")
    blocks: int = section.model(6, "--blocks", least=1, most=64, help="of the encoder; 6 as published, 2 is smaller")
    sigmoid: bool = section.model(True, "--sigmoid", help="boxes stay inside the image; off in the weights for MOT17")
    true_time: bool = section.model(
        False, "--true-time", help="rows say how much time went by, and how much will: for uneven and low frame rates")
    true_padding: bool = section.model(
        False, "--true-padding", help="also learn from short histories, which begin with copies of their oldest box")

    data: str = section.data("", "--data", metavar="FILE", help="sequences.yaml, whose truth is learnt from")
    val: str = section.data(
        "", "--val", metavar="FILE", help="another to validate on; by default a tenth of the sequences of --data")
    batch_size: int = section.data(2048, "--batch-size", "--batch", least=1, most=1_000_000, help="samples of a step")

    jitter: float = section.augmentation(
        0.0, "--jitter", least=0, most=1, help="boxes of histories are as far off, as a share of their size")
    dropout: float = section.augmentation(
        0.0, "--dropout", least=0, most=0.9, help="share of the boxes of histories that a detector missed")
    time_scale: float = section.augmentation(
        1.0, "--time-scale", least=1, most=30, help="tracks run up to so many times as fast, or as slow")

    epochs: int = section.training(100, "--epochs", least=1, most=1_000_000, changes_on_resume=True, help="of training")
    patience: int = section.training(
        0, "--patience", least=0, changes_on_resume=True,
        help="stop after so many epochs without a better one; 0: never")
    lr: float = section.training(1e-4, "--lr", above=0, most=1, help="learning rate of Adam")
    lrf: float = section.training(0.05, "--lrf", above=0, most=1, help="share of it in the last epoch; 1: constant")
    seed: int = section.training(0, "--seed", least=0, most=2**31 - 1, help="of weights, order and augmentation")
    resume: bool | str = section.training(
        False, "--resume", bare=True, metavar="RUN", changes_on_resume=True,
        help="resume the latest run, or that of the given folder or last.pt, exactly where it stopped")
    faithful: bool = section.training(
        False, "--faithful",
        help="samples and rate as published: gaps in tracks are ignored, only pedestrians count, the rate is constant")

    giou: bool = section.loss(True, "--giou", help="overlap counts; off as published for MOT17 and DanceTrack")

    device: str = section.speed("", "--device", changes_on_resume=True, help="0, or cpu; empty: the first GPU")
    precision: Literal["auto", "tf32", "fp32"] = section.speed(
        "auto", "--precision", help="of products; auto: tf32 on GPUs, unless --faithful")

    val_samples: int = section.evaluation(
        2048, "--val-samples", least=1, most=10_000_000, help="histories that are followed after each epoch")

    project: str = section.output("runs/motion", "--project", metavar="FOLDER", help="folder of runs")
    name: str = section.output("exp", "--name", help="folder of the run below --project; numbered if it exists")
    exist_ok: bool = section.output(False, "--exist-ok", help="use the folder if it exists")
    save_period: int = section.output(
        -1, "--save-period", least=1, special=(-1,), help="keep the weights of every N-th epoch")
    plots: bool = section.output(True, "--plots", help="draw curves")
    # fmt: on

    def check_together(self) -> None:
        if not self.data and not self.resume:
            raise UserError("no --data is given", fix="give a sequences.yaml: docs/motion.md shows one")
        repaired = self.true_time or self.true_padding or self.jitter or self.dropout or self.time_scale > 1
        if self.faithful and repaired:
            raise UserError("--faithful goes with no repair and no augmentation", fix="omit one of them")


@dataclass(frozen=True, kw_only=True)
class MotionValConfig(Settings):
    # fmt: off
    weights: tuple[str, ...] = section.model(
        (), "--weights", metavar="FILE", counts=(0, 20),
        help="motion models to compare; none: only what needs no weights")
    sigmoid: bool = section.model(True, "--sigmoid", help="for published files, which do not say it: off for MOT17")
    data: str = section.data("", "--data", metavar="FILE", help="sequences.yaml, whose truth is to be predicted")
    horizons: tuple[int, ...] = section.evaluation(
        (1, 5, 15), "--horizons", metavar="N", commas=True, least=1, most=300, counts=(1, 50),
        help="frames ahead, such as 1,5,15")
    jitter: float = section.evaluation(
        0.0, "--jitter", least=0, most=1, help="seen boxes are as far off, as a share of their size")
    samples: int = section.evaluation(
        2048, "--samples", least=1, most=10_000_000, help="histories that are followed")
    seed: int = section.evaluation(0, "--seed", least=0, most=2**31 - 1, help="of the jitter")
    faithful: bool = section.evaluation(False, "--faithful", help="only boxes of class 1 count, as published")
    device: str = section.speed("", "--device", help="0, or cpu; empty: the first GPU")
    plot: str | None = section.output(
        None, "--plot", bare="motion.png", metavar="FILE", help="draw overlap over frames; without FILE motion.png")
    json: str | None = section.output(
        None, "--json", bare="-", metavar="FILE", help="write figures as JSON; without FILE to standard output")
    # fmt: on

    def check_together(self) -> None:
        if not self.data:
            raise UserError("no --data is given", fix="give a sequences.yaml: docs/motion.md shows one")
