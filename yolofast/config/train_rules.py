"""Settings of training that exclude or need one another. What can be known before any file is read is said at once."""

from typing import TYPE_CHECKING

from yolofast.config.settings import settings_of
from yolofast.errors import UserError

if TYPE_CHECKING:
    from yolofast.config.train import TrainConfig

_QUAD = 4


def check_training(config: "TrainConfig") -> None:
    _check_model(config)
    _check_batch(config)
    _check_loader(config)
    _check_loss(config)
    _check_course(config)
    _check_plan(config)


def _check_model(config: "TrainConfig") -> None:
    if not config.cfg and not config.weights and not config.resume:
        raise UserError("neither --cfg nor --weights is given: there is nothing to train", fix="--cfg yolov7-tiny")
    if config.transfer_weights and not (config.weights or config.resume):
        raise UserError("--transfer-weights without --weights: there is nothing to transfer", fix="--weights best.pt")
    if not config.head_config and (config.heads or config.class_aware_aug):
        flag = f"--heads {config.heads}" if config.heads else "--class-aware-aug"
        fix = "add --head-config standard for a network with several heads (1B4H); leave it away for one with one"
        raise UserError(f"{flag} needs to know which head owns which classes", fix=fix)


def _check_batch(config: "TrainConfig") -> None:
    size, ranks = config.batch_size, max(len(config.devices), 1)
    if size == -1:
        return
    multiple = ranks * (_QUAD if config.quad else 1)
    if size % multiple:
        why = f"--quad joins {_QUAD} images" if config.quad else f"--device {config.device} names {ranks} GPUs"
        if config.quad and ranks > 1:
            why += f" on each of {ranks} GPUs"
        fix = f"--batch-size {max(round(size / multiple), 1) * multiple}"
        raise UserError(f"--batch-size is {size}, but {why}: it must be a multiple of {multiple}", fix=fix)


def _check_loader(config: "TrainConfig") -> None:
    if config.image_weights and config.rect:
        what = "--image-weights draws images at random, --rect takes them in the order of their shapes"
        raise UserError(what, fix="drop one of them")
    if config.on_cpu and "gpu" in (config.loader, config.cache):
        flag = "--loader gpu" if config.loader == "gpu" else "--cache gpu"
        raise UserError(f"{flag} needs a GPU, but --device is cpu", fix="leave it at auto")
    if config.loader == "cpu" and config.cache == "gpu":
        what = "--cache gpu keeps the pixels on the GPU, where the worker processes of --loader cpu cannot read them"
        raise UserError(what, fix="--cache ram, or --loader gpu")


def _check_loss(config: "TrainConfig") -> None:
    if config.ota_from_epoch is None:
        return
    if config.assigner is not None:
        raise UserError("--ota-from-epoch and --assigner both set the assigner", fix="drop one of them")
    if config.ota_from_epoch >= config.epochs:
        what = f"--ota-from-epoch {config.ota_from_epoch} never comes: --epochs is {config.epochs}, counted from 0"
        raise UserError(what, fix=f"give at most {config.epochs - 1}, or loss_ota: 0 in the hyper-parameters")


def _check_course(config: "TrainConfig") -> None:
    if config.notest and config.patience:
        what = f"--patience {config.patience} has nothing to go by: --notest evaluates only at the end"
        raise UserError(what, fix="drop one of them")
    if config.resume is not False and config.evolve:
        raise UserError("--resume continues one run, --evolve makes many", fix="drop one of them")
    if config.resume == "":
        raise UserError("--resume is given an empty name", fix="--resume alone takes the latest run")


_OF_STAGES = (
    "lr_mult_head", "lr_mult_neck", "lr_mult_backbone", "bn_phase1_epochs", "bn_unfreeze_late", "warmup_restart_epochs",
)  # fmt: skip


def _check_plan(config: "TrainConfig") -> None:
    given = [flag for flag, is_given in _ways_to_freeze(config).items() if is_given]
    if len(given) > 1:
        raise UserError(f"{given[0]} and {given[1]} both say what learns", fix="drop one of them")
    for name in () if config.stage else _OF_STAGES:
        declared = settings_of(type(config))[name]
        if getattr(config, name) != declared.published:
            fix = "add --stage stage1_neck_tune, or write a plan (docs/fine-tuning.md)"
            raise UserError(f"{declared.flag} changes a value of --stage, which is not given", fix=fix)
    if isinstance(config.explain, str) and not config.explain.lower().endswith(".png"):
        raise UserError(f"--explain {config.explain}: the picture is a PNG file", fix="name it schedule.png")


def _ways_to_freeze(config: "TrainConfig") -> dict[str, bool]:
    return {"--freeze": config.freeze != (0,), "--plan": bool(config.plan), "--stage": bool(config.stage)}
