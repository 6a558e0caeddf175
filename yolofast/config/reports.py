"""The settings of the commands around runs: those that explain and compare them, make many, or rent a machine."""

import re
from dataclasses import dataclass
from functools import partial

from yolofast.config import section
from yolofast.config.settings import REQUIRED, Settings, setting
from yolofast.errors import UserError, shorten

_steps = partial(section.profile, least=1, most=1_000_000, metavar="N")
_count = partial(setting, least=1, most=10**9)
_positive = partial(setting, least=1e-9, most=1e9)  # beyond, the ratio of two of them could overflow
TRAIN = "train"
"""What may be typed in place of an experiment: the other flags are those of `yolofast train`."""
_GPU = re.compile(r"[A-Za-z][\w.-]*(:[1-9]\d{0,2})?")


@dataclass(frozen=True)
class Provider:
    """What SkyPilot 0.14 can do there."""

    mounts: bool = True
    """Whether a bucket can be a folder of the machine."""
    spot: bool = True
    stops: bool = True
    """Whether a machine can be stopped with its disk kept."""


PROVIDERS: dict[str, Provider] = {
    "vast": Provider(mounts=False),
    "runpod": Provider(mounts=False, stops=False),
    "lambda": Provider(spot=False, stops=False),
    "aws": Provider(),
    "gcp": Provider(),
    "kubernetes": Provider(spot=False, stops=False),
}


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
    startup: bool = section.profile(
        False, "--startup", help="measure the start instead of the step: from typing to the first update, twice")
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
    measure: bool = setting(
        False, "--measure", help="with --dry-run: measure some steps of each kind of trial, for hours and money")
    resume: bool = setting(
        False, "--resume", help="resume the sweep of that experiment or folder; without one, the latest")
    values: tuple[str, ...] = setting(
        (), "--set", metavar="KEY=VALUE", adds_up=True, counts=(0, 1000),
        help="settings of base to add or change, and entries: data=data.yaml epochs=30 seeds=3")
    device: str = setting("", "--device", metavar="N,N", help="GPUs to use, or cpu; default: all GPUs")
    address: str = setting(
        "", "--address", metavar="RAY",
        help="run the trials on a Ray cluster: its address, auto, or local; all its machines see the current folder")
    launch: str = setting(
        "", "--launch", metavar="WORDS",
        help="what stands before the command of each trial: \"srun --gres=gpu:1\"; with --at-once")
    slurm: tuple[str, ...] = setting(
        (), "--slurm", metavar="KEY=VALUE", counts=(0, 100),
        help="hand the trials in as Slurm jobs, by submitit with these parameters: timeout_min=240 slurm_partition=x; "
        "with --at-once; all its machines see the current folder")
    at_once: int = setting(
        0, "--at-once", least=0, most=10_000, metavar="N", help="trials at once, with --launch or --slurm")
    project: str = setting("runs/sweep", "--project", metavar="FOLDER", help="folder of sweeps, default: {default}")
    name: str = setting("", "--name", metavar="NAME", help="folder in it, default: that of the file")
    # fmt: on

    @property
    def is_elsewhere(self) -> bool:
        """Trials run on other machines, or on what a launcher finds."""
        return bool(self.address or self.launch or self.slurm)

    def check_together(self) -> None:
        places = [f for f, value in (("--device", self.device), ("--address", self.address)) if value]
        places += ["--launch"] if self.launch else []
        places += ["--slurm"] if self.slurm else []
        if len(places) > 1 and places != ["--device", "--launch"]:
            raise UserError(f"{' and '.join(places)} both say where trials run", fix="drop one of them")
        if self.measure and not self.dry_run:
            raise UserError("--measure belongs to --dry-run", fix="add --dry-run")
        if bool(self.launch or self.slurm) != bool(self.at_once):
            given = "--slurm" if self.slurm else "--launch"
            fix = '--launch "srun --gres=gpu:1" --at-once 8, or --slurm timeout_min=240 --at-once 8'
            raise UserError(f"{given} and --at-once go together", fix=fix)


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


@dataclass(frozen=True, kw_only=True)
class CloudUpConfig(Settings):
    # fmt: off
    what: str = setting(
        TRAIN, "what", metavar="WHAT",
        help="an experiment (docs/sweep.md), or train; the other flags are those of train, or entries of its base")
    provider: str = setting("vast", "--provider", among=PROVIDERS, help="whose machine, default: {default}")
    gpu: str = setting("RTX4090:1", "--gpu", metavar="NAME:N", help="which, and how many; default: {default}")
    spot: bool = setting(False, "--spot", help="a machine that may be taken away, for less; needs --runs-in")
    max_price: float | None = setting(
        None, "--max-price", above=0, most=1e6, metavar="USD", help="of an hour; dearer machines are not taken")
    runs_in: str = setting(
        "", "--runs-in", metavar="URL",
        help="s3:// or gs://, where the runs lie: another machine continues what was taken. Without one they stay on "
        "the machine, and `cloud pull` copies them")
    disk: int = setting(100, "--disk", least=20, most=100_000, metavar="GB", help="default: {default}")
    install: str = setting("", "--install", metavar="TEXT", help="what pip installs there; default: this version")
    dry_run: bool = setting(False, "--dry-run", help="print the task; rent nothing, write nothing")
    # fmt: on

    def check_together(self) -> None:
        offers = PROVIDERS[self.provider]
        if not _GPU.fullmatch(self.gpu):
            raise UserError(f"--gpu is {shorten(self.gpu)}", fix="give a name and a number: RTX5090:1, A100-80GB:2")
        if self.runs_in and not re.fullmatch(r"(s3|gs)://[\w.-]+(/[\w./-]*)?", self.runs_in):
            raise UserError(f"--runs-in is {shorten(self.runs_in)}", fix="give s3://name or gs://name")
        if self.runs_in and not offers.mounts:
            mounting = ", ".join(name for name, one in PROVIDERS.items() if one.mounts)
            what = f"--runs-in: SkyPilot cannot mount one at {self.provider}"
            raise UserError(what, fix=f"leave it out, and use cloud pull; or --provider {mounting}")
        if self.spot and not offers.spot:
            raise UserError(f"--spot: SkyPilot has none at {self.provider}", fix="leave it out")
        if self.spot and not self.runs_in:
            places = ", ".join(name for name, one in PROVIDERS.items() if one.mounts and one.spot)
            what = "--spot without --runs-in: when the machine is taken, the run is lost with it"
            raise UserError(what, fix=f"add --runs-in s3://name, with --provider {places}")


@dataclass(frozen=True, kw_only=True)
class CloudPullConfig(Settings):
    # fmt: off
    run_name: str = setting(REQUIRED, "run_name", metavar="NAME", help="of the run or sweep")
    project: str = setting("runs/cloud", "--project", metavar="FOLDER", help="where it is kept, default: {default}")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class CloudStopConfig(CloudPullConfig):
    # fmt: off
    keep: bool = setting(False, "--keep", help="stop the machine and keep its disk, which costs a little")
    pull: bool = setting(True, "--pull", help="copy the runs before the machine is given back")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class CloudCostConfig(Settings):
    # fmt: off
    days: int = setting(30, "--days", least=1, most=3650, help="machines of the last N days, default: {default}")
    # fmt: on
