"""Which cache is chosen, with what reason, and what is refused."""

from dataclasses import replace

import pytest

from yolofast.errors import UserError
from yolofast.store import FreeRoom, choose_cache
from yolofast.store.choose import cgroup_room

GB = 10**9


def choose(request, needed, gpu=0, ram=0, disk=0):
    return choose_cache(request, int(needed * GB), FreeRoom(gpu * GB, ram * GB, disk * GB, cores=8))


@pytest.mark.parametrize(
    ("needed", "gpu", "ram", "disk", "kind"),
    [
        (25, 139, 500, 900, "gpu"),
        (50, 100, 500, 900, "gpu"),  # exactly half of the GPU's memory
        (50.1, 100, 500, 900, "ram"),
        (25, 0, 500, 900, "ram"),  # no GPU
        (60, 100, 100, 900, "ram"),  # exactly 60 % of the RAM
        (60.1, 100, 100, 900, "disk"),
        (95, 0, 0, 100, "disk"),  # exactly all but 5 % of the disk
        (95.1, 0, 0, 100, "jpeg"),
        (475, 0, 0, 100, "jpeg"),  # a fifth of it is 95
        (476, 0, 0, 100, "off"),
        (25, 139, 500, 10, "jpeg"),  # GPU and RAM are filled from the packed file, which has no room
        (25, 139, 500, 0, "off"),
        (0, 0, 0, 0, "gpu"),
    ],
)
def test_auto(needed, gpu, ram, disk, kind):
    assert choose("auto", needed, gpu, ram, disk).kind == kind


def test_the_reason_has_the_numbers():
    assert choose("auto", 25, 139, 500, 900).reason == "25.0 GB fits 50% of the 139.0 GB of free GPU memory"
    reason = choose("auto", 25, 40, 30, 100).reason
    assert reason == (
        "25.0 GB does not fit 50% of the 40.0 GB of free GPU memory; "
        "25.0 GB does not fit 60% of the 30.0 GB of free RAM; 25.0 GB fits 95% of the 100.0 GB of free disk"
    )
    reason = choose("auto", 25, 0, 500, 10).reason
    assert reason == (
        "25.0 GB does not fit 95% of the 10.0 GB of free disk; 5.0 GB fits 95% of the 10.0 GB of free disk; "
        "8 cores decode every image each time"
    )


def test_auto_among_some():
    """Whoever did not ask for a kind is not told so, nor refused when it does not fit."""
    room, kinds = FreeRoom(100 * GB, 100 * GB, 50 * GB, cores=8), ("disk", "off")
    choice = choose_cache("auto", 10 * GB, room, among=kinds)
    assert (choice.kind, choice.reason) == ("disk", "10.0 GB fits 95% of the 50.0 GB of free disk")
    assert choose_cache("auto", 10 * GB, replace(room, disk_free=5 * GB), among=kinds).kind == "off"
    assert choose_cache("ram", 10 * GB, room, among=kinds).kind == "ram"


def test_jpegs_in_memory_are_asked_for():
    """65 GB for two million images at 320 are a fifth of their pixels at most."""
    assert choose("auto", 325, ram=500, disk=100).kind == "jpeg"
    assert (
        choose("jpeg-ram", 325, ram=500, disk=100).reason
        == "as requested; 65.0 GB fits 90% of the 500.0 GB of free RAM"
    )
    with pytest.raises(UserError, match=r"65\.0 GB does not fit 90% of the 64\.0 GB of free RAM"):
        choose("jpeg-ram", 325, ram=64, disk=100)
    assert "65.0 GB fits 90% of the 140.0 GB of free GPU memory" in choose("jpeg-gpu", 325, gpu=140, disk=100).reason
    with pytest.raises(UserError, match="there is no GPU to use"):
        choose("jpeg-gpu", 325, ram=500, disk=100)


@pytest.mark.parametrize("kind", ["gpu", "ram", "disk", "jpeg-gpu", "jpeg-ram", "jpeg", "off"])
def test_what_is_asked_for_and_fits_is_taken(kind):
    choice = choose(kind, 80, 100, 100, 100)  # more than auto would take of the GPU's memory
    assert choice.kind == kind
    assert choice.reason.startswith("as requested")


@pytest.mark.parametrize(
    ("request_", "room", "what", "fix"),
    [
        ("gpu", {"gpu": 20, "ram": 100, "disk": 100}, "25.0 GB does not fit 90% of the 20.0 GB of free GPU", "ram"),
        ("gpu", {"ram": 100, "disk": 100}, "--cache gpu cannot work: there is no GPU", "ram"),
        ("ram", {"ram": 20, "disk": 100}, "25.0 GB does not fit 90% of the 20.0 GB of free RAM", "disk"),
        ("disk", {"ram": 100, "disk": 20}, "25.0 GB does not fit 95% of the 20.0 GB of free disk", "jpeg"),
        ("ram", {"ram": 100, "disk": 20}, "25.0 GB does not fit 95% of the 20.0 GB of free disk", "jpeg"),
        ("jpeg", {"disk": 1}, "5.0 GB does not fit 95% of the 1.0 GB of free disk", "off"),
    ],
)
def test_what_is_asked_for_but_cannot_fit_is_refused(request_, room, what, fix):
    with pytest.raises(UserError) as caught:
        choose(request_, 25, **room)
    assert what in str(caught.value)
    assert f"--cache {fix} or auto" in str(caught.value)


def test_an_unknown_cache_gets_the_nearest_name():
    with pytest.raises(UserError, match="there is no cache 'dsk', did you mean 'disk'"):
        choose("dsk", 1)


def group(folder, **files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


def test_a_containers_limit_counts_and_cached_files_make_way(tmp_path):
    stat = "anon 5\ninactive_file 300\n"
    v2 = group(tmp_path / "v2", memory__max="1000\n", memory__current="800\n", memory__stat=stat)
    assert cgroup_room(v2) == 500
    full = group(tmp_path / "full", memory__max="1000\n", memory__current="1400\n", memory__stat=stat)
    assert cgroup_room(full) == 0
    endless = group(tmp_path / "endless", memory__max="max\n", memory__current="800\n", memory__stat=stat)
    assert cgroup_room(endless) is None
    v1 = group(
        tmp_path / "v1",
        memory__limit_in_bytes="900\n",
        memory__usage_in_bytes="800\n",
        memory__stat="total_inactive_file 100\n",
    )
    assert cgroup_room(v1) == 200
    assert cgroup_room(tmp_path / "none") is None
