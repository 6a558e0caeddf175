"""The name of an image format that is not read, by how its files start: their names often say something else."""

HOW_TO_CONVERT = "convert it to JPEG or PNG, such as by `magick FILE FILE.png`; to rename it is not enough"
_STARTS = {
    b"GIF8": "GIF",
    b"\0\0\0\x0cjP  ": "JPEG 2000", b"\xff\x4f\xff\x51": "JPEG 2000",
    b"\0\0\0\x0cJXL ": "JPEG XL", b"\xff\x0a": "JPEG XL",
    b"II+\0": "BigTIFF", b"MM\0+": "BigTIFF",
    b"#?RGBE": "Radiance HDR", b"#?RADIANCE": "Radiance HDR", b"v/1\x01": "OpenEXR",
    b"8BPS": "Photoshop", b"%PDF": "PDF", b"<svg": "SVG",
    **{b"P%d%c" % (number, space): "PNM (PPM, PGM)" for number in range(1, 8) for space in b"\n\r\t #"},
}  # fmt: skip
_BRANDS = {
    b"avif": "AVIF", b"avis": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"heif": "HEIC", b"hevc": "HEIC",
    b"mif1": "HEIC or AVIF", b"msf1": "HEIC or AVIF",
}  # fmt: skip
"""Of files that say their kind from the fourth byte on, as videos do."""


def other_format(content: bytes) -> str | None:
    """None if it is no format that is known."""
    if content[4:8] == b"ftyp":
        return _BRANDS.get(content[8:12], "MP4 or similar")
    return next((name for start, name in _STARTS.items() if content.startswith(start)), None)
