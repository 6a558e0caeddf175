"""Where the pixels live: images decoded once, resized, packed into one file, and read from there by everyone.

Reading order: `fitted` (a file -> pixels), `packed_store` (the format), `journal` and `packing` (making it), `images`
and `residence` (using it), `choose` and `room` (which kind fits), then `opening`, which ties them together.
"""

from yolofast.store.choose import Choice, choose_cache
from yolofast.store.images import FileImages, JpegImages, open_packed
from yolofast.store.location import store_folder, store_name
from yolofast.store.opening import open_images
from yolofast.store.packed_store import PackedStore, verify
from yolofast.store.packing import pack, pack_jpeg
from yolofast.store.residence import in_host_memory, to_device
from yolofast.store.room import Room, measure_room

__all__ = [
    "Choice",
    "FileImages",
    "JpegImages",
    "PackedStore",
    "Room",
    "choose_cache",
    "in_host_memory",
    "measure_room",
    "open_images",
    "open_packed",
    "pack",
    "pack_jpeg",
    "store_folder",
    "store_name",
    "to_device",
    "verify",
]
