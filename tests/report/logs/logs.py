"""Files as other trainers write them, made by hand."""

import numpy as np


def results_txt(train, val, score):
    """YOLOv7: 15 fields, to 4 digits."""
    lines = []
    for epoch, (loss, val_loss, good) in enumerate(zip(train, val, score, strict=True)):
        parts = [
            f"{epoch}/{len(train) - 1}",
            "3.21G",
            *(f"{x:.4g}" for x in (loss / 2, loss / 4, loss / 4, loss)),
            "117",
            "640",
        ]
        parts += [f"{x:.4g}" for x in (0.5, 0.4, good * 1.5, good, val_loss / 2, val_loss / 4, val_loss / 4)]
        lines.append("".join(f"{part:>10}" for part in parts))
    return "\n".join(lines) + "\n"


def train_log(loss, lr, per_epoch, every=10, l1_from=None, scores=None):
    """YOLOX: a line every few iterations, COCO's table after an evaluation."""
    epochs, lines = len(loss) // per_epoch, []
    for place, (value, rate) in enumerate(zip(loss, lr, strict=True)):
        epoch, iteration = place // per_epoch + 1, place % per_epoch + 1
        if iteration == 1:
            lines.append(f"2026-01-02 03:04:05 | INFO     | yolox.core.trainer:203 - ---> start train epoch{epoch}")
        if iteration % every == 0:
            l1 = 1.1 if l1_from and epoch >= l1_from else 0.0
            lines.append(
                f"2026-01-02 03:04:05 | INFO     | yolox.core.trainer:261 - epoch: {epoch}/{epochs}, iter: {iteration}/"
                f"{per_epoch}, gpu mem: 6736Mb, mem: 12.3Gb, iter_time: 0.306s, data_time: 0.012s, "
                f"total_loss: {value:.1f}, iou_loss: 2.4, l1_loss: {l1}, conf_loss: 2.0, cls_loss: 0.7, "
                f"lr: {rate:.3e}, size: {640 + 32 * (place % 3)}, ETA: 1 day, 10:23:42"
            )
        if iteration == per_epoch and scores is not None:
            half = 1.5 * scores[epoch - 1]
            lines += [
                "2026-01-02 03:04:05 | INFO     | yolox.core.trainer:352 - ",
                f" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = {scores[epoch - 1]:.3f}",
                f" Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = {half:.3f}",
                " Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = 0.001",
            ]
    return "\n".join(lines) + "\n"


def falling(count, seed=0, noise=0.01):
    share = np.arange(count) / count
    return (4 + 6 * np.exp(-share / 0.25)) * (1 + noise * np.random.default_rng(seed).standard_normal(count))
