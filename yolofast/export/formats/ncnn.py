"""ncnn: a `.param` and a `.bin` that give the raw maps of each level; decoding stays outside.

Decoding inside does not survive the conversion: it puts YOLOv7-tiny's boxes 632 px off and says nothing. So
`yolofast.json` tells how the maps are read, and the comparison shows that the boxes decoded from them are right.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from torch import Tensor, nn

from yolofast.errors import UserError
from yolofast.export.formats.contract import DecodedNetwork, LayerValues
from yolofast.export.formats.facts import IMAGES, ExportFacts
from yolofast.export.formats.sidecar import add_fact
from yolofast.export.formats.traced import Traced
from yolofast.extensions import needed

LAYOUT = "raw_maps"
"""The fact of this format: what decoding needs to know."""


class Ncnn(Traced):
    title, extra, suffix, packages, raw = "ncnn", "ncnn", ".param", ("ncnn", "pnnx"), True
    lacks: ClassVar[Mapping[str, str]] = {**Traced.lacks, "--batch-size": "ncnn takes one image"}

    def refuse(self, facts: ExportFacts) -> None:
        super().refuse(facts)
        if facts.batch != 1:
            raise UserError(f"ncnn takes one image, but --batch-size is {facts.batch}", fix="omit --batch-size")

    def _convert(self, network: DecodedNetwork, images: Tensor, facts: ExportFacts, path: Path) -> None:
        pnnx = needed("pnnx", self.extra, "the ncnn format")
        with TemporaryDirectory(prefix="yolofast-ncnn-") as folder, _silent():
            asked = network if isinstance(network, LayerValues) else _RawMaps(network)
            pnnx.export(asked.eval(), str(Path(folder) / "raw.pt"), (images,), fp16=False)
            parts = {ending: Path(folder) / f"raw.ncnn{ending}" for ending in (".param", ".bin")}
            if not all(part.is_file() for part in parts.values()):
                raise RuntimeError("pnnx wrote no ncnn model")
            for ending, part in parts.items():
                path.with_suffix(ending).write_bytes(part.read_bytes())

    def write(self, network: DecodedNetwork, facts: ExportFacts, path: Path) -> None:
        super().write(network, facts, path)
        columns = network.class_columns
        said: dict[str, Any] = {
            "layout": asdict(network.layout),
            "anchors_px": network.anchors_px.tolist(),
            "class_columns": None if columns is None else columns.tolist(),
        }
        add_fact(path, LAYOUT, json.dumps(said))

    def python_lines(self, name: str, taken: str) -> tuple[str, str]:
        run = f"""network = ncnn.Net()
network.opt.use_fp16_packed = network.opt.use_fp16_storage = network.opt.use_fp16_arithmetic = False
network.load_param("{name}")
network.load_model("{Path(name).with_suffix(".bin")}")
asked = network.create_extractor()
asked.input("in0", ncnn.Mat({taken}[0]))
outputs = [np.array(asked.extract(value)[1]) for value in network.output_names()]
"""
        return "import ncnn", run

    def cpp_lines(self, name: str, facts: ExportFacts) -> tuple[str, str, str]:
        height, width = facts.shape
        run = f"""ncnn::Net network;
network.opt.use_fp16_packed = network.opt.use_fp16_storage = network.opt.use_fp16_arithmetic = false;
network.load_param("{name}");
network.load_model("{Path(name).with_suffix(".bin")}");
auto asked = network.create_extractor();
asked.input("in0", ncnn::Mat({width}, {height}, 3, {IMAGES}.ptr<float>()));
ncnn::Mat found;
asked.extract("out0", found);  // and out1, … of the other levels
"""
        return "#include <ncnn/net.h>\n", run, ""


class _RawMaps(nn.Module):
    def __init__(self, decoded: DecodedNetwork) -> None:
        super().__init__()
        self.network, self._maps = decoded.network, decoded.layout.levels * decoded.layout.heads

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.network(images)[: self._maps])


@contextmanager
def _silent() -> Iterator[None]:
    """The converter is a program that says at length what it does."""
    kept = [os.dup(number) for number in (1, 2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nothing, number)
        yield
    finally:
        for number, one in zip((1, 2), kept, strict=True):
            os.dup2(one, number)
            os.close(one)
        os.close(nothing)


NCNN = Ncnn()
