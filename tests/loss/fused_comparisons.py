"""The kernels of OTA and of YOLOv7's loss against the same as written. Run as a program, it compares them on a CPU,
for which Triton needs TRITON_INTERPRET=1 from its beginning; `tests/gpu` has them on a GPU."""

from dataclasses import replace

import torch

from tests.loss.criteria import criterion_and_maps, random_rows
from yolofast.precision import without_kernels
from yolofast.structures import Targets
from yolofast.train.distributed.join import group_of_one
from yolofast.train.losses.yolov7_criterion import anchors_in_cells

OPTIONS = {"cls_pw": 1.5, "obj_pw": 0.7, "label_smoothing": 0.1, "gr": 0.8}


def off(ours, plain):
    return ((ours - plain).norm() / plain.norm().clamp(min=1e-12)).item()


def learners(assignment):
    """Who learns what, by level and image: slots may stand in any order."""
    fields = assignment.cell, assignment.target, assignment.sets_objectness
    return [
        sorted(zip(*(field[image][positive].tolist() for field in fields), strict=True))
        for image, positive in enumerate(assignment.positive)
    ]


def channels_last(raw):
    """In memory as convolutions give them, with room behind the rows of a place, as a folded head does."""
    rows = raw.permute(0, 2, 3, 1, 4).flatten(3)
    memory = torch.zeros(*rows.shape[:3], rows.shape[3] + 3, device=raw.device)
    memory[..., :-3] = rows
    _, _, height, width, channels = raw.shape
    pitch = memory.shape[3]
    return memory.as_strided(raw.shape, (height * width * pitch, channels, width * pitch, pitch, 1))


def problem(kind, faithful, seed, device):
    torch.manual_seed(seed)
    loss, raw = criterion_and_maps(kind, faithful, scale=(1.0, 3.0, 0.1)[seed % 3], columns=(8, 12)[seed % 2])
    if seed > 1:
        loss.settings = replace(loss.settings, **OPTIONS)
    loss.model.anchors_px = loss.model.anchors_px.to(device)
    raw = [channels_last(one.detach()) if seed % 2 else one.detach() for one in raw]
    targets = Targets.from_rows(random_rows(14), 2)
    return loss, [one.to(device).requires_grad_() for one in raw], targets.to(device)


def compare_assigned(kind, faithful, seed, device):
    loss, raw, targets = problem(kind, faithful, seed, device)
    given = raw, targets, anchors_in_cells(loss.model), (0.5, 1.0)[seed % 2], (10, 20)[seed % 2]
    ours = [learners(level) for level in loss.assign(*given)]
    with without_kernels():
        plain = [learners(level) for level in loss.assign(*given)]
    assert ours == plain, (kind, faithful, seed)
    assert sum(map(len, plain[0] + plain[1])) > 10


def compare_losses(kind, faithful, seed, device, bound=1e-6):
    loss, raw, targets = problem(kind, faithful, seed, device)
    ours = loss(raw, targets)
    assert "Terms" in str([step[0] for step in _ancestors(ours.total.grad_fn)])
    with without_kernels():
        plain = loss(raw, targets)
    for name, part in plain.parts.items():
        assert off(ours.parts[name], part) < bound, (kind, faithful, seed, name)
    gradients = [torch.autograd.grad(terms.total * 3, raw) for terms in (ours, plain)]
    assert all(off(a, b) < bound for a, b in zip(*gradients, strict=True)), (kind, faithful, seed)
    nothing = loss(raw, Targets.from_rows(torch.zeros(0, 6), 2).to(device))
    assert nothing.box == nothing.cls == 0 < nothing.obj


def _ancestors(step, depth=6):
    return [] if step is None or not depth else [
        (type(step).__name__,), *(a for s, _ in step.next_functions for a in _ancestors(s, depth - 1))
    ]  # fmt: skip


def compare_all(device="cpu", problems=((True, 0), (False, 2), (False, 5))):
    for faithful, seed in problems:
        compare_assigned(("ota", "anchor")[seed // 2 % 2], faithful, seed, device)
        compare_losses(("ota", "anchor", "tal")[seed % 3], faithful, seed, device)
    with group_of_one(torch.device(device)):  # divided by the counts of all ranks
        compare_losses("ota", *problems[-1], device)


if __name__ == "__main__":
    compare_all()
    print("same")
