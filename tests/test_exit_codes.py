"""How a command ends that the machine has no memory for."""

import mmap

import pytest

from yolofast.exit_codes import call


@pytest.mark.parametrize("take", [lambda: mmap.mmap(-1, 2**60), lambda: bytearray(2**60)], ids=["system", "python"])
def test_memory_that_is_not_there_is_one_message(take, capfd):
    """Not a traceback, nor "the output cannot be written": nothing is wrong with the disk."""
    assert call(lambda: take() and 0) == 2
    said = capfd.readouterr().err
    assert said.startswith("yolofast: error: memory ran out: ") and "--cache off" in said and said.count("\n") == 2
