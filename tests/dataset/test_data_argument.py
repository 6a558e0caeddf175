"""What `--data` means, as a user types it, to every command that reads a data set."""

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dataset.formats.samples import SAMPLES, coco_files, cvat, darknet, voc
from tests.dataset.make import image, write
from yolofast.cli import main
from yolofast.config.train import TrainConfig
from yolofast.dataset import data_argument
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.extensions import FORMATS
from yolofast.runs.folder import new_run_folder
from yolofast.train.data import read_data


@pytest.fixture(autouse=True)
def built_in(tmp_path, monkeypatch):
    """An empty current folder, and the real built-in data set but for its thousand pictures."""
    folder = tmp_path / "cache" / "few"
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(data_argument, "shapes_data_yaml", lambda: make_shapes(folder, n=12))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


COMMANDS = {
    "check": (),
    "pack": ("--img", "64"),
    "preview": ("--img", "64", "--n", "4", "--out", "preview.jpg"),
    "heads": ("--heads", "2", "--out", "heads.yaml"),
    "anchors": ("--cfg", "yolov7-tiny", "--img", "64"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "data"), [*((command, "shapes") for command in COMMANDS), ("check", "data/shapes.yaml")]
)
def test_every_command_knows_the_built_in_data_set(tmp_path, capsys, command, data):
    (tmp_path / "here" / "shapes").mkdir()  # a folder of that name is no data set
    code = main([command, "--data", data, *COMMANDS[command]])
    assert code == 0, capsys.readouterr().err


@pytest.mark.slow
def test_a_folder_that_holds_a_data_yaml_is_meant(capsys):
    make_shapes("shapes", n=3)
    make_shapes("few", n=4)
    for data, count in (("shapes", 3), ("few", 4), ("few/data.yaml", 4)):
        assert main(["pack", "--data", data, "--img", "64", "--splits", "train"]) == 0
        assert f"train: {count} images" in capsys.readouterr().out


def test_a_folder_without_one_is_no_data_set(tmp_path, capsys):
    (tmp_path / "here" / "few").mkdir()
    assert main(["pack", "--data", "few"]) == 2
    assert "few: is a folder without data.yaml, and holds no file" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("form", SAMPLES)
def test_a_foreign_data_set_is_answered_with_the_command_that_converts_it(form, capsys):
    """And that command, as it is printed, makes one that can be checked."""
    source = Path("my data")
    SAMPLES[form](source)
    (source / "data.yaml").unlink(missing_ok=True)
    assert main(["check", "--data", str(source)]) == 2
    err = capsys.readouterr().err
    assert f"my data: is a folder without data.yaml: it looks like {FORMATS[form].title}" in err
    command = shlex.split(err.split("fix: ")[1])
    assert command[1:] == ["convert", "my data", "--from", form, "--to", "yolo", "--out", "my data-yolo"]
    assert main(command[1:]) == 0
    assert main(["check", "--data", "my data-yolo"]) in (0, 1)
    assert "my data-yolo" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["check", "pack", "preview", "val", "train"])
def test_every_command_answers_alike(command, capsys):
    voc(Path("BCCD"))
    more = {"preview": ["--out", "x.jpg"], "train": ["--cfg", "mini"], "val": ["--weights", "x.pt"]}.get(command, [])
    assert main([command, "--data", "BCCD", *more]) == 2
    err = capsys.readouterr().err
    assert "looks like Pascal VOC XML (3 XML files in Annotations)" in err and "convert BCCD --from voc" in err


def answer(data, capsys):
    assert main(["check", "--data", str(data)]) == 2
    return capsys.readouterr().err


@pytest.mark.slow
def test_files_of_other_forms_are_answered_at_once(capsys, monkeypatch):
    coco_files(Path("coco"), "roboflow")
    err = answer("coco/train/_annotations.coco.json", capsys)
    assert "is a json file, not a data yaml: it looks like a Roboflow export" in err
    assert "or write a data yaml with `train: coco/train/_annotations.coco.json`" in err
    coco_files(Path("plain"))
    err = answer("plain/annotations/instances_train2017.json", capsys)
    assert "COCO JSON" in err and "or write a data yaml with `train: plain/annotations/instances_train2017.json`" in err
    cvat(Path("cvat"))
    assert "is an xml file, not a data yaml: it looks like CVAT XML" in answer("cvat/annotations.xml", capsys)
    darknet(Path("darknet"))
    assert "it looks like YOLO labels (obj.data of Darknet)" in answer("darknet/obj.data", capsys)
    voc(Path("voc"))
    assert "it looks like Pascal VOC XML (3 XML files)" in answer("voc/Annotations", capsys)
    Path("my voc").mkdir()
    write(Path("my voc/v.yaml"), "train: ../voc/JPEGImages\nval: ../voc/JPEGImages\nnames: [cat, dog]\n")
    assert main(["pack", "--data", "my voc/v.yaml"]) == 2
    assert "check --data 'my voc/v.yaml'` shows all" in capsys.readouterr().err, "commands can be pasted"
    err = answer("voc/ImageSets/Main/train.txt", capsys)
    assert "which looks like Pascal VOC XML (3 XML files in Annotations)" in err and "--from voc --to yolo" in err
    write(Path("plain.txt"), "a.jpg\n")
    assert "is a text file, not a data yaml" in answer("plain.txt", capsys)
    assert main(["convert", "voc/Annotations", "--out", "out"]) == 0, "the images are beside the folder that was named"


@pytest.mark.slow
def test_a_yaml_of_another_name_and_other_folders(capsys):
    make_shapes("few", n=3)
    Path("few/data.yaml").rename("few/mine.yaml")
    assert "fix: name the file: --data few/mine.yaml" in answer("few", capsys)
    Path("empty").mkdir()
    assert "empty: is a folder without data.yaml, and holds no file" in answer("empty", capsys)
    write(Path("raw/v1.0-mini/sample_data.json"), "[]")
    assert "convert --from nuscenes --root raw" in answer("raw", capsys)
    write(Path("MOT/A/gt/gt.txt"), "1,1,1,1,9,9,1,1,1\n")
    write(Path("MOT/sequences.yaml"), "sequences: [A]\n")
    err = answer("MOT", capsys)
    assert "MOTChallenge" in err and "--from mot --to coco-video --out MOT.json && " in err
    assert err.rstrip().endswith("convert MOT.json --from coco --to yolo --out MOT-yolo --images MOT")
    image(Path("MOT/A/img1/000001.jpg"), seed=1)
    for command in err.split("fix: ")[1].split(" && "):
        assert main(shlex.split(command)[1:]) == 0, "its own commands convert it"
    voc(Path("voc"))
    shutil.make_archive("my export", "zip", "voc")
    err = answer("my export.zip", capsys)
    assert "is a zip file, not a data yaml: it looks like Pascal VOC XML (3 XML files in Annotations)" in err
    assert main(shlex.split(err.split("fix: ")[1])[1:]) == 0, "its own command converts it"
    shutil.make_archive("own", "zip", make_shapes("packed", n=3).parent)
    assert "it looks like YOLO labels (data.yaml)" in answer("own.zip", capsys), "the COCO files beside it are a choice"
    coco_files(Path("coco-files"))
    shutil.make_archive("coco-files", "zip", "coco-files")
    err = answer("coco-files.zip", capsys)
    assert "COCO JSON" in err and "write a data yaml" not in err
    Path("broken.zip").write_text("x")
    assert "cannot be read as a zip file" in answer("broken.zip", capsys)


def test_what_nothing_here_reads_is_named_all_the_same(capsys):
    """Forms that other tools read, images alone, archives: the answer is the next thing to do."""
    write(Path("task/annotations/default.json"), '{"categories": {}, "items": [{"id": "a", "annotations": []}]}')
    assert "it looks like Datumaro JSON" in (err := answer("task", capsys)) and "export it again as COCO" in err
    row = {"image": "a.jpg", "annotations": [{"label": "cat", "coordinates": {"x": 1, "y": 1}}]}
    write(Path("apple/_annotations.createml.json"), json.dumps([row]))
    assert "it looks like CreateML JSON" in answer("apple", capsys)
    assert main(["convert", "apple", "--out", "made"]) == 2
    assert "apple: looks like CreateML JSON, which cannot be converted" in capsys.readouterr().err
    image(Path("v4/train/a.jpg"), seed=1)
    write(Path("v4/train/_annotations.txt"), "a.jpg 1,1,9,9,0\n")
    assert "it looks like Roboflow's text for YOLOv3 and YOLOv4" in answer("v4", capsys)
    write(Path("video/gt/gt.txt"), "1,1,1,1,9,9,1,1,1\n")
    write(Path("video/gt/labels.txt"), "cat\n")
    assert "it looks like a MOT export of CVAT" in answer("video", capsys)
    image(Path("my photos/a.jpg"), seed=1)
    assert "with 1 image and no labels of a form that is known" in (err := answer("my photos", capsys))
    assert "predict --source 'my photos'" in err
    write(Path("set.tar.gz"), "x")
    assert "is an archive, not a data yaml" in (err := answer("set.tar.gz", capsys)) and "unpack it" in err
    write(Path("other/notes.md"), "x")
    assert "other: is a folder without data.yaml, and of no form that is known" in answer("other", capsys)


def test_a_part_of_a_data_set_is_answered_with_the_whole(capsys):
    make_shapes("made", n=3)
    assert "is a part of " in (err := answer("made/images/train", capsys))
    assert f"fix: --data {Path('made').absolute()}" in err
    voc(Path("BCCD"))
    for part in ("JPEGImages", "ImageSets", "ImageSets/Main"):
        assert f"convert {Path('BCCD').absolute()} --from voc" in answer(f"BCCD/{part}", capsys)


def test_labels_of_another_form_beside_the_images_are_named(capsys):
    """A yaml that names the images of Pascal VOC: it is not the label files that are missing."""
    voc(Path("BCCD"))
    write(Path("voc.yaml"), "train: BCCD/JPEGImages\nval: BCCD/JPEGImages\nnames: [cat, dog]\n")
    assert main(["check", "--data", "voc.yaml"]) == 1
    out = capsys.readouterr().out
    assert "BCCD looks like Pascal VOC XML (3 XML files in Annotations)" in out
    assert "  command: " in out and "convert" in out.split("  command: ")[1].splitlines()[0]
    assert main(["pack", "--data", "voc.yaml"]) == 2
    assert "fix: convert it: " in capsys.readouterr().err


def test_lists_of_pascal_voc_are_answered_with_what_they_belong_to(capsys):
    """They name pictures without their endings, so no line is an image."""
    voc(Path("BCCD"))
    write(Path("voc.yaml"), "path: BCCD\ntrain: ImageSets/Main/train.txt\nval: JPEGImages\nnames: [cat, dog]\n")
    assert main(["check", "--data", "voc.yaml"]) == 1
    out = capsys.readouterr().out
    assert "the train split holds no image, but " in out and "BCCD looks like Pascal VOC XML (3 XML files" in out
    assert "convert " in out.split("the train split holds no image")[1].split("  command: ")[1].splitlines()[0]
    assert main(["pack", "--data", "voc.yaml"]) == 2
    err = capsys.readouterr().err
    assert "looks like Pascal VOC" in err.splitlines()[1], "before what is wrong with each line"
    write(Path("plain.txt"), "a\n")
    write(Path("plain.yaml"), "train: plain.txt\nval: plain.txt\nnames: [cat, dog]\n")
    assert main(["check", "--data", "plain.yaml"]) == 1
    assert "the train split holds no image\n" in capsys.readouterr().out, "of the folder of the list nothing is known"


def test_folders_of_labels_are_counted_without_the_file_of_names(capsys):
    make_shapes("made", n=3)
    Path("made/data.yaml").unlink()
    shutil.rmtree("made/annotations")
    write(Path("made/classes.txt"), "circle\nsquare\n")
    files = len(list(Path("made/labels").rglob("*.txt")))
    assert f"it looks like YOLO labels ({files} label files in labels/train and 1 more folder)" in answer(
        "made", capsys
    )


@pytest.mark.slow
def test_a_key_that_is_nearly_right_is_told(capsys):
    data = make_shapes("few", n=3)
    text = data.read_text()
    write(data, text.replace("names:", "nmaes:") + "owner: me\ndownload: no.sh\n")
    assert main(["check", "--data", "few"]) == 1
    out = capsys.readouterr().out
    assert "warning: unknown key (1)" in out
    assert "data.yaml:6: 'nmaes' means nothing here, did you mean 'names'?" in out
    assert "data.yaml:7: 'owner' means nothing here" in out and "download" not in out
    assert main(["check", "--data", "few", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["faults"][0]["kind"] == "unknown key" and "owner" in found["remarks"][-1]
    write(data, text.replace("val:", "vall:"))
    assert main(["check", "--data", "few", "--splits", "train"]) == 1
    with pytest.raises(UserError, match="there is no split 'val', did you mean 'vall'"):
        read_split(data, "val")


@pytest.mark.slow
def test_what_has_no_val_is_answered_with_the_command_that_divides_it(capsys):
    data = make_shapes("my set", n=10)
    write(data, data.read_text().replace("val: images/val\n", ""))
    assert main(["check", "--data", "my set"]) == 0, "it may be meant for something else than training"
    out = capsys.readouterr().out
    assert "data: there is no split 'val', which training measures on" in out
    command = out.split("divide the images: ")[1].splitlines()[0]
    with pytest.raises(UserError, match="there is no split 'val'") as refused:
        read_split("my set/data.yaml", "val")
    assert refused.value.fix.endswith(f"or divide the images: {command}")
    assert main(shlex.split(command)[1:]) == 0 and main(["check", "--data", "my set-split"]) == 0
    assert "no split" not in capsys.readouterr().out


@pytest.mark.slow
def test_what_training_is_told_of_its_data():
    said = []
    data = make_shapes("few", n=5)
    write(data, data.read_text().replace("images/val", "images/train").replace("names:", "nmaes:"))
    read_data(TrainConfig(data=str(data), cfg="mini"), said.append)
    slip, same = said
    assert "'nmaes' means nothing here, did you mean 'names'" in slip
    assert same.startswith("warning: the 5 val images are train images too, so val measures memory")
    assert f"convert {data} --from yolo --to yolo --split train=0.8 val=0.2 --out few-split" in same
    said.clear()
    write(
        data,
        data.read_text().replace("nmaes:", "names:").replace("val: images/train", "val: [images/val, images/train]"),
    )
    read_data(TrainConfig(data=str(data), cfg="mini"), said.append)
    assert said[0].startswith("warning: 5 of the 6 val images are train images too")
    said.clear()
    read_data(TrainConfig(data=str(make_shapes("other", n=5)), cfg="mini"), said.append)
    assert not said


def deny(monkeypatch, name, ending):
    """Whoever runs the tests may read everything, so the system's answer is made up."""
    real = getattr(os, name)

    def denied(path, *more, **named):
        if not isinstance(path, int) and os.fspath(path).endswith(ending):  # pytest removes folders by descriptor
            raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
        return real(path, *more, **named)

    monkeypatch.setattr(os, name, denied)


@pytest.mark.slow
def test_an_image_folder_that_may_not_be_read(capsys, monkeypatch):
    make_shapes("few", n=3)
    deny(monkeypatch, "scandir", "images/train")
    assert main(["check", "--data", "few"]) == 1
    out = capsys.readouterr().out
    assert "images/train: cannot be read: Permission denied\n  fix: check the permissions of that folder" in out


@pytest.mark.slow
def test_a_label_that_may_not_be_read(capsys, monkeypatch):
    make_shapes("few", n=3)
    deny(monkeypatch, "open", "train/000001.txt")
    assert main(["check", "--data", "few"]) == 1
    out = capsys.readouterr().out
    assert "000001.txt: not a readable text file: Permission denied\n  fix: check its permissions" in out


def test_a_project_folder_that_may_not_be_written(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    deny(monkeypatch, "mkdir", "exp")
    with pytest.raises(UserError, match="Permission denied") as refused:
        new_run_folder(tmp_path / "runs", "exp")
    assert refused.value.fix.startswith("check the permissions, or name another folder with --project")


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set YOLOFAST_CACHE to a folder that can be written"):
        data_argument.data_file("shapes")


@pytest.mark.parametrize("name", ["coco", "coco320"])
def test_the_packaged_data_sets_say_how_to_get_them(name, capsys):
    assert main(["check", "--data", name]) == 1
    out = capsys.readouterr().out
    if name == "coco":
        assert "unpack train2017.zip and val2017.zip of http://images.cocodataset.org/zips into coco/images" in out
    else:
        assert "`yolofast dataset resize --data coco.yaml --img 320 --out coco320` makes it" in out


def test_coco_as_it_is_downloaded_is_found_without_lists(capsys):
    """Images and annotations of the publisher alone, without YOLOv7's lists and labels."""
    coco_files(Path("coco"))
    content = json.loads(Path("coco/annotations/instances_train2017.json").read_text())
    assert content["categories"][0] == {"id": 17, "name": "cat"}
    index = read_split(data_argument.data_file("coco"), "train")
    assert len(index) == 2 and [index.names[label] for label in index.labels] == ["cat", "dog"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["train --data nowhere.yaml", "train --weights nope.pt", "train --cfg nope", "val --data x", "pack --data x"],
)
def test_a_path_that_leads_nowhere_is_told_before_torch_is_imported(words):
    code = f"import sys\nfrom yolofast.cli import main\nprint(main({words.split()!r}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "2 False\n" and "no such file" in done.stderr
