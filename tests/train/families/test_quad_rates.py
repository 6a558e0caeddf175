"""`--quad`: rates count the images of the data set that are used up, as `--batch-size` does."""

import json

import pytest

from tests.train.small_run import flags
from tests.train.two_ranks import small_cfg_file
from yolofast.cli import main
from yolofast.report.compare.consistency import check_run
from yolofast.report.compare.figures import images_per_second
from yolofast.report.compare.read_folder import read_run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("quad")


@pytest.mark.slow
def test_a_run_its_profile_and_the_comparison_agree(folder):
    words = flags(folder, epochs=1, cfg=small_cfg_file(folder), name="quad")
    assert main(["train", *words, "--quad", "--notest", "--profile-every", "1"]) == 0
    run = read_run(folder / "runs" / "quad", "quad")
    assert (run.timing.images, run.timing.iterations) == (24, 3), "three batches of eight, whatever they are joined to"
    assert [remark.text for remark in check_run(run) if remark.kind == "contradiction"] == []
    summary = json.loads((folder / "runs" / "quad" / "summary.json").read_text())
    assert images_per_second(run) == pytest.approx(summary["images_per_second"], rel=0.01)
    profile = json.loads((folder / "runs" / "quad" / "profile.json").read_text())
    assert profile["images_per_second"] == pytest.approx(8 / profile["step_ms"]["mean"] * 1e3)


@pytest.mark.slow
def test_joined_images_are_not_compared_with_single_ones(folder, capsys):
    words = [*flags(folder, cfg=small_cfg_file(folder)), "--steps", "2", "--warm-up", "1", "--against=--quad"]
    written = folder / "both.json"
    assert main(["profile", *words, "--json", str(written)]) == 0
    assert "128×128, batch 8 as 2 joined of 4 each" in capsys.readouterr().out
    content = json.loads(written.read_text())
    for side, profile in (("first", content), ("second", content["against"])):
        assert profile["setup"]["batch"] == 8
        per_image = profile["step_ms"]["mean"] / 8  # blocks are equally long, so their mean is that of all steps
        assert content["comparison"][side]["mean"] == pytest.approx(per_image)
