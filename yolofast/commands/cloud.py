"""`yolofast cloud`: a rented GPU in one command, by SkyPilot, whose accounts and prices it uses."""

import argparse
from pathlib import Path

from yolofast.cloud.machine import cost as cost_report
from yolofast.cloud.machine import launch, task_yaml
from yolofast.cloud.machine import pull as pull_runs
from yolofast.cloud.machine import stop as stop_machine
from yolofast.cloud.task import task_of
from yolofast.config.flags import from_args, given_settings
from yolofast.config.reports import CloudCostConfig, CloudPullConfig, CloudStopConfig, CloudUpConfig
from yolofast.config.train import TrainConfig
from yolofast.words import own_command


def up(args: argparse.Namespace) -> None:
    config = from_args(CloudUpConfig, args)
    from_args(TrainConfig, args)  # a slip is reported before anything is rented
    task = task_of(config, given_settings(TrainConfig, args))
    if config.dry_run:
        print(task_yaml(task), end="")
        return
    project = Path(CloudPullConfig(run_name=task.name).project)
    launch(task, config, project)
    typed = f"{own_command()} cloud"
    print(f"launched: {task.name}; `sky logs {task.name}` shows it" if not task.bucket else f"launched: {task.name}")
    print(f"copy what there is: {typed} pull {task.name}\nend it: {typed} stop {task.name}\nprice: {typed} cost")


def pull(args: argparse.Namespace) -> None:
    config = from_args(CloudPullConfig, args)
    _say(pull_runs(config.run_name, Path(config.project)))


def stop(args: argparse.Namespace) -> None:
    config = from_args(CloudStopConfig, args)
    found = stop_machine(config.run_name, Path(config.project), keep=config.keep, with_runs=config.pull)
    if found is not None:
        _say(found)
    print(f"{config.run_name}: {'stopped, its disk is kept' if config.keep else 'given back'}")


def cost(args: argparse.Namespace) -> None:
    cost_report(from_args(CloudCostConfig, args).days)
    print(f"of single runs, by hours: {own_command()} compare RUN RUN --price X")


def _say(folder: Path) -> None:
    print(f"copied: {folder}\nlook at it: {own_command()} watch {folder}")
