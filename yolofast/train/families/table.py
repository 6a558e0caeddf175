"""Which families of networks there are, and to which one a run belongs."""

from collections.abc import Collection, Mapping
from typing import Any

from yolofast.checkpoint.read import read_weights
from yolofast.config.train import TrainConfig
from yolofast.extensions import FAMILIES, found
from yolofast.model.contract import Network
from yolofast.model.families import family_named, graph_of
from yolofast.train.families.family import Family, Rules


def families() -> dict[str, Family]:
    return {name: found(f"{places.training}:TRAINING") for name, places in FAMILIES.items()}


def family_of(model: Network) -> Family:
    return families()[model.family]


def rules_of(config: TrainConfig, hyp: Mapping[str, Any], model: Network) -> Rules:
    return family_of(model).rules(config, hyp, model)


def completed(config: TrainConfig, given: Collection[str]) -> TrainConfig:
    """The settings of a new run, completed by its family, so that what a run stores about itself is complete.

    `given` are the names of what was typed.
    """
    for family in families().values():
        config = family.with_network(config, given)
    return families()[_family_name(config)].complete(config, given)


def _family_name(config: TrainConfig) -> str:
    """Of the network that is named, or that the weights belong to; weights that do not say are refused later."""
    if config.cfg:
        return family_named(config.cfg)
    file = read_weights(config.weights)
    graph = file.graph or graph_of(file.tensors)
    return family_named({} if graph is None else graph)
