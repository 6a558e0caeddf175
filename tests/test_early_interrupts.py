"""Ctrl+C at moments of a command's start, before there is anything that could raise its exception to be caught."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from yolofast.interrupts import EXIT_INTERRUPTED, INTERRUPTED, interrupts_end_at_once, interrupts_raise

ROOT = Path(__file__).parent.parent
# Runs a program as Python would, and waits to be interrupted where it first imports a module. Where torch asks for
# numpy, an exception is lost: training would begin.
WAITING = """
import runpy, sys, time

class Waits:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            print("waiting", flush=True)
            time.sleep(3600)

moment, program, *sys.argv[1:] = sys.argv[1:]
sys.meta_path.insert(0, Waits())
run = runpy.run_path if program.endswith(".py") else runpy.run_module
run(program, run_name="__main__")
"""
MOMENTS = ("argparse", "yolofast.config.train", "yolofast.commands.train", "numpy", "torch", "yolofast.train.loop")


def interrupted_at(moment, program, *words):
    command = [sys.executable, "-c", WAITING, moment, program, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout.readline() == "waiting\n", process.communicate(timeout=PATIENCE)
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=PATIENCE)[1], process.returncode
    finally:
        process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_command_that_still_imports_ends_at_once(moment):
    assert interrupted_at(moment, "yolofast", "train") == (f"{INTERRUPTED}\n", EXIT_INTERRUPTED)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["train.py", "test.py", "detect.py"])
def test_so_do_the_drop_in_scripts(script):
    assert interrupted_at("numpy", script) == (f"{INTERRUPTED}\n", EXIT_INTERRUPTED)


def test_the_installed_command_starts_there_too():
    """Its few lines import the function that pyproject.toml names."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'yolofast = "yolofast.__main__:main"' in text


def test_afterwards_interrupts_are_exceptions_again():
    interrupts_end_at_once()
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    interrupts_raise()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_deaf_to_interrupts_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interrupts_end_at_once()
        interrupts_raise()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
