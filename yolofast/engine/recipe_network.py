"""Which network a recipe was made for, where a run trains another: its values were tuned for something else."""

from yolofast.config.train import TrainConfig
from yolofast.engine.yolox_settings import default_recipe
from yolofast.model.network import Network
from yolofast.model.yolox import YoloX
from yolofast.resources import find_resource, short_names
from yolofast.yaml_file import read_yaml


def other_network(config: TrainConfig, model: Network) -> str | None:
    """`nuscenes-clean-v2 is made for yolox-l, this run trains yolox-s`; None if that is the same, or it does not say.

    What a recipe's file does not say is the default of all recipes and was not meant.
    """
    if not config.recipe or not isinstance(model, YoloX):
        return None
    meant, runs = read_yaml(find_resource(config.recipe, "recipe")).values.get("model"), default_recipe(model.config)
    if meant not in short_names("recipe") or meant == runs:
        return None
    return f"{config.recipe} is made for {meant}, this run trains {runs}"
