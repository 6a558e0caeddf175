"""Where the pixels live: images decoded once, resized, packed into one file, and read from there by everyone.

Reading order: `fitted` (a file -> pixels), `packed_store` (the format), `journal` and `packing` (making it), `choose`
(which kind fits), `images` (opening and reading it), then `background` (whether it is what was written).
"""

from yolofast.store.background import BackgroundCheck
from yolofast.store.choose import FreeRoom, StoreChoice, choose_cache, measure_room
from yolofast.store.images import (
    FileImages,
    JpegImages,
    in_host_memory,
    jpegs_on,
    open_images,
    open_packed,
    to_device,
)
from yolofast.store.packed_store import PackedStore, store_folder, store_name, verify
from yolofast.store.packing import pack, pack_jpeg

__all__ = [
    "BackgroundCheck",
    "FileImages",
    "FreeRoom",
    "JpegImages",
    "PackedStore",
    "StoreChoice",
    "choose_cache",
    "in_host_memory",
    "jpegs_on",
    "measure_room",
    "open_images",
    "open_packed",
    "pack",
    "pack_jpeg",
    "store_folder",
    "store_name",
    "to_device",
    "verify",
]  # fmt: skip
