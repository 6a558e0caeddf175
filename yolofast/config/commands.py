"""Every command of `yolofast`: its name, what `--help` says of it, its settings, and the function that does it.

A command is a line here, a class of settings, and a file in `commands/`. The file is named by text and imported when
the command runs: many need torch, which takes seconds, and `--help` does not.
"""

from dataclasses import dataclass

from yolofast.config.motion import MotionTrainConfig, MotionValConfig
from yolofast.config.predict import BenchmarkConfig, PredictConfig, ServeConfig, ValConfig
from yolofast.config.reports import (
    CloudCostConfig,
    CloudPullConfig,
    CloudStopConfig,
    CloudUpConfig,
    CompareConfig,
    DiagnoseConfig,
    ProfileConfig,
    ReportConfig,
    SweepConfig,
    WatchConfig,
)
from yolofast.config.sequences import ConvertConfig, TracksweepConfig, TrackvalConfig
from yolofast.config.settings import Settings
from yolofast.config.tools import (
    AnchorsConfig,
    CacheConfig,
    CheckConfig,
    ExportConfig,
    HeadsConfig,
    ImportConfig,
    InfoConfig,
    PackConfig,
    PreviewConfig,
    ReparamConfig,
    ResizeConfig,
    ShapesConfig,
    ShapesVideoConfig,
    StripConfig,
    WeightsConfig,
)
from yolofast.config.track import TrackConfig
from yolofast.config.train import TrainConfig


@dataclass(frozen=True)
class Command:
    name: str
    help: str
    settings: type[Settings]
    code: str = ""
    """Module and function in `commands/`; by default `run` of the module with the command's name."""
    also: tuple[type[Settings], ...] = ()
    """Settings of another command that this one takes too."""
    script: str = ""
    """The published script with the same flags."""

    @property
    def run(self) -> str:
        """Module and function; it takes the namespace of argparse and returns the exit code, or None for 0."""
        return f"yolofast.commands.{self.code or f'{self.name}:run'}"


GROUPS = {
    "cloud": "a rented GPU in one command, by SkyPilot",
    "dataset": "data sets made or made smaller",
    "motion": "motion models that predict where tracked boxes will be",
}
"""What the first word of a command of two words stands for."""
COMMANDS = (
    Command("info", "what a network is made of and what it costs", InfoConfig),
    Command("weights", "download the weights that a network's authors have published", WeightsConfig),
    Command("strip", "reduce a checkpoint to half-precision weights", StripConfig, "weight_files:strip"),
    Command("reparam", "turn trained weights into their deploy form", ReparamConfig, "weight_files:reparam"),
    Command("heads", "group the classes of a data set into heads (1B4H)", HeadsConfig, "fit_to_data:heads"),
    Command(
        "anchors", "check a model's anchors against a data set, fit better ones", AnchorsConfig, "fit_to_data:anchors"
    ),
    Command("dataset shapes", "write the built-in images to try things with", ShapesConfig, "make_dataset:shapes"),
    Command("dataset shapes-video", "write videos of moving shapes", ShapesVideoConfig, "make_dataset:shapes_video"),
    Command("dataset resize", "write a data set with smaller images", ResizeConfig, "make_dataset:resize"),
    Command("import", "stream zip, tar, parquet or a set of the Hub into few files", ImportConfig, "import_data:run"),
    Command("pack", "decode and resize the images of a data set once, before training", PackConfig),
    Command("cache", "what is kept to be faster the next time, and removing it", CacheConfig),
    Command("check", "what is in a data set, and everything that is wrong with it", CheckConfig),
    Command("preview", "draw augmented images with their boxes", PreviewConfig),
    Command("train", "train a detector; without flags on the built-in data set", TrainConfig, script="train.py"),
    Command("val", "how good a trained detector is", ValConfig, script="test.py"),
    Command("predict", "find objects in images, videos and streams", PredictConfig, script="detect.py"),
    Command("export", "write a file that other runtimes run, proven equal", ExportConfig, script="export.py"),
    Command("benchmark", "how fast, large and good each exported format is on this machine", BenchmarkConfig),
    Command("serve", "an exported file or weights as a small HTTP service", ServeConfig),
    Command("track", "follow objects through videos and streams, or from stored detections", TrackConfig),
    Command("trackval", "how good tracks are: HOTA, MOTA, IDF1, and why identities switched", TrackvalConfig),
    Command("tracksweep", "which tracker settings, and which checkpoint, track best", TracksweepConfig),
    Command("motion train", "train a motion model for trackers, from tracks", MotionTrainConfig, "motion:train"),
    Command("motion val", "how far off predicted boxes are, also Kalman's", MotionValConfig, "motion:val"),
    Command(
        "convert",
        "labelled images of ten forms (VOC, CVAT, LabelMe, …) into YOLO or COCO; sequences; nuScenes",
        ConvertConfig,
    ),
    Command("diagnose", "why a loss oscillates, what to change, which epoch to ship", DiagnoseConfig),
    Command("profile", "where the time of a step goes, and what to change", ProfileConfig, also=(TrainConfig,)),
    Command("compare", "runs side by side: accuracy, time, cost, what differs", CompareConfig),
    Command("sweep", "many runs from one file, the better ones continued, and what they say together", SweepConfig),
    Command("cloud up", "rent a GPU and train there", CloudUpConfig, "cloud:up", also=(TrainConfig,)),
    Command("cloud pull", "copy a run or sweep from there", CloudPullConfig, "cloud:pull"),
    Command("cloud stop", "copy it, and give the machine back", CloudStopConfig, "cloud:stop"),
    Command("cloud cost", "what machines have cost", CloudCostConfig, "cloud:cost"),
    Command("report", "make the report.html of a run again", ReportConfig),
    Command("watch", "all runs in a browser, live while they train", WatchConfig),
)

_OF_TRAINING = ("data", "weights", "cfg", "hyp", "recipe", "plan")
LOOKS_AT = {
    "train": _OF_TRAINING, "profile": _OF_TRAINING, "val": ("data", "weights", "cfg"), "heads": ("data",),
    "pack": ("data",), "preview": ("data",), "export": ("data", "weights", "cfg"),
    "benchmark": ("data", "weights", "cfg"), "serve": ("weights", "cfg"),
}  # fmt: skip
"""Of commands that need torch, the settings that name files: they are looked for before it is imported."""
