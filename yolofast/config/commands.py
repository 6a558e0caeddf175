"""Every command of `yolofast`: its name, what `--help` says of it, the function that does it, and its settings.

A command is a line here, a class of settings, and a file in `commands/`. The file is named by text and imported when
the command runs: many need torch, which takes seconds, and `--help` does not.
"""

from dataclasses import dataclass

from yolofast.config.predict import PredictConfig
from yolofast.config.reports import CompareConfig, DiagnoseConfig, ProfileConfig, ReportConfig, WatchConfig
from yolofast.config.sequences import ConvertConfig, TrackvalConfig
from yolofast.config.settings import Settings
from yolofast.config.tools import (
    AnchorsConfig,
    CheckConfig,
    DatasetConfig,
    HeadsConfig,
    InfoConfig,
    PackConfig,
    PreviewConfig,
    ReparamConfig,
    StripConfig,
)
from yolofast.config.train import TrainConfig
from yolofast.config.val import ValConfig


@dataclass(frozen=True)
class Command:
    name: str
    help: str
    run: str
    """Module and function; it takes the namespace of argparse and returns the exit code, or None for 0."""
    settings: type[Settings]
    also: tuple[type[Settings], ...] = ()
    """Settings of another command that this one takes too."""


# fmt: off
COMMANDS = (
    Command("info", "what a network is made of and what it costs", "yolofast.commands.info:run", InfoConfig),
    Command("strip", "reduce a checkpoint to half-precision weights", "yolofast.commands.weight_files:strip",
            StripConfig),
    Command("reparam", "turn trained weights into their deploy form", "yolofast.commands.weight_files:reparam",
            ReparamConfig),
    Command("heads", "group the classes of a data set into heads (1B4H)", "yolofast.commands.fit_to_data:heads",
            HeadsConfig),
    Command("anchors", "check a model's anchors against a data set, and fit better ones",
            "yolofast.commands.fit_to_data:anchors", AnchorsConfig),
    Command("dataset", "write a built-in data set to try things with",
            "yolofast.commands.make_dataset:shapes", DatasetConfig),
    Command("pack", "decode and resize the images of a data set once, before training", "yolofast.commands.pack:run",
            PackConfig),
    Command("check", "what is in a data set, and everything that is wrong with it", "yolofast.commands.check:run",
            CheckConfig),
    Command("preview", "draw augmented images with their boxes", "yolofast.commands.preview:run",
            PreviewConfig),
    Command("train", "train a detector; without flags on the built-in data set", "yolofast.commands.train:run",
            TrainConfig),
    Command("val", "how good a trained detector is", "yolofast.commands.val:run", ValConfig),
    Command("predict", "find objects in images, videos and streams", "yolofast.commands.predict:run", PredictConfig),
    Command("trackval", "how good tracks are: HOTA, MOTA, IDF1, and why identities switched",
            "yolofast.commands.trackval:run", TrackvalConfig),
    Command("convert", "sequences from one format into another: MOTChallenge, COCO with videos, TAO",
            "yolofast.commands.convert:run", ConvertConfig),
    Command("diagnose", "why a loss oscillates, what to change, which epoch to ship", "yolofast.commands.diagnose:run",
            DiagnoseConfig),
    Command("profile", "where the time of a step goes, and what to change", "yolofast.commands.profile:run",
            ProfileConfig, also=(TrainConfig,)),
    Command("compare", "runs side by side: accuracy, time, cost, what differs", "yolofast.commands.compare:run",
            CompareConfig),
    Command("report", "make the report.html of a run again", "yolofast.commands.report:run", ReportConfig),
    Command("watch", "all runs in a browser, live while they train", "yolofast.commands.watch:run", WatchConfig),
)
# fmt: on
