"""How a command begins, and how one ends that the machine has no memory for."""

import argparse
import mmap
import threading

import pytest

from yolofast import exit_codes
from yolofast.exit_codes import call, run_command


@pytest.mark.parametrize("take", [lambda: mmap.mmap(-1, 2**60), lambda: bytearray(2**60)], ids=["system", "python"])
def test_memory_that_is_not_there_is_one_message(take, capfd):
    """Not a traceback, nor "the output cannot be written": nothing is wrong with the disk."""
    assert call(lambda: take() and 0) == 2
    said = capfd.readouterr().err
    assert said.startswith("yolofast: error: memory ran out: ") and "--cache off" in said and said.count("\n") == 2


class Driver:
    def __init__(self, name):
        self.name = name
        if name != "libcuda.so.1" or Driver.missing:
            raise OSError("cannot open shared object file")

    def cuInit(self, flags):  # noqa: N802 - the driver's own name
        Driver.asked.append((flags, threading.current_thread().name))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    ("where", "device", "asked"),
    [("train", "", True), ("train", "1", True), ("train", None, True), ("train", "cpu", False), ("val", "", False)],
)
def test_the_driver_looks_for_gpus_while_training_is_imported(where, device, asked, missing, monkeypatch):
    Driver.asked, Driver.missing = [], missing
    ran = []
    monkeypatch.setattr(exit_codes.ctypes, "CDLL", Driver)
    monkeypatch.setattr(exit_codes, "found", lambda where: ran.append)
    args = argparse.Namespace() if device is None else argparse.Namespace(device=device)
    assert run_command(f"yolofast.commands.{where}:run", args) == 0 and ran == [args]
    for thread in threading.enumerate():
        if thread.name == "yolofast-driver":
            thread.join()
    assert Driver.asked == ([(0, "yolofast-driver")] if asked and not missing else [])
