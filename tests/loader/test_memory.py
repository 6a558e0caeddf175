"""Shared memory: refused in time, and no more of it after twenty epochs than after three."""

import errno
import os
import shutil
import sys
from pathlib import Path
from statistics import median

import psutil
import pytest

from tests.loader.small_set import made_up_loader
from tests.patience import PATIENCE
from tests.programs import run
from yolofast.errors import UserError
from yolofast.loader import carriers as shared_block


def own_memory(loader):
    """Bytes this process and the workers hold together, each page counted once. Pages of files, such as libraries, are
    left out: whether those count as somebody's own depends on what else runs on the machine."""
    held = 0
    for process in [os.getpid(), *loader.processes()]:
        fields = dict(line.split(":") for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:])
        held += sum(int(fields[name].split()[0]) for name in ("Pss_Anon", "Pss_Shmem")) * 1024
    return held


def growth(**options):
    """Bytes from the middle of epochs 3 to 7 to that of epochs 16 to 20: single ones jump by 5 MB now and then."""
    with made_up_loader(images=64, size=128, batch_size=16, workers=2, **options) as loader:
        held = []
        for epoch in range(1, 21):
            batches = loader.epoch(epoch)
            next(batches)
            held.append(own_memory(loader))
            assert sum(1 for _ in batches) == 3
    return median(held[-5:]) - median(held[2:7])


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "persistent=True", "fast=True"])
def test_memory_is_flat_over_twenty_epochs(options):
    """A batch is 0.8 MB. If one of an epoch's four were kept, it would be 10 MB after 13 epochs; what moves without
    being kept (freed pages, copies of pages the workers touch) was about 2 MB.

    In a process of its own: gaps that other tests have left in the heap fill up by and by, in each worker anew."""
    code = f"from tests.loader.test_memory import growth; print(growth({options}))"
    root = Path(__file__).parent.parent.parent
    done = run([sys.executable, "-c", code], cwd=root, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4e6


def test_too_little_memory_is_said_before_work_starts(monkeypatch):
    monkeypatch.setattr(shared_block, "ram_free", lambda: 100_000)
    for options in ({}, {"fast": True}):
        with pytest.raises(UserError) as caught:
            made_up_loader(workers=2, **options)
        message = str(caught.value)
        assert "6 batches of 8 images for 2 workers need" in message and "100.0 kB of memory is free" in message
        assert "--workers" in message and "--batch-size" in message
    made_up_loader(workers=0)


@pytest.fixture
def without_memfd(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")


def test_a_full_dev_shm_is_said_before_work_starts(without_memfd, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(64 << 20, 64 << 20, 0))
    with pytest.raises(UserError) as caught:
        made_up_loader(workers=2)
    message = str(caught.value)
    assert "590.0 kB" in message or "589.8 kB" in message  # 6 batches · 8 images · 3 · 64 · 64
    assert "0.0 kB of /dev/shm is free" in message and "--shm-size" in message


@pytest.mark.slow
@pytest.mark.parametrize("fast", [False, True])
def test_dev_shm_serves_where_there_is_nothing_better(without_memfd, fast):
    expected = [batch.images.clone() for batch in made_up_loader().epoch(0)]
    with made_up_loader(workers=2, fast=fast) as loader:
        for batch, images in zip(loader.epoch(0), expected, strict=True):
            assert (batch.images == images).all()
            mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "/dev/shm" in line]
            assert mapped and all(line.endswith("(deleted)") for line in mapped), "it has no name"


def test_memory_the_system_refuses_is_an_error(monkeypatch):
    def refuse(file, start, count):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    files = psutil.Process().num_fds()
    with pytest.raises(UserError, match=r"4\.1 kB of shared memory cannot be had: Cannot allocate memory"):
        shared_block.SharedBlock(4096)
    assert psutil.Process().num_fds() == files
