"""Weights of a very small network that was never trained, but whose biases make it see something everywhere."""

import cv2
import numpy as np
import torch

from tests.model.small import SMALL
from yolofast import build_model
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.image_bytes import quiet_opencv


def save_seeing(path, names=("cat", "dog", "cow"), img_size=None, seed=0):
    torch.manual_seed(seed)
    model = build_model(SMALL, nc=len(names))
    model.names = tuple(names)
    with torch.no_grad():
        for conv in model.head.m:
            conv.weight.mul_(30)
            conv.bias[4 :: 5 + len(names)] = 0.0
    extra = {} if img_size is None else {"config": {"img_size": [img_size]}}
    return save_checkpoint(path, model_content(model, **extra))


def picture(seed, height=48, width=64):
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)


def save_video(path, frames=10, fps=12.0, height=48, width=64):
    quiet_opencv()
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), fps, (width, height))
    for number in range(frames):
        writer.write(picture(number, height, width))
    writer.release()
    return path


def video_facts(path):
    """Pictures that can be read, and how many of them a second has."""
    capture = cv2.VideoCapture(str(path))
    fps, count = capture.get(cv2.CAP_PROP_FPS), 0
    while capture.read()[0]:
        count += 1
    capture.release()
    return count, fps
