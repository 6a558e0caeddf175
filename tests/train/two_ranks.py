"""A run of a very small network by one process or by several, in this machine's CPU, and what can be seen of it."""

import dataclasses
from pathlib import Path

import torch
import torch.distributed as dist
import yaml

from tests.loss.criteria import KINDS, NC, criterion_and_maps, random_rows
from tests.map_reader import map_reader
from tests.model.small import SMALL
from tests.reference.candidates import AnchorGrid
from tests.train.batch_norm_parts import PRECISIONS, normalised
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.detect.accumulator import Evaluated
from yolofast.ranks import agree_on_largest, is_first, rank, share_counts
from yolofast.structures import Targets
from yolofast.train.display import quiet_display
from yolofast.train.distributed.averaged_step import mean_losses
from yolofast.train.distributed.join import device_of_rank, joined
from yolofast.train.distributed.launch import launch
from yolofast.train.gears.gears import EagerGear
from yolofast.train.loop import Progress, Trainer
from yolofast.train.losses.yolox_criterion import YoloXCriterion
from yolofast.train.record import NoRecorder
from yolofast.train.run import Run, prepare_run


def small_cfg_file(folder: Path) -> Path:
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(SMALL))
    return file


def small_config(folder: Path, **changes) -> TrainConfig:
    """22 images in batches of 8: the last one has 6, three for each of two ranks."""
    settings = {
        "data": str(make_shapes(folder / "shapes", n=22)), "cfg": str(small_cfg_file(folder)), "img_size": (96,),
        "batch_size": 8, "epochs": 2, "workers": 0, "device": "cpu", "cache": "off", "weights": "",
        "noautoanchor": True, "test_batch_size": 2, "hyp": "data/hyp.scratch.tiny.yaml", "notest": True, "nosave": True,
    }  # fmt: skip
    return dataclasses.replace(TrainConfig(), **(settings | changes))


def deep_config(config: TrainConfig) -> TrainConfig:
    """58 convolutions at 64 pixels: the deepest maps have 2 × 2 places, and young weights amplify every rounding."""
    return dataclasses.replace(config, cfg="mini", img_size=(64,), epochs=1, plan="", test_batch_size=8)


class Listening(EagerGear):
    """Notes the loss of every step, over all ranks."""

    def __init__(self, step):
        super().__init__(step)
        self.losses = []

    def run(self, batch, kind):
        self.step.losses.reset()
        super().run(batch, kind)
        self.losses.append(mean_losses(self.step.losses))


def seen(config: TrainConfig) -> dict:
    """What this process, or all of them together, see in a run."""
    torch.set_num_threads(1)
    run = prepare_run(config, lambda text: None)
    found = evaluated_as_sure(run)
    return {
        **trained(run),
        "evaluation": {
            "ap": found.metrics.ap.tolist(),
            "precision": found.metrics.curves.precision.tolist(),
            "recall": found.metrics.curves.recall.tolist(),
            "confusion": found.confusion.counts.tolist(),
            "losses": found.losses,
        },
    }


def seen_in_double(config: TrainConfig) -> dict:
    """A network that computes and learns in float64."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        run = prepare_run(config, lambda text: None)
        for model in (run.model, run.step.ema.model):
            model.register_forward_pre_hook(lambda model, images: images[0].double())
        return trained(run)
    finally:
        torch.set_default_dtype(torch.float32)


def trained(run: Run) -> dict:
    gear = Listening(run.step)
    trainer = Trainer(
        run=run, gear=gear, checkpoints=None, recorder=NoRecorder(),
        display=quiet_display(run.config.epochs), progress=Progress(),
    )  # fmt: skip
    trainer.fit()
    weights = torch.cat([p.detach().flatten() for p in run.model.parameters()])
    statistics = torch.cat([b.flatten() for b in run.model.buffers() if b.is_floating_point()])
    return {
        "losses": gear.losses,
        "weights": weights,
        "statistics": statistics,
        "rows": trainer.progress.rows,
    }


def evaluated_as_sure(run: Run) -> Evaluated:
    """Of the untrained network, but sure that there are objects everywhere: some of its boxes are right by chance."""
    before = {name: value.clone() for name, value in run.step.ema.model.state_dict().items()}
    for bias in run.step.ema.model.parameters():
        if bias.shape == (2 * (5 + run.model.nc),):
            bias.view(2, -1)[:, 4:] += 6
    found = run.evaluate(0)
    run.step.ema.model.load_state_dict(before)
    return found


@dataclasses.dataclass(frozen=True)
class Loss:
    """What one process sees of a loss: its terms, and the gradients of its maps, both as lists."""

    total: float
    parts: dict[str, float]
    gradients: list[list[float]]


IMAGES = 5
PARTS = (slice(0, 2), slice(2, IMAGES))
LOSSES = (*KINDS, "yolox", "yolox-tal")
POINTS = AnchorGrid(anchors_px=[[(8, 8)], [(16, 16)]], strides=[8, 16])


def loss_of(kind: str, faithful: bool, images: slice = slice(None)) -> Loss:
    """A loss of every kind on some images of a batch of five. The first has no boxes, and the second most of them."""
    torch.manual_seed(0)
    if kind.startswith("yolox"):
        assigner = "tal" if kind.endswith("tal") else "simota"
        criterion = YoloXCriterion(map_reader(POINTS, NC, kind="point"), faithful=faithful, assigner=assigner)
        raw = [torch.randn(IMAGES, 1, side, side, 5 + NC) for side in (8, 4)]
    else:
        criterion, raw = criterion_and_maps(kind, faithful, batch=IMAGES)
    rows = random_rows(14, batch=IMAGES - 1)
    rows[:, 0] += 1
    rows[:8, 0] = 1
    whole = Targets.from_rows(rows, IMAGES)
    targets = Targets(whole.boxes[images], whole.labels[images], whole.valid[images])
    own = [level.detach()[images].requires_grad_() for level in raw]
    terms = criterion(own, targets)
    terms.total.backward()
    parts = {name: float(value) for name, value in terms.parts.items()}
    return Loss(float(terms.total.detach()), parts, [level.grad.flatten().tolist() for level in own])


def _rank(report, config: TrainConfig, file: Path) -> int:
    with joined(device_of_rank("cpu")):
        worst = torch.tensor(rank())
        agree_on_largest(worst)
        found = {"run": seen(config), "deep": seen_in_double(deep_config(config)), "worst": int(worst)}
        found["layers"] = {name: gathered(normalised(PARTS[rank()], name)) for name in PRECISIONS}
        for faithful in (False, True):
            share_counts(not faithful)
            own = {kind: dataclasses.asdict(loss_of(kind, faithful, PARTS[rank()])) for kind in LOSSES}
            found["faithful" if faithful else "fixed"] = gathered(own)
        if is_first():
            torch.save(found, file)
        report("")
    return 0


def gathered(own: object) -> list:
    """What every rank has, rank by rank."""
    everybody = [None, None]
    dist.all_gather_object(everybody, own)
    return everybody


def seen_by_two(config: TrainConfig, folder: Path) -> dict:
    """As `seen` under "run", as `seen_in_double` under "deep".

    Rank by rank: under "fixed" and "faithful" the `Loss` of every kind, under "layers" a BatchNorm in all precisions.
    """
    file = folder / "seen.pt"
    launch(_rank, (config, file), 2)
    return torch.load(file, weights_only=False)
