"""Who goes into which split, which classes remain, and that nothing leaks."""

from collections import Counter

import pytest

from tests.dataset.formats import samples
from tests.dataset.formats.test_readers import convert
from tests.dataset.make import image, write
from yolofast.dataset.formats.fit import Choice
from yolofast.dataset.formats.labelled import Labelled, LabelledImage, LabelledObject
from yolofast.dataset.formats.splits import divide
from yolofast.errors import UserError


def made_up(files, groups=()):
    images = [LabelledImage(f"/x/{file}", "l") for file in files]
    for one, group in zip(images, groups, strict=False):
        one.group = group
    return Labelled(images=images)


def splits_of(found):
    return {one.file.removeprefix("/x/"): one.split for one in found.images}


def test_shares_are_kept_and_depend_on_the_seed_alone():
    found, again, other = (made_up([f"{i}.jpg" for i in range(100)]) for _ in range(3))
    divide(found, ["train=0.7", "val=0.2", "test=0.1"], "auto", 0)
    assert Counter(splits_of(found).values()) == {"train": 70, "val": 20, "test": 10}
    again.images.reverse()
    divide(again, ["train=7", "val=2", "test=1"], "auto", 0)
    assert splits_of(again) == splits_of(found)
    divide(other, ["train=0.7", "val=0.2", "test=0.1"], "auto", 1)
    assert splits_of(other) != splits_of(found)


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("video", [f"clips/{clip}_frame{i:04}.jpg" for clip in "abcde" for i in range(20)]),
        ("folder", [f"{clip}/{i}.jpg" for clip in "abcde" for i in range(20)]),
        (r"clip(\d)", [f"clip{clip}-{i}x.jpg" for clip in range(5) for i in range(20)]),
        ("auto", [f"{i}_jpg.rf.{copy * 8}.jpg" for i in range(50) for copy in ("aaaa", "bbbb")]),
    ],
)
def test_no_group_is_in_two_splits(group, names):
    found = made_up(names)
    divide(found, ["train=0.8", "val=0.2"], group, 0)
    of_group = {}
    for one in found.images:
        of_group.setdefault(one.group, set()).add(one.split)
    assert len(of_group) in (5, 50) and all(len(splits) == 1 for splits in of_group.values())
    assert Counter(splits_of(found).values()) == {"train": 80, "val": 20}
    divide(found, ["train=0.8", "val=0.2"], "none", 0)
    together = {name: {one.split for one in found.images if name in one.file} for name in ("a", "x", "rf")}
    assert any(len(splits) > 1 for splits in together.values()), "without groups they are"


def test_videos_that_the_source_names_stay_whole():
    found = made_up([f"{i}.jpg" for i in range(40)], ["one"] * 30 + ["two"] * 10)
    divide(found, [], "auto", 0)
    assert Counter(splits_of(found).values()) == {"train": 30, "val": 10}


def test_splits_of_the_source_that_share_a_group_are_told():
    found = made_up(["a_jpg.rf.0123456789.jpg", "a_jpg.rf.abcdef0123.jpg", "b.jpg"])
    for one, split in zip(found.images, ("train", "val", "val"), strict=True):
        one.split = split
    divide(found, [], "auto", 0)
    assert [one.split for one in found.images] == ["train", "val", "val"], "they are the source's"
    assert "1 group of images that belong together are in several splits" in found.remarks[0]


def test_names_that_look_like_frames_are_told():
    found = made_up([f"{clip}_{i:04}.jpg" for clip in "ab" for i in range(30)])
    divide(found, [], "auto", 0)
    assert any("frames of 2 videos" in remark and "--group video" in remark for remark in found.remarks)
    found = made_up([f"{clip}_{i:04}.jpg" for clip in "ab" for i in range(30)])
    divide(found, ["train=0.5", "val=0.5"], "video", 0)
    of_clip = {(one.file[3], one.split) for one in found.images}
    assert len(of_clip) == 2 and {split for _, split in of_clip} == {"train", "val"}


def test_lists_of_names_paths_and_groups(tmp_path):
    found = made_up(["s1/1.jpg", "s1/2.jpg", "s2/1.jpg", "s2/2.jpg", "s3/1.jpg", "c.jpg"])
    write(tmp_path / "train.txt", "s1/1.jpg\n./s2/2\n\n/old/place/c.png\n")
    write(tmp_path / "val.txt", "s3\n")
    lists = [f"train={tmp_path / 'train.txt'}", f"val={tmp_path / 'val.txt'}"]
    with pytest.raises(UserError, match=r"train.txt:4: '/old/place/c.png' names neither one image nor a group"):
        divide(found, lists, "folder", 0)
    write(tmp_path / "train.txt", "s1/1.jpg\n./s2/2\n\n/old/place/c.jpg\n")
    divide(found, lists, "folder", 0)
    assert splits_of(found) == {"s1/1.jpg": "train", "s2/2.jpg": "train", "c.jpg": "train", "s3/1.jpg": "val"}
    assert found.dropped == {"images that no list names": 2}
    write(tmp_path / "val.txt", "s3\nc\n")
    with pytest.raises(UserError, match=r"val.txt:2: 'c' is in train already"):
        divide(found, lists, "folder", 0)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["trian=0.8"], "did you mean 'train'"),
        (["train"], "--split is 'train'"),
        (["train=0"], "above 0"),
        (["train=nan"], "above 0"),
        (["train=0.5", "val=nowhere.txt"], "both shares and lists"),
        (["val=nowhere.txt"], "no such file"),
    ],
)
def test_mistakes(wanted, message):
    with pytest.raises(UserError) as refused:
        divide(made_up(["a.jpg"]), wanted, "auto", 0)
    assert message in str(refused.value)
    with pytest.raises(UserError, match="regular expression"):
        divide(made_up(["a.jpg"]), [], "(", 0)


def test_classes_are_renamed_joined_ordered_and_left_out(tmp_path):
    samples.openimages(tmp_path / "x")
    choice = Choice({"cat": "pet", "dog": "pet"})
    assert convert(tmp_path / "x", tmp_path / "1", choice=choice).names == ["pet"]
    made = convert(tmp_path / "x", tmp_path / "2", choice=Choice({"cat": ""}))
    assert made.names == ["dog"] and made.found.dropped["objects of classes that were not asked for"] == 1
    assert convert(tmp_path / "x", tmp_path / "3", choice=Choice(names=("dog", "cat"))).names == ["dog", "cat"]
    rows = (tmp_path / "3/labels/train/a.txt").read_text().splitlines()
    assert [row[0] for row in rows] == ["1", "0"]
    with pytest.raises(UserError, match="did you mean 'cat'"):
        convert(tmp_path / "x", tmp_path / "4", choice=Choice({"cta": "x"}))
    with pytest.raises(UserError, match="--names has the class 'bird'"):
        convert(tmp_path / "x", tmp_path / "4", choice=Choice(names=("bird",)))
    with pytest.raises(UserError, match=r"no object is left to write|no image is left"):
        convert(tmp_path / "x", tmp_path / "4", choice=Choice({"cat": "", "dog": ""}))


def test_marked_objects_can_be_left_out(tmp_path):
    samples.voc(tmp_path / "x")
    made = convert(tmp_path / "x", tmp_path / "out", choice=Choice(drop=("difficult",)))
    assert made.found.dropped == {"objects marked difficult (--drop)": 1}
    assert made.splits["train"].boxes == 1


def test_names_never_collide(tmp_path):
    """Labels go by the stem, so two images of one stem are told apart; a folder called images would move the labels."""
    for seed, name in enumerate(("a/x.jpg", "b/x.jpg", "b/images/y.jpg", "b/y.png", "b/Y.png")):
        image(tmp_path / "x" / name, seed=seed)
        write((tmp_path / "x" / name).with_suffix(".txt"), "Car 0 0 0 1 1 20 20 1 1 1 1 1 1 1\n")
    convert(tmp_path / "x", tmp_path / "out", form="kitti", splits=("train=1",))
    images = sorted(str(path.relative_to(tmp_path / "out/images")) for path in (tmp_path / "out/images").rglob("*.*"))
    labels = sorted(str(path.relative_to(tmp_path / "out/labels")) for path in (tmp_path / "out/labels").rglob("*.*"))
    assert len(images) == 5 and [name.rpartition(".")[0] for name in images] == [name[:-4] for name in labels]


def test_the_object_model_is_described():
    assert LabelledObject("cat", (0, 0, 1, 1), id="shapes[2]").describe() == "cat shapes[2]"


def test_nothing_is_divided_where_no_image_is_left():
    found = made_up([])
    divide(found, ["train=0.5", "val=0.5"], "none", 0)
    assert found.images == []


@pytest.mark.parametrize(("files", "why"), [(["a_1", "a_2"], "of 1 group none is divided; --group none does"),
                                            (["a"], "there is 1 image")])  # fmt: skip
def test_why_nothing_is_left_for_a_split(files, why):
    found = made_up([f"{name}.jpg" for name in files])
    divide(found, [], "video", 0)
    assert found.remarks == [f"nothing is left for val: {why}"]
