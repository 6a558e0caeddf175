"""Who may send requests: browsers of this machine, or whoever knows the token.

Without a token the address is of this machine alone, and the name a browser used must be one of this machine's own.
Otherwise a web page could reach it through a name it controls (DNS rebinding). With a token the name does not matter,
since nobody has the cookie under another one. The token travels once in the address; then a cookie holds it, which no
script can read and other sites' pages cannot send.
"""

import hmac
import ipaddress
import re
import secrets
from dataclasses import dataclass

from yolofast.errors import UserError

_SHORTEST_TOKEN = 12
_TOKEN = re.compile(r"[A-Za-z0-9._~-]+", re.ASCII)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(:\d{1,5})?", re.ASCII)


def is_this_machine(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token_for(host: str, given: str | None) -> str | None:
    """None where none is needed; made up where one is and none was given."""
    if given is None:
        return None if is_this_machine(host) else secrets.token_urlsafe(24)
    if len(given) < _SHORTEST_TOKEN or not _TOKEN.fullmatch(given):
        what = f"--token is {'too short' if _TOKEN.fullmatch(given) else 'not of plain letters and digits'}"
        raise UserError(what, fix=f"give at least {_SHORTEST_TOKEN} of A-Z a-z 0-9 . _ ~ -, or omit it")
    return given


@dataclass(frozen=True)
class Gate:
    host: str
    port: int
    token: str | None
    command: str = "watch"

    @property
    def cookie_name(self) -> str:
        """Cookies of a host are shared by its ports."""
        return f"yolofast-{self.command}-{self.port}"

    def cookie(self) -> str:
        return f"{self.cookie_name}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def knows_host(self, header: str | None) -> bool:
        if self.token is not None and not is_this_machine(self.host):
            return True
        found = _HOST.fullmatch(header or "")
        return found is not None and is_this_machine(found[1].strip("[]"))

    def is_token(self, given: str) -> bool:
        """In constant time, so that the duration reveals nothing of the token."""
        return self.token is not None and hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def admits(self, cookies: str | None) -> bool:
        """Split by hand: the standard library's parser takes seconds for some values (CVE-2024-7592)."""
        if self.token is None:
            return True
        pairs = (one.strip().partition("=") for one in (cookies or "").split(";"))
        return any(name == self.cookie_name and self.is_token(value) for name, _, value in pairs)
