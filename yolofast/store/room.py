"""How much memory and disk is free, as far as this process may use it."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Room:
    gpu_free: int
    ram_free: int
    disk_free: int
    cores: int


def measure_room(folder: Path, device: torch.device) -> Room:
    """RAM is divided among the processes a launcher has started on this machine: each would hold a copy."""
    ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
    gpu_free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    return Room(gpu_free, ram_free() // ranks, disk_free(folder), usable_cores())


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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

    Cached files count as used there but make way when memory is wanted.
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
