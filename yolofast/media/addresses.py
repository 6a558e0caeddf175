"""Web addresses: an image is fetched whole; for a video or stream that failed, the reason is found.

FFmpeg reads those and says only that it failed. So one byte is requested from the server: a missing file, an
unreachable server and one that cannot send parts need different fixes.
"""

import base64
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

from yolofast.errors import UserError

PATIENCE = 20.0
"""Seconds a server may be silent; for a stream also those that opening it or its next frame may take."""
_MOST = 512 * 2**20
"""Bytes that an image may have."""
PARTIAL = 206
_MEANT = "%:/?#[]@!$&'()*+,;="
"""What is sent as it is typed; spaces and letters of other alphabets are not."""


def is_web_address(name: str) -> bool:
    return re.match(r"https?://", name, re.IGNORECASE) is not None


def without_password(address: str) -> str:
    """An address as it may be shown and written down; anything else as it is."""
    return re.sub(r"(?<=://)[^/@]*@", "", address, count=1)


def fetch(address: str) -> bytes:
    """The file behind a web address."""
    with answer(address) as stream:
        try:
            content: bytes = stream.read(_MOST + 1)
        except (OSError, HTTPException) as error:
            what = f"could not be fetched to its end: {error}"
            raise UserError(what, where=without_password(address), fix="try again, or download it first") from error
    if len(content) > _MOST:
        raise UserError(f"is larger than {_MOST >> 20} MiB", where=without_password(address), fix="download it first")
    return content


def unreadable(address: str) -> UserError:
    """Why a video or stream could not be read, as far as the server says."""
    shown = without_password(address)
    if not is_web_address(address):
        fix = "check the address, with user and password if it needs them, that the sender is on, and the firewall"
        return UserError("the stream cannot be opened", where=shown, fix=fix)
    try:
        with answer(address, {"Range": "bytes=0-0"}) as stream:
            sends_parts, kind = stream.status == PARTIAL, stream.headers.get_content_type()
    except UserError as fault:
        return fault
    if kind.startswith("text/"):
        what = f"is a page or text ({kind}), not a video or stream"
        return UserError(what, where=shown, fix="give the address of the video or stream itself")
    if not sends_parts:
        what = "cannot be read as a video: most are read in parts, but the server sends only whole files (no Range)"
        return UserError(what, where=shown, fix="download it first, then give the file as --source")
    return UserError("is not a video or stream, or is damaged", where=shown, fix="download it, and convert it to MP4")


def answer(address: str, headers: Mapping[str, str] | None = None) -> Any:
    """What the server sends; an error of its own is the cause of the `UserError`."""
    shown = without_password(address)
    try:
        return urllib.request.urlopen(_request(address, headers or {}), timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()
        fix = "check the address" if error.code == 404 else "check the address, and that you may read it"
        raise UserError(f"the server answers {error.code} {error.reason}", where=shown, fix=fix) from error
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", error)
        fix = "check the address, and that the server runs"
        raise UserError(f"the server cannot be reached: {why}", where=shown, fix=fix) from error


def _request(address: str, headers: Mapping[str, str]) -> urllib.request.Request:
    """User and password go into a header: urllib does not read them from the address."""
    sent = urllib.parse.quote(without_password(address), safe=_MEANT)
    request = urllib.request.Request(sent, headers={"User-Agent": "yolofast", **headers})
    parts = urllib.parse.urlsplit(address)
    if parts.username is not None:
        user = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
    return request
