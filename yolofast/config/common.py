"""The settings that train, val and predict share: where a run computes, and where its files go."""

import re
from dataclasses import dataclass
from typing import Literal

from yolofast.config import section
from yolofast.config.settings import Settings
from yolofast.errors import UserError, shorten

Precision = Literal["auto", "bf16", "fp16", "fp32"]
Gear = Literal["auto", "eager", "compile", "graph"]
Cache = Literal["auto", "gpu", "ram", "disk", "jpeg-gpu", "jpeg-ram", "jpeg", "off"]

TRUST = "take the index of an earlier start as it is: no file is looked at, so start at once; for data that stay"
_DEVICE = re.compile(r"|cpu|mps|cuda(:\d+)?|(cuda:)?\d+(,\d+)*")


# ruff: noqa: RUF009 - `section` makes dataclass fields
@dataclass(frozen=True, kw_only=True)
class RunConfig(Settings):
    """`Config()` has the defaults of `yolofast`, `Config.published()` those of the published script."""

    # fmt: off
    head_config: str = section.model(
        "", "--head-config", metavar="FILE", help="which head owns which classes (1B4H), or standard …")
    device: str = section.speed(
        "", "--device", yolov7=True, changes_on_resume=True,
        help="0, or cpu; empty: the first GPU; 0,1,2,3 trains on several")
    precision: Precision = section.speed(
        "auto", "--precision", shortcuts={"--half": "fp16"},
        help="number type of the network; auto: bf16 where the GPU has it, else fp16, fp32 on the CPU")
    gear: Gear = section.speed(
        "auto", "--gear", shortcuts={"--compile": "compile"}, changes_on_resume=True,
        help="how a step is run: as written, compiled, or as a CUDA graph; auto: the fastest that works")
    project: str = section.output(
        "runs", "--project", yolov7=True, metavar="FOLDER", changes_on_resume=False, help="folder of runs")
    name: str = section.output(
        "exp", "--name", yolov7=True, changes_on_resume=False,
        help="folder of the run below --project; numbered if it exists")
    exist_ok: bool = section.output(False, "--exist-ok", yolov7=True, help="use the folder if it exists")
    # fmt: on

    @property
    def devices(self) -> tuple[str, ...]:
        """The numbers in `--device 0,1`; empty if it names none."""
        numbers = self.device.removeprefix("cuda:")
        return tuple(numbers.split(",")) if numbers[:1].isdigit() else ()

    @property
    def on_cpu(self) -> bool:
        """Whether `--device` names the CPU."""
        return self.device == "cpu"

    def check_together(self) -> None:
        if not _DEVICE.fullmatch(self.device):
            raise UserError(f"--device is {shorten(self.device)}", fix="give 0, or 0,1 for two GPUs, or cpu")
        if len(set(self.devices)) < len(self.devices):
            raise UserError(f"--device {self.device} names a GPU twice", fix="name each once")
        if self.on_cpu and (self.gear == "graph" or self.precision == "fp16"):
            flag = "--gear graph" if self.gear == "graph" else "--precision fp16"
            raise UserError(f"{flag} needs a GPU, but --device is cpu", fix="leave it at auto")
