"""The page of `yolofast serve` in a browser: an image that is chosen or dropped is shown with its objects."""

import base64
import re
import signal
import subprocess
import sys

import cv2
import pytest

from tests.detect.seeing import picture, save_seeing
from tests.patience import PATIENCE
from tests.programs import Program
from yolofast import Detector

pytest.importorskip("uvicorn", reason="the extra yolofast[serve] is not installed")
NAMES = ("<b>cat</b>", "dog", "cow")
TOKEN = "a-token-of-some-length"
DROP = """
([content, name]) => {
    const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0)), moved = new DataTransfer();
    moved.items.add(new File([bytes], name));
    document.getElementById("drop").dispatchEvent(new DragEvent("drop", {dataTransfer: moved, cancelable: true}));
}
"""


def test_an_image_is_chosen_and_dropped_and_faults_are_told(watched, tmp_path):
    weights, image = save_seeing(tmp_path / "best.pt", NAMES, img_size=64), picture(3, 100, 80)
    content = cv2.imencode(".png", image)[1].tobytes()
    wanted = Detector(weights).predict(image)[0]
    words = ["serve", "--weights", str(weights), "--port", "0", "--token", TOKEN, "--device", "cpu"]
    program = Program([sys.executable, "-m", "yolofast", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    line = next(one for one in program.stdout if b"http://" in one).decode()
    one = watched()
    page = one.page
    page.goto(re.search(r"http://\S+", line)[0])
    rows = page.locator("#rows tr")
    page.set_input_files("#file", {"name": "street.png", "mimeType": "image/png", "buffer": content})
    rows.first.wait_for()
    names = rows.locator("td:first-child").all_inner_texts()
    assert names == [NAMES[label] for label in wanted.labels] and "<b>cat</b>" in names
    assert page.locator("#said").inner_text().startswith(f"{len(names)} objects")
    shape = page.locator("#picture").evaluate("canvas => [canvas.width, canvas.height]")
    assert shape == [80, 100]
    page.evaluate(DROP, [base64.b64encode(b"no image").decode(), "notes.txt"])
    page.get_by_text("send JPEG, PNG, BMP or WebP").wait_for()
    assert rows.count() == 0, "what was found before is not shown beside the fault"
    page.evaluate(DROP, [base64.b64encode(content).decode(), "street.png"])
    rows.first.wait_for()
    assert rows.count() == len(names)
    page.goto("about:blank")  # no connection stays open
    program.send_signal(signal.SIGTERM)
    assert program.wait(PATIENCE) == 0
    program.stdout.close()
    one.errors = [error for error in one.errors if "415" not in error]  # the fault that was made above
    one.assert_harmless()
