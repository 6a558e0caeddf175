"""YOLOv7's training loop as plainly as it can be said: torch's own optimizer, loops for the loss, formulas in place."""

import copy
import math

import numpy as np
import torch
from torch import nn

from tests.reference.candidates import AnchorGrid
from tests.reference.yolov7_loss import LossSettings, anchor_loss, ota_loss


class ReferenceTrainer:
    """`learn(images, rows)` per batch of uint8 images and target rows; `losses` are those so far, times the batch."""

    def __init__(self, model, hyp, size, epochs, batches, batch_size):
        self.model, self.hyp, self.size = model.train(), hyp, size
        self.epochs, self.batches, self.batch_size = epochs, batches, batch_size
        self.ema, self.updates, self.iteration, self.losses = copy.deepcopy(model).eval(), 0, 0, []
        levels, nc = model.layout.levels, model.layout.nc
        self.settings = LossSettings(
            box=hyp["box"] * 3 / levels,
            cls=hyp["cls"] * nc / 80 * 3 / levels,
            obj=hyp["obj"] * (size / 640) ** 2 * 3 / levels,
        )
        self.grid = AnchorGrid(anchors_px=model.anchors_px.tolist(), strides=model.layout.strides)
        scales, weights, biases = [], [], []
        for module in model.modules():
            if isinstance(getattr(module, "bias", None), nn.Parameter):
                biases.append(module.bias)
            if isinstance(module, nn.BatchNorm2d):
                scales.append(module.weight)
            elif isinstance(getattr(module, "weight", None), nn.Parameter):
                weights.append(module.weight)
            if isinstance(getattr(module, "implicit", None), nn.Parameter):
                scales.append(module.implicit)
        accumulate = max(round(64 / batch_size), 1)
        decay = hyp["weight_decay"] * batch_size * accumulate / 64
        self.optimizer = torch.optim.SGD(scales, lr=hyp["lr0"], momentum=hyp["momentum"], nesterov=True)
        self.optimizer.add_param_group({"params": weights, "weight_decay": decay})
        self.optimizer.add_param_group({"params": biases})

    def learn(self, images, rows):
        hyp, i = self.hyp, self.iteration
        epoch = i // self.batches
        factor = (1 - math.cos(epoch * math.pi / self.epochs)) / 2 * (hyp["lrf"] - 1) + 1
        warmup = max(round(hyp["warmup_epochs"] * self.batches), 1000)
        accumulate = max(round(64 / self.batch_size), 1)
        for number, group in enumerate(self.optimizer.param_groups):
            group["lr"] = hyp["lr0"] * factor
            if i <= warmup:
                start = hyp["warmup_bias_lr"] if number == 2 else 0.0
                group["lr"] = np.interp(i, [0, warmup], [start, hyp["lr0"] * factor])
                group["momentum"] = np.interp(i, [0, warmup], [hyp["warmup_momentum"], hyp["momentum"]])
        if i <= warmup:
            accumulate = max(1, round(float(np.interp(i, [0, warmup], [1, 64 / self.batch_size]))))
        raw = self.model(images.to(torch.get_default_dtype()) / 255)
        if hyp["loss_ota"]:
            loss = ota_loss(raw, rows, self.grid, (self.size, self.size), self.settings).loss
        else:
            loss = anchor_loss(raw, rows, self.grid, self.settings).loss
        loss.backward()
        self.losses.append(loss.item())
        if i % accumulate == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.move_average()
        self.iteration += 1

    @torch.no_grad()
    def move_average(self):
        self.updates += 1
        decay = 0.9999 * (1 - math.exp(-self.updates / 2000))
        learnt = self.model.state_dict()
        for name, value in self.ema.state_dict().items():
            if value.is_floating_point():
                value.copy_(value * decay + learnt[name] * (1 - decay))
