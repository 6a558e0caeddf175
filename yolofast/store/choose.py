"""Where the pixels live: a pure function of the request, what is needed and what is free; and how much is free.

Every kind but `off` starts from a packed file, so it needs room on the disk too. `auto` takes only a share of free
memory, because training needs some as well; a kind named by the user may take nearly all of it. It never takes
`jpeg-ram` and `jpeg-gpu`: the page cache keeps a `jpeg` store in memory that is free, without a wait at the start.
"""

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import psutil
import torch

from yolofast.errors import UserError, nearest, shorten
from yolofast.files.threads import usable_cores
from yolofast.ranks import ranks_here
from yolofast.words import amount

Kind = Literal["gpu", "ram", "disk", "jpeg-gpu", "jpeg-ram", "jpeg", "off"]
KINDS: tuple[Kind, ...] = get_args(Kind)

AUTO_GPU_SHARE = 0.5
AUTO_RAM_SHARE = 0.6
NAMED_SHARE = 0.9
DISK_SHARE = 0.95
JPEG_SHARE = 0.2
"""Room required per byte of pixels. About a seventh is used (0.13 to 0.15 measured at quality 95 on VOC and COCO at
320); more is required, because images differ."""
_GPU = "GPU memory"
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class StoreChoice:
    kind: Kind
    reason: str
    """One sentence with the numbers."""


@dataclass(frozen=True)
class _Need:
    """What a kind takes of one resource, and how much of it there is."""

    needed: int
    resource: str
    free: int
    share: float

    @property
    def fits(self) -> bool:
        return self.needed <= self.free * self.share

    @property
    def is_absent_gpu(self) -> bool:
        return self.resource == _GPU and not self.free

    def __str__(self) -> str:
        if not self.needed:
            return f"no more {self.resource} is needed"
        if self.is_absent_gpu:
            return "there is no GPU to use"
        verb = "fits" if self.fits else "does not fit"
        return f"{amount(self.needed)} {verb} {self.share:.0%} of the {amount(self.free)} of free {self.resource}"


@dataclass(frozen=True)
class FreeRoom:
    gpu_free: int
    ram_free: int
    disk_free: int
    cores: int


def choose_cache(
    request: str,
    bytes_needed: int,
    room: FreeRoom,
    *,
    pixels_on_disk: int = 0,
    jpeg_on_disk: int = 0,
    among: Collection[Kind] = KINDS,
) -> StoreChoice:
    """The kind of cache for `bytes_needed` bytes of pixels. A requested kind that cannot fit is a `UserError`.

    `auto` chooses `among` these, of which one has to be `off`. What is on the disk already, of a finished store or of
    an unfinished one, needs no more room there.
    """
    auto = request == "auto"
    if not auto and request not in KINDS:
        what = f"there is no cache {shorten(request)}{nearest(request, ('auto', *KINDS))}"
        raise UserError(what, fix=f"use one of auto, {', '.join(KINDS)}")
    disk = _Need(max(0, bytes_needed - pixels_on_disk), "disk", room.disk_free, DISK_SHARE)
    jpeg = _Need(0 if jpeg_on_disk else int(bytes_needed * JPEG_SHARE), "disk", room.disk_free, DISK_SHARE)
    share = AUTO_RAM_SHARE if auto else NAMED_SHARE
    jpeg_bytes = jpeg_on_disk or int(bytes_needed * JPEG_SHARE)
    needs: dict[Kind, tuple[_Need, ...]] = {
        "gpu": (_Need(bytes_needed, _GPU, room.gpu_free, AUTO_GPU_SHARE if auto else NAMED_SHARE), disk),
        "ram": (_Need(bytes_needed, "RAM", room.ram_free, share), disk),
        "disk": (disk,),
        "jpeg-gpu": (_Need(jpeg_bytes, _GPU, room.gpu_free, NAMED_SHARE), jpeg),
        "jpeg-ram": (_Need(jpeg_bytes, "RAM", room.ram_free, share), jpeg),
        "jpeg": (jpeg,),
        "off": (),
    }
    unusual = ("jpeg-gpu", "jpeg-ram")
    usual: dict[Kind, tuple[_Need, ...]] = {
        kind: needs[kind] for kind in needs if kind in among and kind not in unusual
    }
    if auto:
        return _first_that_fits(usual, room.cores)
    kind = next(kind for kind in KINDS if kind == request)
    if lacking := [need for need in needs[kind] if not need.fits]:
        instead = _first_that_fits(usual, room.cores).kind
        what = f"--cache {request} cannot work: " + ", and ".join(map(str, lacking))
        raise UserError(what, fix=f"use --cache {instead} or auto, a smaller --img, or make room")
    return StoreChoice(kind, "as requested" + "".join(f"; {need}" for need in needs[kind][:1]))


def _first_that_fits(needs: dict[Kind, tuple[_Need, ...]], cores: int) -> StoreChoice:
    refused: list[str] = []
    for kind, required in needs.items():
        lacking = [need for need in required if not need.fits]
        if not lacking:
            work = [f"{cores} cores decode every image each time"] if kind in ("jpeg", "off") else []
            return StoreChoice(kind, "; ".join([*dict.fromkeys(refused), *map(str, required[:1]), *work]))
        # On a machine without a GPU "the GPU is too small" says nothing.
        refused += [str(need) for need in lacking if not need.is_absent_gpu]
    raise AssertionError("off always fits")


def measure_room(folder: Path, device: torch.device) -> FreeRoom:
    """RAM is divided among the processes a launcher has started on this machine: each would hold a copy."""
    gpu_free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    return FreeRoom(gpu_free, ram_free() // ranks_here(), disk_free(folder), usable_cores())


def disk_free(folder: Path) -> int:
    """Free bytes where `folder` is, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def ram_free() -> int:
    """What the machine has available, or the container if it is allowed less."""
    free = int(psutil.virtual_memory().available)
    limits = [room for group in _own_cgroups() if (room := cgroup_room(group)) is not None]
    return min([free, *limits])


def cgroup_room(group: Path) -> int | None:
    """Bytes a control group (of version 2 or 1) may still take; None without a limit.

    Cached files count as used there but are released when memory is needed.
    """
    for limit_file, used_file, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            limit, used = (group / limit_file).read_text().strip(), int((group / used_file).read_text())
            statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        if limit != "max":
            return max(0, int(limit) - used + int(statistics.get(cached, 0)))
    return None


def _own_cgroups() -> list[Path]:
    """This process's groups and those around them; a container may see its own as the root."""
    groups: list[Path] = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return groups
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            root = _CGROUPS / controllers
            own = root / path.lstrip("/")
            groups += [place for place in (own, *own.parents) if place.is_relative_to(root)]
    return groups
