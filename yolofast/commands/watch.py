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
from yolofast.watch.watched_folder import can_be_opened_in_steps
from yolofast.words import counted, own_command

_FROM_THE_PAGE_KIT = ("chart.js", "page.css")
_EVERYWHERE = ("0.0.0.0", "::", "")
_MADE_BY_TRAINING = "runs"
"""It may not exist yet; another folder that does not exist is a typing mistake."""


def run(args: argparse.Namespace) -> None:
    config = from_args(WatchConfig, args)
    if not can_be_opened_in_steps():
        what = "watch opens files of runs without following links, which this system cannot do"
        raise UserError(what, fix=f"see a run's page instead: {own_command()} report RUN")
    folder, token = Path(config.runs), token_for(config.host, config.token)
    if not folder.is_dir() and (folder.exists() or config.runs != _MADE_BY_TRAINING):
        what = "is not a folder" if folder.exists() else "there is no such folder"
        raise UserError(what, where=folder, fix=f"give the folder that holds the runs: {own_command()} watch runs")
    with make_server(folder, config.host, config.port, token) as server:
        _say(folder, server)
        if config.open:
            webbrowser.open(address_of(server))
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # how one is meant to end it
            print()


def make_server(folder: Path, host: str, port: int, token: str | None) -> WatchServer:
    return WatchServer(folder, host, port, token, {name: web_file(name).encode() for name in _FROM_THE_PAGE_KIT})


def address_of(server: WatchServer, this_machine: str = "localhost") -> str:
    """As this machine's browser finds it, or another's that knows this one by that name."""
    gate = server.gate
    name = this_machine if gate.host in _EVERYWHERE else gate.host
    host = f"[{name}]" if ":" in name else name
    return f"http://{host}:{gate.port}/" + ("" if gate.token is None else f"?token={gate.token}")


def _say(folder: Path, server: WatchServer) -> None:
    if not folder.exists():
        print(f"{folder} does not exist yet: its runs appear as soon as it does")
    own = socket.gethostname()
    print(f"{counted(len(server.runs.list()['runs']), 'run')} below {folder}: {address_of(server, own)}")
    if server.gate.host in _EVERYWHERE:
        print(f"if {own} is not known on other machines, use this machine's IP address instead")
    if not is_this_machine(server.gate.host):
        print("anyone with this address can see them, and the connection is not encrypted")
    print("Ctrl+C ends it; training is not affected", flush=True)
