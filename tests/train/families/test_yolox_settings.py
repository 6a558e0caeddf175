"""What a recipe says and the command line does not becomes the run's; what means nothing for YOLOX is refused."""

import pytest
import torch

from yolofast import build_model
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.train.families import family as families
from yolofast.train.families.yolox import recipe_of


def completed(**given):
    return families.completed(TrainConfig(**given), given)


def test_the_recipe_fills_in_what_was_not_given():
    config = completed(cfg="yolox-s")
    assert (config.recipe, config.epochs, config.batch_size, config.img_size) == ("yolox-s", 300, 64, (640,))
    config = completed(cfg="yolox-nano", epochs=100, batch_size=16)
    assert (config.recipe, config.epochs, config.batch_size, config.img_size) == ("yolox-nano", 100, 16, (416,))
    assert completed(cfg="yolox-s", img_size=(300, 640)).img_size == (320, 640), "whole strides"


def test_a_recipe_alone_names_its_network():
    config = completed(recipe="nuscenes-stable-v3")
    assert (config.cfg, config.epochs, config.batch_size, config.img_size) == ("yolox-l", 30, 32, (1440,))
    assert completed(recipe="nuscenes-stable-v3", cfg="yolox-s").cfg == "yolox-s"


def test_what_a_recipe_freezes():
    frozen = ("backbone", "neck")
    assert completed(recipe="nuscenes-original").freeze == frozen
    assert completed(recipe="nuscenes-original", freeze=("head",)).freeze == ("head",)
    assert completed(recipe="nuscenes-original", freeze=(0,)).freeze == (0,), "everything learns"
    assert completed(recipe="nuscenes-original", plan="yolox-progressive").freeze == (0,), "the plan says what"
    assert completed(recipe="yolox-l").freeze == (0,)
    model = build_model({"family": "yolox", "nc": 2, "depth_multiple": 0.33, "width_multiple": 0.25, "image_size": 64})
    ran = [recipe_of(completed(recipe="nuscenes-original", **given), model).freeze for given in ({}, {"freeze": (0,)})]
    assert ran == [frozen, ()], "hyp.yaml of a run says what was frozen in it"


@pytest.mark.slow
def test_a_recipe_with_weights_leaves_the_network_to_them(tmp_path):
    torch.save({"model": build_model("yolox-nano", nc=2).state_dict()}, tmp_path / "nano.pth")
    config = completed(recipe="nuscenes-clean-v2", weights=str(tmp_path / "nano.pth"))
    assert (config.cfg, config.epochs) == ("", 10)
    config = completed(weights=str(tmp_path / "nano.pth"))
    assert (config.cfg, config.recipe) == ("", "yolox-nano"), "nobody has to know which network it is"


def test_other_networks_stay_as_they_are():
    config = TrainConfig(cfg="yolov7-tiny", batch_size=24)
    assert families.completed(config, {"batch_size"}) == config
    assert completed(cfg="yolov7-tiny", style="yolox", recipe_values=("mosaic_prob=0.5",)).epochs == 100


def test_the_drop_in_script_may_train_it_although_it_names_hyper_parameters():
    published = TrainConfig.published()
    assert families.completed(TrainConfig(cfg="yolox-s", hyp=published.hyp, faithful=True), {"cfg"}).hyp == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hyp": "data/hyp.scratch.p5.yaml"}, "--hyp is not for YOLOX"),
        ({"lr_schedule": "linear"}, "--lr-schedule is not for YOLOX"),
        ({"auto_lr": True}, "grows with the batch already"),
        ({"style": "yolov7"}, "--style yolov7"),
        ({"close_mosaic": 4}, "--set close_mosaic=true no_aug_epochs=4"),
        ({"assigner": "anchor"}, "use simota or tal"),
        ({"assigner": "ota"}, "--assigner ota is not for YOLOX"),
        ({"multi_scale": True}, "--set multi_scale=true"),
        ({"class_aware_aug": True, "head_config": "standard"}, "--class-aware-aug is not for YOLOX"),
        ({"img_size": (256, 448), "recipe_values": ("input_size=64,96",)}, "both say height and width"),
        ({"ota_from_epoch": 3}, "--ota-from-epoch"),
        ({"label_smoothing": 0.1}, "--label-smoothing"),
        ({"rect": True}, "--set input_size=384,640"),
        ({"quad": True}, "--quad"),
        ({"recipe_values": ("mosaic=1",)}, "did you mean 'mosaic_prob'|has no 'mosaic'"),
        ({"recipe": "yolox-xl"}, "no such file"),
    ],
)
def test_what_means_nothing_for_it_is_refused(settings, message):
    with pytest.raises(UserError, match=message):
        completed(cfg="yolox-s", **settings)


def test_a_recipe_is_refused_for_others():
    with pytest.raises(UserError, match="the network is not one"):
        completed(cfg="yolov7-tiny", recipe="yolox-s")
    with pytest.raises(UserError, match="--set: there is no hyper-parameter 'ema'"):
        completed(cfg="yolov7-tiny", recipe_values=("ema=true",))
    with pytest.raises(UserError, match="YOLOX's schedule"):
        completed(cfg="yolov7-tiny", lr_schedule="yoloxwarmcos")


@pytest.mark.slow
def test_flags_go_before_the_recipe():
    model = build_model({"family": "yolox", "nc": 2, "depth_multiple": 0.33, "width_multiple": 0.5, "image_size": 64})
    config = completed(recipe="nuscenes-stable-v3", img_size=(704,), epochs=24, recipe_values=("multi_scale=true",))
    recipe = recipe_of(config, model)
    assert (recipe.epochs, recipe.input_size, recipe.multi_scale) == (24, (384, 704), True)
    assert recipe.no_aug_epochs == 8, "still less than half"
    assert recipe_of(completed(cfg="yolox-s", epochs=12), model).no_aug_epochs == 1
    with pytest.raises(UserError, match="do not fit 12 epochs"):
        recipe_of(completed(cfg="yolox-s", epochs=12, faithful=True), model)
