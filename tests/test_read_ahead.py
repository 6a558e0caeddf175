import os
import sys
import threading

import pytest

from tests.patience import PATIENCE
from yolofast import __main__, cli
from yolofast.files.threads import import_meanwhile, read_ahead


def test_all_items_in_their_order():
    assert list(read_ahead((n for n in range(20)), 3)) == list(range(20))


def test_no_more_than_asked_for_are_made_ahead():
    made = []

    def items():
        for n in range(100):
            made.append(n)
            yield n

    ahead = read_ahead(items(), 2)
    assert next(ahead) == 0
    ahead.close()
    assert len(made) <= 5  # one taken, two ready, one on offer, and one more as the stop comes


def test_what_goes_wrong_is_raised_where_the_items_are_used():
    def items():
        yield 1
        raise ValueError("torn")

    ahead = read_ahead(items(), 4)
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="torn"):
        next(ahead)


def test_leaving_early_ends_the_source_and_the_thread():
    ended = threading.Event()

    def items():
        try:
            while True:
                yield 0
        finally:
            ended.set()

    ahead = read_ahead(items(), 1)
    next(ahead)
    ahead.close()
    assert ended.wait(PATIENCE)
    assert not [thread for thread in threading.enumerate() if thread.name == "yolofast-read-ahead"]


def test_a_program_ends_by_itself_while_a_thread_is_still_in_compiled_code(monkeypatch):
    """Python would end the thread there, and that aborts the process: no exit code, an odd last line."""
    go_on, ends = threading.Event(), []
    monkeypatch.setattr(os, "_exit", ends.append)

    def items():
        yield 1
        go_on.wait(PATIENCE)

    def interrupted():
        ahead = read_ahead(items(), 1, patience=0.01)
        next(ahead)
        ahead.close()
        return 130

    monkeypatch.setattr(cli, "main", interrupted)
    monkeypatch.setattr(__main__, "interrupts_end_at_once", lambda: None)
    __main__.main()
    assert ends == [130]
    go_on.set()
    for thread in [one for one in threading.enumerate() if one.name == "yolofast-read-ahead"]:
        thread.join(PATIENCE)
    monkeypatch.setattr(cli, "main", lambda: 0)
    assert __main__.main() == 0 and ends == [130]


def test_what_is_needed_later_is_imported_by_a_thread(tmp_path, monkeypatch):
    """One that fails keeps the others from nothing."""
    (tmp_path / "needed_later.py").write_text("import threading\nBY = threading.current_thread().name\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_meanwhile("no.such.module", "needed_later").join()
    assert sys.modules.pop("needed_later").BY == "yolofast-imports"
