"""`yolofast watch`: all runs below a folder in a browser, live while they train."""

import argparse
import socket
import webbrowser
from pathlib import Path

from yolofast.config.flags import from_args
from yolofast.config.reports import WatchConfig
from yolofast.errors import UserError
from yolofast.pages.html import web_file
from yolofast.watch.gate import is_this_machine, token_for
from yolofast.watch.server import WatchServer
from yolofast.words import own_command

_FROM_THE_PAGE_KIT = ("chart.js", "page.css")
_EVERYWHERE = ("0.0.0.0", "::", "")
_MAY_COME_LATER = "runs"
"""The folder that training makes; another one that is not there is mistyped."""


def run(args: argparse.Namespace) -> None:
    asked = from_args(WatchConfig, args)
    folder, token = Path(asked.runs), token_for(asked.host, asked.token)
    if not folder.is_dir() and (folder.exists() or asked.runs != _MAY_COME_LATER):
        what = "is not a folder" if folder.exists() else "there is no such folder"
        raise UserError(what, where=folder, fix=f"give the folder that runs lie in: {own_command()} watch runs")
    with make_server(folder, asked.host, asked.port, token) as server:
        _say(folder, server)
        if asked.open:
            webbrowser.open(address_of(server))
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # how one is meant to end it
            print()


def make_server(folder: Path, host: str, port: int, token: str | None) -> WatchServer:
    return WatchServer(folder, host, port, token, {name: web_file(name).encode() for name in _FROM_THE_PAGE_KIT})


def address_of(server: WatchServer) -> str:
    """As this machine's browser finds it."""
    return _address(server, "localhost" if server.gate.host in _EVERYWHERE else server.gate.host)


def address_for_others(server: WatchServer) -> str:
    """As it is typed elsewhere."""
    return _address(server, socket.gethostname() if server.gate.host in _EVERYWHERE else server.gate.host)


def _address(server: WatchServer, name: str) -> str:
    gate, host = server.gate, f"[{name}]" if ":" in name else name
    return f"http://{host}:{gate.port}/" + ("" if gate.token is None else f"?token={gate.token}")


def _say(folder: Path, server: WatchServer) -> None:
    if not folder.exists():
        print(f"{folder} is not there yet: its runs appear as soon as it is")
    count = len(server.runs.list()["runs"])
    print(f"{count} run{'' if count == 1 else 's'} below {folder}: {address_for_others(server)}")
    if server.gate.host in _EVERYWHERE:
        print(f"if {socket.gethostname()} is not known elsewhere, type this machine's IP address in its place")
    if not is_this_machine(server.gate.host):
        print("whoever has this address can look at them, and what is sent can be read on the way: no encryption")
    print("Ctrl-C ends it; training does not notice", flush=True)
