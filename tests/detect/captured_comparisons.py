"""The kernels of captured detection against plain torch. Run as a program, it compares them on a CPU, for which Triton
needs TRITON_INTERPRET=1 from its beginning; `tests/gpu` has them on a GPU."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tests.detect.seeing import picture
from tests.model.small import SMALL
from yolofast import build_model
from yolofast.decoding import decode
from yolofast.detect import fixed_candidates as candidates
from yolofast.detect.inference import InferenceNetwork
from yolofast.detect.letterbox import Pictures, letterbox
from yolofast.evaluate.nms import Thresholds
from yolofast.model.fuse import fuse
from yolofast.precision import without_kernels
from yolofast.structures import HeadLayout, InputConvention

PICTURES = [picture(number, *size) for number, size in enumerate([(48, 64), (64, 64), (200, 90), (30, 20), (64, 640)])]
CONVENTIONS = (InputConvention(whole=True), InputConvention(rgb=False, divisor=1.0, top_left=True, whole=True))
LEAKY = "nn.LeakyReLU(0.1)"
JOINED = {
    **SMALL,
    "backbone": [
        [-1, 1, "Conv", [16, 3, 2, "None", 1, LEAKY]],
        [-1, 1, "Conv", [16, 3, 2]],  # 1: joined, and read by others
        [-1, 1, "Conv", [24, 1, 1, "None", 1, LEAKY]],  # 2: joined twice
        [-1, 1, "Conv", [16, 1, 1, "None", 1, "nn.Hardswish()"]],  # 3: an activation no kernel knows
        [[-1, -2, -3], 1, "Concat", [1]],  # 4: joined once more
        [-1, 1, "MP", []],  # 5
        [-1, 1, "Conv", [16, 3, 2]],  # 6
        [-1, 1, "SP", [5]],  # 7
        [[-1, -2], 1, "Concat", [1]],  # 8
    ],
    "head": [
        [6, 1, "nn.Upsample", ["None", 2, "nearest"]],  # 9: written into its join
        [5, 1, "Conv", [8, 1, 1]],  # 10: read by its join alone
        [[-1, -2], 1, "Concat", [1]],  # 11
        [[2, 4], 1, "Concat", [1]],  # 12
        [12, 1, "MP", []],
        [[11, 13], 1, "Concat", [1]],  # 14: of no convolution
        [8, 1, "RepConv", [32, 3, 1]],
        [[14, 15], 1, "IDetect", ["nc", "anchors"]],
    ],
}
BLOCKS = {
    **SMALL,
    "backbone": [
        [-1, 1, "Conv", [16, 3, 2]],
        [-1, 1, "DownC", [16]],
        [-1, 1, "Conv", [16, 3, 2]],
        [-1, 1, "SPPCSPC", [16]],
    ],
    "head": [[[-3, -1], 1, "IDetect", ["nc", "anchors"]]],
}
YOLOX = {
    "family": "yolox", "nc": 6, "names": list("abcdef"), "width_multiple": 0.125, "depth_multiple": 0.33,
    "depthwise": False, "image_size": 64,
}  # fmt: skip
INTERPRETED = {"joined": (JOINED, 4, 4), "blocks": (BLOCKS, 4, 0), "small yolox": (YOLOX, 3, 0)}
"""Models, the channels of their images, and how many joins of the graph copy nothing."""
NETWORKS = {**INTERPRETED, "yolov7-tiny": ("yolov7-tiny", 4, 14), "yolox-nano": ("yolox-nano", 3, 0)}


@dataclass
class Reader:
    layout: HeadLayout
    anchors_px: Tensor
    class_columns: Tensor | None = None


def compare_letterbox(device):
    host = Pictures.room_for(6, sum(one.size for one in PICTURES), None)
    on_device = Pictures.room_for(6, len(host.levels), torch.device(device))
    for inputs in CONVENTIONS:
        with ThreadPoolExecutor(2) as threads:
            on_device.copy_from(host, host.put(PICTURES, (64, 96), inputs, threads))
        for channels in (3, 4):
            ours = letterbox(on_device, (64, 96), inputs, torch.float32, channels).cpu()
            with without_kernels():
                wanted = letterbox(host, (64, 96), inputs, torch.float32, channels)
            assert ours.shape == wanted.shape == (6, channels, 64, 96)
            assert torch.equal(ours[:, 3:], wanted[:, 3:]) and not ours[:, 3:].any()
            off = (ours - wanted).abs()[:, :3] * inputs.divisor
            assert off.max() <= 1.001 and (off > 0.01).float().mean() < 0.01, (
                "a level at a half may be rounded otherwise"
            )


def some_raw(layout, device, dtype, spread, memory):
    """With equal scores, logits whose σ is 1 in float32, and numbers that are none."""
    raw = []
    for size in ((6, 9), (3, 5)):
        one = torch.randn(2, layout.anchors_per_cell, *size, 5 + layout.nc, device=device) * spread
        one[0, :, 1] = one[0, :, 0]
        one[1, 0, 0, :3, 5:] = 20.0 + torch.arange(layout.nc, device=device) % 3
        one[1, 0, 1, 0, 4], one[1, 0, 1, 1, 4] = float("nan"), float("inf")
        one[0, 0, 2, 0, 0], one[0, 0, 2, 1, 3], one[0, 0, 2, 2, 5] = float("nan"), float("inf"), float("nan")
        one[0, 0, 2, 3, 2] = float("nan")
        one = one.to(dtype)
        if memory == "cells first":  # as convolutions in channels_last give it, rows padded
            batch, anchors, height, width, channels = one.shape
            wide = one.new_zeros(batch, height, width, anchors * channels + 3)
            cells = wide[..., : anchors * channels].unflatten(3, (anchors, channels)).permute(0, 3, 1, 2, 4)
            one = cells.copy_(one)
        raw.append(one)
    return raw


def compare_candidates(device):
    compared = 0
    for kind, nc, anchors in (("anchor", 5, 3), ("anchor", 1, 2), ("point", 3, 1), ("point", 1, 1), ("anchor", 80, 3)):
        layout = HeadLayout(kind=kind, nc=nc, strides=(8, 16), anchors_per_cell=anchors)
        reader = Reader(layout, torch.rand(2, anchors, 2, device=device) * 50 + 5)
        settings = Thresholds(conf=0.25, iou=0.5, multi_label=False)
        for chosen in (settings, replace(settings, conf=0.001), replace(settings, conf=0.01, classes=[0, nc - 1])):
            for most, memory in ((4096, "rows first"), (4096, "cells first"), (20, "cells first")):
                dtype = torch.float16 if memory == "cells first" else torch.float32
                raw = some_raw(layout, device, dtype, 2.0, memory)
                candidates.PLACES, kept = most, candidates.PLACES
                ours = candidates.fixed_candidates(raw, reader, chosen)
                wanted = candidates.of_predictions(decode(raw, reader), chosen)
                candidates.PLACES = kept
                compare_found(ours, wanted, (kind, nc, most, memory, chosen))
                compare_rows(ours, replace(chosen, max_detections=7), device)
                compared += int(ours.counts.sum())
    assert compared > 2000


def compare_rows(found, chosen, device):
    pictures = Pictures.room_for(2, 8, torch.device(device))
    pictures.sizes.copy_(torch.tensor([[90, 50, 90, 50, 3, 0], [40, 30, 80, 60, 0, 11]]))
    pictures.scales.copy_(torch.tensor([[1.0, 1.0], [0.5, 0.5]]))
    ours = candidates.detections_in_rows(found, pictures, chosen)
    with without_kernels():
        assert torch.equal(ours, candidates.detections_in_rows(found, pictures, chosen))
    assert ours.shape == (2, 7, 6) and bool(ours[..., 4].any()) == bool(found.counts.any())


def compare_found(ours, wanted, case):
    """To the rounding of σ. Where two scores differ by no more, either may come first."""
    assert torch.equal(ours.counts, wanted.counts), case
    for image, count in enumerate(ours.counts.tolist()):
        scores, expected = ours.scores[image, :count], wanted.scores[image, :count]
        assert (scores[1:] <= scores[:-1]).all() and torch.allclose(scores, expected, rtol=1e-5, atol=1e-6), case
        one, other = (
            torch.cat((found.boxes[image, :count], found.labels[image, :count, None]), 1) for found in (ours, wanted)
        )
        # Only at the end, of those that are as good as the last, may others have been left out.
        sure = scores > scores[-1] * 1.0001 if count else scores > 0
        if count < case[2]:
            sure = scores >= 0
        apart = torch.cdist(one[sure].double(), other.double(), p=float("inf"))
        assert (apart.min(1).values < 1e-3 + 1e-5 * one[sure].abs().amax(1)).all(), case
        same = (one - other).abs().amax(1) < 1e-3 + 1e-5 * one.abs().amax(1)
        assert same.float().mean() > 0.8, (case, "the order is the same but for roundings")


def compare_networks(device, cfgs, dtype=torch.float16, bound=2e-3):
    """Joins, convolutions of images, and those that predict."""
    for name, (cfg, channels, joins) in cfgs.items():
        torch.manual_seed(0)
        model = build_model(cfg, nc=6).eval()
        for one in model.modules():
            if isinstance(one, torch.nn.BatchNorm2d):
                one.running_mean.normal_(0, 0.1), one.running_var.uniform_(0.5, 1.5)
            if isinstance(one, torch.nn.Conv2d) and one.bias is not None:
                one.bias.data.zero_()  # or nothing else would be seen of what is predicted
        images = torch.rand(1, 3, 32, 64).to(dtype).float()
        with torch.no_grad():
            wanted = fuse(model).double()(images.double())
            network = InferenceNetwork(fuse(model).to(device, dtype).to(memory_format=torch.channels_last))
            assert (network.channels, len(network._widths)) == (channels, joins)
            given = torch.cat((images, torch.zeros_like(images[:, :1])), 1)[:, : network.channels].to(device, dtype)
            found = network(given.contiguous(memory_format=torch.channels_last))
        for ours, expected in zip(found, wanted, strict=True):
            off = (ours.double().cpu() - expected).norm() / expected.norm()
            assert ours.shape == expected.shape and off < bound, (name, off)


def compare_all(device="cpu"):
    torch.manual_seed(0)
    compare_letterbox(device)
    compare_candidates(device)
    compare_networks(device, NETWORKS if device == "cuda" else INTERPRETED)


if __name__ == "__main__":
    compare_all()
    print("same")
