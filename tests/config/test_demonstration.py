"""When `yolofast train` is a demonstration, and which."""

from yolofast.config.hyp import hyp_of
from yolofast.config.train import TrainConfig, demonstration, is_demonstration


def test_nothing_said_about_what_to_train():
    assert is_demonstration({})
    assert is_demonstration({"device": "cpu", "name": "mine", "seed": 3})


def test_anything_said_about_it():
    for name in ("data", "cfg", "weights", "hyp", "epochs", "img_size", "batch_size", "resume", "optimizer"):
        assert not is_demonstration({name: "x", "device": "cpu"}), name


def test_its_settings_and_those_of_the_user():
    config = demonstration(TrainConfig(name="mine", seed=3))
    assert (config.cfg, config.img_size, config.data) == ("mini", (128,), "data/shapes.yaml")
    assert (config.name, config.seed) == ("mine", 3)
    hyp = hyp_of(config)
    assert hyp["nbs"] == config.batch_size, "every batch makes an update"
    assert hyp["mosaic"] == 0 and hyp["hsv_s"] == 0.7
