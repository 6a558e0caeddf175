"""The Python of the pages runs, the blocks of a page in order, with what its text says is given.

That is a split and its images, their batches, a network's predictions, frames. Large sizes are replaced by small ones.
"""

import re

import cv2
import pytest
import torch

from tests.detect.seeing import picture, save_seeing
from tests.docs.pages import DOCS
from yolofast import build_model
from yolofast.checkpoint.save import model_content, save_checkpoint
from yolofast.config.hyp import read_hyp
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.dataset.split import read_split
from yolofast.loader.validation_batches import validation_batches
from yolofast.store import open_images

RUN_ELSEWHERE = {
    "api.md": "tests/test_api.py, tests/track/test_tracker_state.py",
    "sweep.md": "tests/sweep/test_queue.py, tests/sweep/test_tune.py",
    "tracking-scores.md": "tests/commands/test_trackval.py",
}
"""As printed, by a test beside what they show."""
EXPORTED = "torch.export.export("
"""Takes a minute; `tests/detect/test_export.py` runs it as printed."""
SMALLER = [
    ("make_shapes(\"shapes\", n=1000", "make_shapes(\"shapes\", n=12"), ("n=40", "n=16"), ("range(300)", "range(1)"),
    ("shapes_data_yaml()  #", "shapes_data_yaml(n=12)  #"),
    ("workers=8", "workers=1"), ("batch_size=64", "batch_size=4"), ("64, 640, 32", "4, 64, 32"),
    ("320, 320", "64, 64"), ("160, 160", "64, 64"), ("device=\"cuda\"", "device=\"cpu\""),
]  # fmt: skip
WITH_PYTHON = [page for page in DOCS if "```python\n" in page.read_text("utf-8") and page.name not in RUN_ELSEWHERE]


def code_of(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    code = "\n".join(block for block in blocks if EXPORTED not in block and "# needs a GPU" not in block)
    for large, small in SMALLER:
        code = code.replace(large, small)
    return code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python")
    make_shapes(folder, n=12)
    save_seeing(folder / "best.pt", img_size=64)
    save_checkpoint(folder / "yolox_nano.pth", model_content(build_model("yolox-nano")))
    cv2.imwrite(str(folder / "street.jpg"), picture(0))
    return folder


@pytest.fixture
def given(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
    index = read_split(folder / "data.yaml", "train")
    images, _ = open_images(index, 64, 64, "off", device="cpu", say=lambda line: None)
    return {
        "index": index,
        "images": images,
        "hyp": read_hyp("hyp.scratch.tiny"),
        "batches": validation_batches(index, images, 4, 64, 32, rect=True),
        "predict": lambda images: torch.zeros(len(images), 1, 5 + len(index.names)),
        "paths": ["street.jpg", "street.jpg"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page, given):
    exec(compile(code_of(page), page.name, "exec"), given)


def test_every_block_of_python_is_run_by_some_test():
    pages = {page.name for page in DOCS if "```python\n" in page.read_text("utf-8")}
    assert {page.name for page in WITH_PYTHON} | {*RUN_ELSEWHERE} == pages and len(pages) >= 10
    printed = "".join(page.read_text("utf-8") for page in WITH_PYTHON)
    assert [large for large, _ in SMALLER if large not in printed] == []
