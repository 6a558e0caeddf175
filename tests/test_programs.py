"""Programs that are forked behave as those that Python starts."""

import os
import signal
import subprocess
import sys

import pytest

from tests.programs import Program, run
from tests.train.small_run import flags

pytestmark = pytest.mark.slow

REPORT = """
import os, sys, signal
print(sys.argv, os.getcwd(), os.environ.get("GIVEN"), os.getpid() == os.getsid(0), __name__)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, sys.stdin.read(), file=sys.stderr)
sys.exit(7)
"""


def said_by(start, folder):
    options = {"cwd": folder, "env": {**os.environ, "GIVEN": "ä"}, "start_new_session": True, "text": True}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start([sys.executable, "-c", REPORT, "word"], **pipes, **options) as program:
        return *program.communicate("given"), program.wait()


def test_streams_words_place_environment_and_code_are_those_of_a_process(tmp_path):
    assert said_by(Program, tmp_path) == said_by(subprocess.Popen, tmp_path)


def test_a_killed_one_and_one_that_raises(tmp_path):
    with Program([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        assert waiting.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.01)
        waiting.kill()
    assert waiting.returncode == -signal.SIGKILL
    raised = run([sys.executable, "-c", "import atexit; atexit.register(print, 'end'); 1 / 0"])
    assert raised.returncode == 1 and raised.stdout == "end\n" and raised.stderr.endswith("division by zero\n")


def in_new_python(code):
    """What it prints; programs that are forked have more in memory than they import."""
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout


def test_building_a_network_imports_no_compiler():
    """It would take two seconds of every start: nothing may be drawn or divided on the meta device."""
    code = "import sys, yolofast; yolofast.build_model('yolov7-tiny'); print('torch._dynamo' in sys.modules)"
    assert in_new_python(code) == "False\n"


def test_training_imports_neither_sweeps_nor_trackers():
    """Only `--evolve` needs them, and SciPy's optimizers with them."""
    asked = "[name in sys.modules for name in ('yolofast.sweep', 'yolofast.track', 'scipy.optimize')]"
    code = f"import sys, yolofast.commands.train; print({asked})"
    assert in_new_python(code) == "[False, False, False]\n"


NOT_BEFORE_THE_FIRST_UPDATE = (
    "torch._dynamo", "torch._inductor", "torch.onnx", "torch.distributed.tensor", "sympy", "scipy.special",
    "scipy.optimize", "scipy.linalg", "scipy.stats", "scipy.spatial", "matplotlib", "pandas", "tensorboard", "PIL",
    "torchvision", "pydantic", "onnx", "requests", "yolofast.report", "yolofast.pages", "yolofast.sweep",
    "yolofast.track", "yolofast.motion", "yolofast.commands.explain", "yolofast.commands.sweep",
)  # fmt: skip
FIRST_UPDATE = """
import sys
from yolofast.cli import main
import yolofast.commands.train
from yolofast.train import loop
own, missing = loop.turn, sys.argv[1].split()
def turn(*given, **named):
    made = own(*given, **named)
    print("there:", [name for name in missing if name in sys.modules])
    sys.exit(0)
loop.turn = turn
main(sys.argv[2:])
"""


def test_until_the_first_update_nothing_is_imported_that_it_does_not_need(tmp_path):
    """Of a plain training, but for its picture of the labels: where a GPU trains, another process draws that."""
    words = [" ".join(NOT_BEFORE_THE_FIRST_UPDATE), "train", *flags(tmp_path), "--no-plots"]
    said = subprocess.run([sys.executable, "-c", FIRST_UPDATE, *words], stdout=subprocess.PIPE, text=True).stdout
    assert "\nthere: []\n" in said


@pytest.mark.parametrize(("first", "kept"), [("", "True"), ("import torch; ", "False")])
def test_what_a_program_imports_first_is_not_searched_for_garbage(first, kept):
    """Where torch is there already, it is a part of a larger program, whose garbage is its own."""
    code = f"{first}import argparse, gc; from yolofast.exit_codes import run_command; gc.collect()\n"
    code += "run_command('builtins:id', argparse.Namespace()); print(gc.get_freeze_count() > 1000, gc.isenabled())"
    assert in_new_python(code) == f"{kept} True\n"


def test_scripts_and_modules(tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 3\n")
    (tmp_path / "script.py").write_text("import sys, beside\nprint(sys.argv[1:], beside.VALUE, __name__)\n")
    for words in ([tmp_path / "script.py", "a"], ["-m", "script", "a"]):
        assert run([sys.executable, *words], cwd=tmp_path).stdout == "['a'] 3 __main__\n"
