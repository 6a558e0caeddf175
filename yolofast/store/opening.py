"""The images of a split, wherever it is best to keep them: what loaders call."""

from collections.abc import Collection
from pathlib import Path

import torch

from yolofast.image_index import ImageIndex
from yolofast.pixels import ImageSource, PackedImages
from yolofast.precision import usable_device
from yolofast.store.choose import KINDS, Kind, StoreChoice, choose_cache, measure_room
from yolofast.store.fitted import Fit
from yolofast.store.images import FileImages, JpegImages, in_host_memory, open_packed, to_device
from yolofast.store.packed_store import store_folder, store_name
from yolofast.store.packing import FLAVOURS, Flavour, PackJob, Progress, Say


def open_images(
    index: ImageIndex,
    width: int,
    height: int,
    cache: str = "auto",
    *,
    device: torch.device | str = "cpu",
    augmented: bool = True,
    shared: bool = False,
    among: Collection[Kind] = KINDS,
    folder: Path | None = None,
    threads: int | None = None,
    say: Say,
    progress: Progress | None = None,
) -> tuple[ImageSource | PackedImages, StoreChoice]:
    """The images fitted to width × height, and the choice of where they are; packed now if that was not done before.

    `cache` is auto, gpu, ram, disk, jpeg or off. `PackedImages` come from gpu, ram and disk: all bytes at once.
    `auto` chooses `among` some of these, `off` included.
    `shared`: several processes of this machine want them, so ram is the mapped file, which they have in common.
    """
    device = usable_device(device)
    pixels, jpeg = (_job(index, Fit(width, height, augmented), flavour, folder) for flavour in FLAVOURS)
    choice = _choose(pixels, jpeg, cache, device, among)
    together = "; one mapped file for all processes" if shared and choice.kind == "ram" else ""
    say(f"images: cache {choice.kind} ({choice.reason}{together})")
    if choice.kind == "off":
        return FileImages(index, width, height, augmented), choice
    if choice.kind == "jpeg":
        return JpegImages(jpeg.run(threads, progress, say)), choice
    packed = open_packed(pixels.run(threads, progress, say))
    if choice.kind == "gpu":
        packed = to_device(packed, device)
    elif choice.kind == "ram" and not shared:
        packed = in_host_memory(packed, pinned=device.type == "cuda")
    return packed, choice


def _job(index: ImageIndex, fit: Fit, flavour: Flavour, folder: Path | None) -> PackJob:
    return PackJob(index, fit, flavour, folder or store_folder(index, store_name(index, fit, flavour)))


def _choose(pixels: PackJob, jpeg: PackJob, cache: str, device: torch.device, among: Collection[Kind]) -> StoreChoice:
    room = measure_room(pixels.folder, device)
    return choose_cache(
        cache,
        int(pixels.pixel_bytes().sum()),
        gpu_free=room.gpu_free,
        ram_free=room.ram_free,
        disk_free=room.disk_free,
        cores=room.cores,
        pixels_on_disk=pixels.taken_bytes(),
        jpeg_on_disk=jpeg.taken_bytes(),
        among=among,
    )
