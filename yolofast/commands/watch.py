"""`yolofast watch`: all runs below a folder in a browser, live while they train."""

import argparse
import webbrowser
from pathlib import Path

from yolofast.errors import UserError
from yolofast.own_command import own_command
from yolofast.pages.html import web_file
from yolofast.watch.gate import is_this_machine, token_for
from yolofast.watch.server import WatchServer

_FROM_THE_PAGE_KIT = ("chart.js", "page.css")
_EVERYWHERE = ("0.0.0.0", "::", "")


def run(args: argparse.Namespace) -> None:
    folder, token = Path(args.runs), token_for(args.host, args.token)
    if folder.exists() and not folder.is_dir():
        raise UserError(
            "is not a folder", where=folder, fix=f"give the folder that runs lie in: {own_command()} watch runs"
        )
    with make_server(folder, args.host, args.port, token) as server:
        address = address_of(server)
        _say(folder, server, address)
        if args.open:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # how one is meant to end it
            print()


def make_server(folder: Path, host: str, port: int, token: str | None) -> WatchServer:
    return WatchServer(folder, host, port, token, {name: web_file(name).encode() for name in _FROM_THE_PAGE_KIT})


def address_of(server: WatchServer) -> str:
    gate = server.gate
    host = "localhost" if gate.host in _EVERYWHERE else f"[{gate.host}]" if ":" in gate.host else gate.host
    return f"http://{host}:{gate.port}/" + ("" if gate.token is None else f"?token={gate.token}")


def _say(folder: Path, server: WatchServer, address: str) -> None:
    if not folder.exists():
        print(f"{folder} is not there yet: its runs appear as soon as it is")
    count = len(server.runs.list()["runs"])
    print(f"{count} run{'' if count == 1 else 's'} below {folder}: {address}")
    if not is_this_machine(server.gate.host):
        print("whoever has this address can look at them, and what is sent can be read on the way: no encryption")
    print("Ctrl-C ends it; training does not notice", flush=True)
