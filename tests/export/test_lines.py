"""The lines of a folder's README. C++ is compiled and run with OpenVINO, whose wheel has its headers. Python's are
run here for ONNX files of every make-up, and where the other formats are tested.
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture
from tests.export.test_onnx_nodes import FACTS
from tests.export.test_runtimes import VARIANTS, variant
from yolofast import Detector
from yolofast.cli import main
from yolofast.export.folder import readme
from yolofast.export.formats.contract import export_format
from yolofast.export.lines import cpp_lines, python_lines
from yolofast.export.runtimes.contract import open_session
from yolofast.export.runtimes.detections import detect
from yolofast.extensions import EXPORT_FORMATS

WAYS = {
    "detections": {},
    "end2end": {"end2end": True},
    "raw": {"nms": "none"},
    "prepares": {"image_order": "rgb"},
    "batch": {"batch": 4},
}
STUB = Path(__file__).parent / "cpp"


def inside(lines):
    """Headers, and what stands in `main`."""
    every = lines.splitlines()
    headers = [line for line in every if line.startswith("#include")]
    return headers, "\n".join(line for line in every if line not in headers)


@pytest.mark.parametrize("to", EXPORT_FORMATS)
def test_every_format_takes_a_picture_and_leaves_no_gap(to):
    form = export_format(to)
    facts = replace(FACTS, nms=form.suppressions[0], shape=(64, 96))
    lines = cpp_lines("best" + form.suffix, facts, form)
    assert "best" + form.suffix in lines and "prepared()" not in lines and "street.jpg" in lines
    assert "64.0 / picture.rows" in lines and "1 / 255.0" in lines and "{place}" not in lines
    assert to in ("tensorrt", "coreml", "ncnn") or "std::cout" in lines or "const float* rows" in lines


def test_what_the_readme_says_of_inputs_and_of_yolofast():
    form = export_format("onnx")
    words = readme("best.onnx", replace(FACTS, threshold_inputs=True), form, runs=True)
    assert "`max_det`: int64 [1]" in words and "yolofast val --weights best.onnx --data data.yaml" in words
    words = readme("best.tflite", replace(FACTS, nms="none"), export_format("litert"), runs=False)
    assert "Detector(" not in words and "max_det`: int64" not in words


def test_no_lines_are_given_that_cannot_run():
    words = readme("best.onnx", replace(FACTS, nms="efficientnms"), export_format("onnx"), runs=True)
    assert "onnxruntime" not in words and "trtexec --onnx=best.onnx --saveEngine=best.engine" in words
    words = readme("best.engine", replace(FACTS, nms="efficientnms"), export_format("tensorrt"), runs=True)
    assert "deserialize_cuda_engine" in words and "trtexec" not in words


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_lines_of_python_find_what_the_whole_file_finds(name, exported, tmp_path, monkeypatch, capsys):
    session = open_session(variant(exported, tmp_path / "model.onnx", **VARIANTS[name]), "onnx")
    image = picture(2, 64, 64)
    cv2.imwrite(str(tmp_path / "street.png"), image)
    (tmp_path / "street.png").rename(tmp_path / "street.jpg")  # without loss
    monkeypatch.chdir(tmp_path)
    exec(compile(python_lines("model.onnx", session.facts, export_format("onnx")), "README.md", "exec"), {})
    said = capsys.readouterr().out
    if session.facts.nms == "none":
        assert said == f"(1, {session.predict(np.zeros((1, 3, 64, 64), np.float32)).shape[1]}, 8)\n"
        return
    printed = np.array([line.split() for line in said.splitlines()], float)
    (wanted,) = detect(session, [image])
    assert len(printed) == len(wanted) > 3
    np.testing.assert_array_equal(printed[:, 0], wanted.labels)
    np.testing.assert_allclose(printed[:, 1], wanted.scores, atol=1e-5)
    np.testing.assert_allclose(printed[:, 2:].clip(0, 64), wanted.boxes, atol=1e-2)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_openvinos_lines_of_cpp_find_what_the_detector_finds(exported, tmp_path):
    openvino = pytest.importorskip("openvino", reason="the extra yolofast[openvino] is not installed")
    room = Path(openvino.__file__).parent
    if not (room / "include" / "openvino" / "openvino.hpp").exists():
        pytest.skip("this wheel of openvino has no headers")
    out = tmp_path / "made"
    flags = ["--weights", exported / "best.pt", "--to", "openvino", "--out", out, "--images", 1, "--no-check"]
    assert main(["export", *map(str, flags)]) == 0
    headers, body = inside((out / "README.md").read_text().partition("```cpp\n")[2].partition("```")[0])
    form = export_format("openvino")
    others = [inside(cpp_lines("best.xml", replace(FACTS, **way), form))[1] for way in WAYS.values()]
    functions = "".join(f"void way{number}() {{\n{one}\n}}\n" for number, one in enumerate(others))
    (tmp_path / "main.cpp").write_text("\n".join(headers) + f"\n{functions}int main() {{\n{body}\n}}\n")
    (library,) = (room / "libs").glob("libopenvino.so.*")
    command = ["g++", "-std=c++17", "-I", STUB, "-I", room / "include", "main.cpp", "-o", "run", library]
    subprocess.run([*map(str, command), f"-Wl,-rpath,{room / 'libs'}"], cwd=tmp_path, check=True)
    image = picture(5, 64, 64)
    (out / "street.jpg").write_bytes(image.tobytes())
    said = subprocess.run([tmp_path / "run"], cwd=out, check=True, capture_output=True, text=True).stdout
    printed = np.array([line.split() for line in said.splitlines()], float)
    wanted = Detector(out).predict(image)[0]
    assert len(printed) == len(wanted.scores) > 3
    np.testing.assert_array_equal(printed[:, 0], wanted.labels)
    np.testing.assert_allclose(printed[:, 1], wanted.scores, atol=1e-4)
    np.testing.assert_allclose(printed[:, 2:].clip(0, 64), wanted.boxes, atol=1e-2)
