"""The settings of the commands that explain runs, and of `profile`, which takes those of training too."""

from dataclasses import dataclass
from functools import partial

from yolofast.config import section
from yolofast.config.settings import REQUIRED, Settings, setting

_steps = partial(section.profile, least=1, most=1_000_000, metavar="N")
_count = partial(setting, least=1, most=10**9)
_positive = partial(setting, least=1e-9, most=1e9)  # beyond, the ratio of two of them could overflow


@dataclass(frozen=True, kw_only=True)
class DiagnoseConfig(Settings):
    # fmt: off
    run_or_log: str = setting(
        REQUIRED, "run_or_log", help="a run's folder, results.csv, YOLOv7's results.txt, YOLOX's train_log.txt")
    json: bool = setting(False, "--json", help="print JSON")
    plot: str | None = setting(None, "--plot", metavar="FILE", help="draw it: diagnosis.png")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ProfileConfig(Settings):
    # fmt: off
    steps: int = _steps(50, "--steps", help="steps to measure")
    warm_up: int = _steps(10, "--warm-up", help="steps before those")
    at_epoch: int | None = _steps(
        None, "--at-epoch", help="the epoch whose steps are measured, from 1 (default: the middle one)")
    trace: str | None = section.profile(
        None, "--trace", metavar="FILE", help="write a trace of some steps for ui.perfetto.dev: trace.json")
    json: str | None = section.profile(
        None, "--json", bare="-", metavar="FILE", help="print JSON, or write it to a file")
    output: str | None = section.profile(
        None, "--output", metavar="FOLDER", help="write profile.json there; by default nothing is written")
    compile_report: bool = section.profile(False, "--compile-report", help="say what torch.compile makes of the step")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class CompareConfig(Settings):
    # fmt: off
    runs: tuple[str, ...] = setting(
        REQUIRED, "runs", metavar="RUN", help="run folders of yolofast, YOLOv7, Ultralytics or YOLOX")
    names: tuple[str, ...] = setting(
        (), "--names", metavar="NAME", counts=(0, 10_000), help="what to call them, default: their folders")
    price: float | None = _positive(None, "--price", metavar="X", help="price of an hour, in any currency")
    epochs: tuple[int, ...] = _count(
        (), "--epochs", commas=True, metavar="N,N", counts=(0, 10_000), help="epochs for the tables, from 1: 10,50,100")
    last: int = _count(10, "--last", metavar="N", help="final epochs to average, default: {default}")
    group: tuple[str, ...] = setting(
        (), "--group", metavar="[LABEL=]PATTERN", counts=(0, 10_000),
        help="which runs are of one kind, by name; default: those that differ in the seed alone; none: no two")
    hours: tuple[float, ...] = _positive(
        (), "--hours", metavar="H", counts=(0, 10_000), help="of each run, if its files do not say")
    pace: tuple[float, ...] = _positive(
        (), "--pace", metavar="P", counts=(0, 10_000), help="it/s of each run, if known")
    images: int | None = _count(None, "--images", metavar="N", help="training images, if the run's files do not say")
    output: str = setting("compare.html", "--output", metavar="FILE", help="the page, default: {default}")
    markdown: str | None = setting(None, "--markdown", metavar="FILE", help="the same as Markdown")
    json: str | None = setting(None, "--json", bare="-", metavar="FILE", help="the same as JSON; without FILE printed")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class SweepConfig(Settings):
    # fmt: off
    experiment: str | None = setting(
        None, "experiment", metavar="FILE",
        help="what is tried (docs/sweep.md): a file, a packaged one, or with --resume the folder of a sweep")
    dry_run: bool = setting(False, "--dry-run", help="list the trials, what differs and what they cost; train nothing")
    resume: bool = setting(
        False, "--resume", help="resume the sweep of that experiment or folder; without one, the latest")
    values: tuple[str, ...] = setting(
        (), "--set", metavar="KEY=VALUE", adds_up=True, counts=(0, 1000),
        help="entries of base to add or change: data=data.yaml epochs=30")
    device: str = setting("", "--device", metavar="N,N", help="GPUs to use, or cpu; default: all GPUs")
    project: str = setting("runs/sweep", "--project", metavar="FOLDER", help="folder of sweeps, default: {default}")
    name: str = setting("", "--name", metavar="NAME", help="folder in it, default: that of the file")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Settings):
    # fmt: off
    run_folder: str = setting(REQUIRED, "run_folder", metavar="RUN", help="a run's folder: runs/train/exp")
    output: str | None = setting(
        None, "--output", metavar="FILE", help="where to write it, by default report.html of the folder")
    markdown: str | None = setting(None, "--markdown", metavar="FILE", help="the same as Markdown")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class WatchConfig(Settings):
    # fmt: off
    runs: str = setting("runs", "runs", help="folder to look for runs in, default: {default}")
    port: int = setting(8420, "--port", least=0, most=65_535, help="default: {default}; 0 takes a free one")
    host: str = setting("127.0.0.1", "--host", help="default: {default}; any other needs a token")
    token: str | None = setting(
        None, "--token", help="what the address must contain; generated where it is needed and not given")
    open: bool = setting(False, "--open", help="open the browser")
    # fmt: on
