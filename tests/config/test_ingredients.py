"""What no published recipe has: optional values, the same for both families, off unless they are given."""

import dataclasses

import pytest

from yolofast.config.hyp import changed_hyp, ingredients_of, read_hyp
from yolofast.config.ingredients import INGREDIENTS, Ingredients, by_epoch
from yolofast.config.yolox_recipe import read_yolox_recipe
from yolofast.errors import UserError
from yolofast.resources import short_names

TYPED = ("warmup_iterations=30", "average_last=0.25", "data_biases=true", "sizes=[[0, 0.5], [0.5, 1]]")


def test_every_ingredient_has_a_field_and_no_packaged_recipe_uses_one():
    assert list(INGREDIENTS) == [field.name for field in dataclasses.fields(Ingredients)]
    assert all(read_yolox_recipe(name).used == {} for name in short_names("recipe"))
    assert all(ingredients_of(read_hyp(name)).used == {} for name in short_names("hyp") if name != "hyp.head_params")


def test_both_families_read_the_same_values():
    of_hyp, of_recipe = ingredients_of(changed_hyp(TYPED)), read_yolox_recipe("yolox-s", TYPED)
    expected = {
        "warmup_iterations": 30,
        "average_last": 0.25,
        "data_biases": True,
        "sizes": ((0, 0.5), (0.5, 1)),
    }
    assert of_hyp.used == of_recipe.used == expected


def test_a_course_is_in_shares_of_the_run():
    course = ((0, 1.0), (0.3, 0.5), (0.75, 0.0))
    assert by_epoch(course, 10) == (1.0,) * 3 + (0.5,) * 5 + (0.0,) * 2
    assert by_epoch(course, 4) == (1.0, 1.0, 0.5, 0.0)
    assert Ingredients(average_last=0.25).averages_from(8) == 6
    assert Ingredients(average_last=0.01).averages_from(8) == 7


def test_words_name_epochs_as_people_count():
    used = Ingredients(update_batches=((0, 1), (0.5, 3)), strength=((0, 1.0), (0.5, 0.25)), average_last=0.5)
    assert used.words(4) == {
        "average_last": "from epoch 3 on the plain mean of all weights",
        "update_batches": "the mean of 1 from epoch 1, the mean of 3 from epoch 3",
        "strength": "of augmentation, × 1 from epoch 1, × 0.25 from epoch 3",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "warmup_iterations=0",
        "warmup_iterations=2.5",
        "average_last=0",
        "average_last=1.5",
        "bn_batches=true",
        "data_biases=1",
        "strength=0.5",
        "strength=[[0.1, 1]]",
        "strength=[[0, 1], [0, 0.5]]",
        "strength=[[0, 1.5]]",
        "sizes=[[0, 0]]",
        "sizes=[[0, 0.5, 1]]",
        "sizes=[]",
        "update_batches=[[0, 1.5]]",
        "update_batches=[[0, 1], [0.5, 0]]",
        "update_batches=[[0, 1], [0.5, 65]]",
        "update_batches=4",
        "repeats=0",
        "informative=[[0, 0]]",
        "repeats=true",
    ],
)
def test_refuses_what_means_nothing(wrong):
    key = wrong.partition("=")[0]
    for read in (changed_hyp, lambda values: read_yolox_recipe("yolox-s", values)):
        with pytest.raises(UserError, match=f"{key} is") as caught:
            read([wrong])
        assert caught.value.fix == f"give {INGREDIENTS[key].takes}"
