"""The settings of training: all flags of the published train.py, and more under names that other trainers use.

Defaults of `yolofast train` suit a first run: a small network on the built-in data set, published defects repaired.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

from yolofast.config import section
from yolofast.config.common import TRUST, Cache, RunConfig
from yolofast.config.settings import settings_of
from yolofast.errors import UserError, shorten
from yolofast.extensions import ASSIGNERS, OPTIMIZERS
from yolofast.words import seconds_of

LrSchedule = Literal["auto", "cosine", "linear", "flat_cosine", "one_cycle", "yoloxwarmcos"]

WORKER_FLAGS = "persistent_workers", "worker_tensor", "fast_dataloader"
"""They change how worker processes deliver batches; batches made on the GPU have none."""
RESUME_OR_START = "auto"
_QUAD = 4
"""Images that `--quad` joins."""
_OF_STAGES = (
    "lr_mult_head", "lr_mult_neck", "lr_mult_backbone", "bn_phase1_epochs", "bn_unfreeze_late", "warmup_restart_epochs",
)  # fmt: skip
_DEMONSTRATION: dict[str, Any] = {
    "cfg": "mini", "hyp": "data/hyp.demo.yaml", "img_size": (128,), "batch_size": 8, "epochs": 12, "optimizer": "adamw",
}  # fmt: skip
# Flags that say where and how to train, not what.
_LEAVE_IT_A_DEMONSTRATION = {
    "device", "project", "name", "exist_ok", "seed", "workers", "loader", "cache", "jpeg_decoder", "gear", "precision",
    "plots", *WORKER_FLAGS, "explain", "against", "profile_every", "until_epoch", "time_limit",
}  # fmt: skip


# ruff: noqa: RUF009 - `section` makes dataclass fields
@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunConfig):
    # fmt: off
    weights: str = section.model(
        "", "--weights", published="yolo7.pt", yolov7=True, metavar="FILE",
        help="weights to start from; empty: from scratch")
    cfg: str = section.model(
        "yolov7-tiny", "--cfg", "--model", published="", yolov7=True, metavar="FILE",
        help="model file, packaged path or short name; empty: that of the weights")
    transfer_weights: bool = section.model(
        False, "--transfer-weights",
        help="take from the weights what matches by name and shape, and nothing else: no optimizer, no epoch")
    heads: int = section.model(
        0, "--heads", least=0, most=1000, help="heads of 1B4H; their number follows from --head-config, this checks it")
    freeze: tuple[int | str, ...] = section.model(
        (0,), "--freeze", yolov7=True, least=0, metavar="N",
        help="N: layers 0 to N-1; several numbers: exactly those layers; or names: backbone, neck, backbone.dark*")
    noautoanchor: bool = section.model(
        False, "--noautoanchor", yolov7=True, help="keep the anchors, even if they do not suit the boxes")
    sync_bn: bool = section.model(False, "--sync-bn", yolov7=True, help="BatchNorm statistics over all GPUs")

    data: str = section.data(
        "data/shapes.yaml", "--data", published="data/coco.yaml", yolov7=True, metavar="FILE",
        help="data set yaml; data/shapes.yaml is built in")
    img_size: tuple[int, ...] = section.data(
        (320,), "--img-size", "--img", "--imgsz", published=(640, 640), yolov7=True, least=32, most=32_768,
        counts=(1, 2),
        help="long side in pixels to train and to test at, or one value for both; rounded up to a multiple of the "
        "stride; YOLOX: height and width")
    single_cls: bool = section.data(False, "--single-cls", yolov7=True, help="treat all classes as one")
    fraction: float = section.data(1.0, "--fraction", above=0, most=1, help="share of the training images to use")
    skip_bad: bool = section.data(
        False, "--skip-bad", help="omit images that `yolofast check` finds faulty, instead of stopping")
    trust_index: bool = section.data(False, "--trust-index", changes_on_resume=True, help=TRUST)

    batch_size: int = section.training(
        16, "--batch-size", "--batch", yolov7=True, least=1, special=(-1,),
        help="images per batch, over all GPUs; -1: the largest that fits")
    reduce_batch: bool = section.training(
        False, "--reduce-batch", changes_on_resume=True,
        help="when memory runs out continue with a smaller batch, instead of naming one that fits")
    epochs: int = section.training(
        100, "--epochs", published=300, yolov7=True, least=1, changes_on_resume=True,
        help="passes over the images; a resumed run may have more")
    max_steps: int | None = section.training(None, "--max-steps", least=1, help="end the run after that many batches")
    until_epoch: int | None = section.training(
        None, "--until-epoch", least=1, changes_on_resume=True,
        help="pause after that many of the --epochs; resumed, the run ends as one that never paused")
    time_limit: str | None = section.training(
        None, "--time-limit", metavar="TIME", changes_on_resume=True,
        help="pause at the end of the last epoch that surely fits, to be resumed, with exit code 75: 3h50m")
    resume: bool | str = section.training(
        False, "--resume", yolov7=True, bare=True, metavar="RUN", changes_on_resume=True,
        shortcuts={"--resume-or-start": RESUME_OR_START},
        help="resume the latest run, or that of the given folder or last.pt, exactly where it stopped; auto: that of "
        "--project and --name, or start it")
    patience: int = section.training(
        0, "--patience", least=0, changes_on_resume=True,
        help="stop after that many epochs without a better result; 0: never")
    optimizer: str = section.training(
        "sgd", "--optimizer", yolov7="--adam", shortcuts={"--adam": "adam"}, among=OPTIMIZERS,
        help="sgd has Nesterov momentum; muon moves convolutions by orthogonal matrices, all else as adamw")
    lr_schedule: LrSchedule = section.training(
        "auto", "--lr-schedule", yolov7="--linear-lr",
        shortcuts={
            "--cos-lr": "cosine", "--linear-lr": "linear", "--flat-cos-lr": "flat_cosine", "--one-cycle": "one_cycle",
        },
        help="how the learning rate falls; auto: cosine, yoloxwarmcos for YOLOX; one_cycle: up and down in two lines")
    auto_lr: bool = section.training(
        False, "--auto-lr", help="for batches above 64: lr0 × √(batch / 64); from 128 on 5 epochs of warm-up at least")
    seed: int = section.training(0, "--seed", published=2, least=0, most=2**63 - 1, help="of everything random")
    faithful: bool = section.training(
        False, "--faithful", published=True, shortcuts={"--fixed": False},
        help="compute what the published code computes, defects included (docs/differences.md)")
    evolve: bool = section.training(
        False, "--evolve", yolov7=True,
        help="search hyper-parameters by mutation, as YOLOv7 does: 300 generations, as a sweep in PROJECT/evolve")

    hyp: str = section.loss(
        "", "--hyp", published="data/hyp.scratch.p5.yaml", yolov7=True, metavar="FILE",
        help="hyper-parameters; empty: those published for the model")
    recipe: str = section.loss(
        "", "--recipe", metavar="FILE",
        help="YOLOX: how it is trained, a file or yolox-s, nuscenes-stable-v3 …; empty: as published for the network")
    recipe_values: tuple[str, ...] = section.loss(
        (), "--set", counts=(0, 1000), metavar="KEY=VALUE", adds_up=True,
        help="hyper-parameters to change: lr0=0.001 mosaic=0.5; YOLOX: values of the recipe, such as mosaic_prob=0.3 "
        "input_size=800,1440")
    label_smoothing: float = section.loss(
        0.0, "--label-smoothing", yolov7=True, least=0, most=1, help="ε: classes are learnt as 1 - ε/2 and ε/2")
    assigner: str | None = section.loss(
        None, "--assigner", among=ASSIGNERS,
        help="who learns which box; by default as the hyper-parameters say (loss_ota, assigner)")
    ota_from_epoch: int | None = section.loss(
        None, "--ota-from-epoch", least=0, help="anchor before that epoch, OTA from it on")
    ignore_other_heads: bool = section.loss(
        False, "--ignore-other-heads", help="1B4H: omit other heads' objects from a head's objectness")
    ignore_weight: float = section.loss(
        0.0, "--ignore-weight", least=0, most=1, help="1B4H: how much they count after all")

    cache: Cache = section.loader(
        "auto", "--cache", yolov7="--cache-images", bare="ram", shortcuts={"--cache-images": "ram"},
        help="where the pixels live; auto says what it chose and why")
    jpeg_decoder: Literal["opencv", "nvjpeg"] = section.loader(
        "opencv", "--jpeg-decoder",
        help="of --cache jpeg, jpeg-ram and jpeg-gpu; nvjpeg: on the GPU, with torchvision, a few levels apart")
    loader: Literal["auto", "cpu", "gpu"] = section.loader(
        "auto", "--loader", help="who makes the batches: worker processes, or the GPU")
    workers: int | None = section.loader(
        None, "--workers", published=8, yolov7=True, least=0, most=4096,
        help="worker processes per GPU; by default one per core, 8 at most")
    persistent_workers: bool = section.loader(
        False, "--persistent-workers",
        help="workers survive the end of an epoch (of short ones always); for a CPU, or a GPU with --loader cpu")
    worker_tensor: bool = section.loader(
        False, "--worker-tensor",
        help="workers render into a shared ring of whole batches; for a CPU, or a GPU with --loader cpu")
    fast_dataloader: bool = section.loader(
        False, "--fast-dataloader",
        help="--persistent-workers and --worker-tensor; for a CPU, or a GPU with --loader cpu")
    worker_timeout: int = section.loader(
        120, "--worker-timeout", least=0, metavar="SECONDS", changes_on_resume=True,
        help="a worker that begins no image for so long is replaced once; stuck again, the run stops; 0: wait")
    image_weights: bool = section.loader(
        False, "--image-weights", yolov7=True, changes_on_resume=False,
        help="draw images of badly learnt classes more often")

    rect: bool = section.augmentation(
        False, "--rect", yolov7=True, help="batches of similar shapes, padded as little as they need; no mosaics")
    quad: bool = section.augmentation(
        False, "--quad", yolov7=True, help="every four images become one of twice the size")
    multi_scale: bool = section.augmentation(
        False, "--multi-scale", yolov7=True, help="sizes from half to one and a half times --img-size")
    close_mosaic: int = section.augmentation(
        0, "--close-mosaic", least=0, help="no mosaic and no mixup in the last N epochs")
    style: Literal["auto", "yolov7", "yolox"] = section.augmentation(
        "auto", "--style", help="augmentation of YOLOv7 or YOLOX; auto: the model's")
    class_aware_aug: bool = section.augmentation(
        False, "--class-aware-aug", help="1B4H: augment a mosaic as suits the head whose objects it shows")
    head_params: str = section.augmentation(
        "data/hyp.head_params.yaml", "--head-params", metavar="FILE", help="the values of --class-aware-aug")

    notest: bool = section.evaluation(
        False, "--notest", yolov7=True, changes_on_resume=True, help="evaluate only at the end")
    test_batch_size: int | None = section.evaluation(
        None, "--test-batch-size", least=1, changes_on_resume=True,
        help="images per batch when evaluating; by default twice --batch-size")
    v5_metric: bool = section.evaluation(
        False, "--v5-metric", yolov7=True, help="precision curves reach to recall 1, as in YOLOv5")

    project: str = section.output(
        "runs/train", "--project", yolov7=True, metavar="FOLDER", changes_on_resume=False, help="folder of runs")
    nosave: bool = section.output(False, "--nosave", yolov7=True, help="save only the last checkpoint")
    save_period: int = section.output(
        -1, "--save_period", "--save-period", yolov7=True, least=1, special=(-1,),
        help="keep a checkpoint every N epochs; -1: no more than best and last")
    save_init: bool = section.output(
        False, "--save-init", help="keep the weights before the first step: weights/init.pt")
    profile_every: int = section.output(
        0, "--profile-every", least=0, metavar="N",
        help="time every N-th step by phase, for profile.csv and profile.json in the run's folder; 0: none")
    plots: bool = section.output(True, "--plots", help="draw curves, labels and batches into the run's folder")

    bbox_interval: int = section.logging(
        -1, "--bbox_interval", "--bbox-interval", yolov7=True, least=1, special=(-1,),
        help="draw predicted boxes every N epochs, for the run's folder and its loggers")
    entity: str | None = section.logging(
        None, "--entity", yolov7=True, help="account at Weights & Biases; turns that logger on")
    upload_dataset: bool = section.logging(
        False, "--upload_dataset", "--upload-dataset", yolov7=True, help="upload images and labels to Weights & Biases")
    artifact_alias: str = section.logging(
        "latest", "--artifact_alias", "--artifact-alias", yolov7=True, help="name of the uploaded version")
    bucket: str = section.logging(
        "", "--bucket", yolov7=True, without_effect=True, help="nothing is uploaded to a storage bucket")
    local_rank: int = section.logging(
        -1, "--local_rank", "--local-rank", yolov7=True, least=-1, without_effect=True,
        help="set by old launchers; torchrun's LOCAL_RANK is read instead")

    plan: str = section.plan(
        "", "--plan", metavar="FILE",
        help="which part of the network learns when, and how fast: a file, or a name such as yolox-progressive")
    explain: bool | str = section.plan(
        False, "--explain", bare=True, metavar="FILE", changes_on_resume=True,
        help="instead of training print the schedule that would run, or of a recipe that is named; FILE.png: draw it")
    against: str | None = section.plan(
        None, "--against", metavar="FLAGS", changes_on_resume=True,
        help="with --explain: print only what differs from a second configuration, named by its recipe, plan or "
        'hyper-parameters, or by flags: nuscenes-clean-v2, "--plan mine.yaml --epochs 40"; `profile` measures both')
    stage: Literal["", "stage1_neck_tune", "stage2_late_backbone_tune"] = section.plan(
        "", "--stage", help="a packaged plan for yolov7-tiny, with the values of the flags below")
    lr_mult_head: float = section.plan(1.0, "--lr-mult-head", least=0, help="factor of the learning rate of the head")
    lr_mult_neck: float = section.plan(0.3, "--lr-mult-neck", least=0, help="factor of the learning rate of the neck")
    lr_mult_backbone: float = section.plan(
        0.05, "--lr-mult-backbone", least=0, help="factor of the learning rate of the backbone")
    bn_phase1_epochs: int = section.plan(
        20, "--bn-phase1-epochs", least=0, help="epochs with frozen statistics in the late backbone")
    bn_unfreeze_late: bool = section.plan(False, "--bn-unfreeze-late", help="update them afterwards")
    warmup_restart_epochs: int = section.plan(
        -1, "--warmup-restart-epochs", least=0, special=(-1,),
        help="warm up again for that long; -1: as suits the stage")
    print_stage_summary: bool = section.plan(
        False, "--print-stage-summary", without_effect=True, help="say what learns; always done")
    # fmt: on

    @property
    def sets_recipe(self) -> bool:
        """Whether `--set` changes a recipe of YOLOX; else it changes hyper-parameters. Completed settings know."""
        return bool(self.recipe) or self.style == "yolox"

    @property
    def seconds_allowed(self) -> float:
        """Of `--time-limit`."""
        return inf if self.time_limit is None else seconds_of(self.time_limit)

    @property
    def train_size(self) -> int:
        return self.img_size[0]

    @property
    def test_size(self) -> int:
        return self.img_size[-1]

    def check_together(self) -> None:
        """What can be checked before any file is read."""
        super().check_together()
        for check in (_check_model, _check_batch, _check_loader, _check_loss, _check_course, _check_plan):
            check(self)


def _check_model(config: TrainConfig) -> None:
    if not config.cfg and not config.weights and not config.resume:
        raise UserError("neither --cfg nor --weights is given: there is nothing to train", fix="--cfg yolov7-tiny")
    if config.transfer_weights and not (config.weights or config.resume):
        raise UserError("--transfer-weights without --weights: there is nothing to transfer", fix="--weights best.pt")
    if not config.head_config and (config.heads or config.class_aware_aug):
        flag = f"--heads {config.heads}" if config.heads else "--class-aware-aug"
        fix = "add --head-config standard for a network with several heads (1B4H); omit it for one head"
        raise UserError(f"{flag} needs to know which head owns which classes", fix=fix)


def _check_batch(config: TrainConfig) -> None:
    size, ranks = config.batch_size, max(len(config.devices), 1)
    multiple = ranks * (_QUAD if config.quad else 1)
    if size != -1 and size % multiple:
        why = f"--quad joins {_QUAD} images" if config.quad else f"--device {config.device} names {ranks} GPUs"
        if config.quad and ranks > 1:
            why += f" on each of {ranks} GPUs"
        fix = f"--batch-size {max(round(size / multiple), 1) * multiple}"
        raise UserError(f"--batch-size is {size}, but {why}: it must be a multiple of {multiple}", fix=fix)


def _check_loader(config: TrainConfig) -> None:
    if config.image_weights and config.rect:
        what = "--image-weights draws images at random, --rect takes them in the order of their shapes"
        raise UserError(what, fix="drop one of them")
    caches = {"gpu": "--cache ram", "jpeg-gpu": "--cache jpeg-ram"}
    asked = {"--loader gpu": ""} if config.loader == "gpu" else {}
    asked |= {f"--cache {config.cache}": caches[config.cache]} if config.cache in caches else {}
    asked |= {"--jpeg-decoder nvjpeg": "--jpeg-decoder opencv"} if config.jpeg_decoder == "nvjpeg" else {}
    for flag, instead in asked.items():
        if config.on_cpu:
            raise UserError(f"{flag} needs a GPU, but --device is cpu", fix="leave it at auto")
        if config.loader == "cpu":
            what = f"{flag} leaves pixels on the GPU, where the worker processes of --loader cpu cannot read them"
            raise UserError(what, fix=f"{instead}, or --loader gpu")


def _check_loss(config: TrainConfig) -> None:
    if config.ota_from_epoch is not None and config.assigner is not None:
        raise UserError("--ota-from-epoch and --assigner both set the assigner", fix="drop one of them")
    if config.ota_from_epoch is not None and config.ota_from_epoch >= config.epochs:
        what = f"--ota-from-epoch {config.ota_from_epoch} never comes: --epochs is {config.epochs}, counted from 0"
        raise UserError(what, fix=f"give at most {config.epochs - 1}, or loss_ota: 0 in the hyper-parameters")


def _check_course(config: TrainConfig) -> None:
    if config.notest and config.patience:
        what = f"--patience {config.patience} needs evaluations: --notest has only the one at the end"
        raise UserError(what, fix="drop one of them")
    if config.resume is not False and config.evolve:
        raise UserError("--resume continues one run, --evolve makes many", fix="drop one of them")
    if config.time_limit is not None and not 0 < seconds_of(config.time_limit) < inf:
        what = f"--time-limit is {shorten(config.time_limit)}"
        raise UserError(what, fix="give a time such as 3h50m, 90m or 1d12h")
    if config.resume == "":
        raise UserError("--resume is given an empty name", fix="--resume alone takes the latest run")


def _check_plan(config: TrainConfig) -> None:
    ways = {"--freeze": config.freeze != (0,), "--plan": config.plan, "--stage": config.stage}
    given = [flag for flag, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise UserError(f"{given[0]} and {given[1]} both say what learns", fix="drop one of them")
    for name in () if config.stage else _OF_STAGES:
        declared = settings_of(type(config))[name]
        if getattr(config, name) != declared.published:
            fix = "add --stage stage1_neck_tune, or write a plan (docs/fine-tuning.md)"
            raise UserError(f"{declared.flag} changes a value of --stage, which is not given", fix=fix)
    if isinstance(config.explain, str) and not config.explain.lower().endswith(".png"):
        raise UserError(f"--explain {config.explain}: the picture is a PNG file", fix="schedule.png, or a recipe")


def is_demonstration(given: Mapping[str, Any]) -> bool:
    """Whether no flag says what to train."""
    names = given.keys() - ({"resume"} if given.get("resume") == RESUME_OR_START else set())
    return names <= _LEAVE_IT_A_DEMONSTRATION


def demonstration(config: TrainConfig) -> TrainConfig:
    """A small network on the built-in shapes, in a few minutes: the defaults of a real run take a CPU hours."""
    return replace(config, **_DEMONSTRATION)
