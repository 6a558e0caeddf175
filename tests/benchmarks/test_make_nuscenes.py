"""Made-up tables are what users without nuScenes try the commands on."""

import pytest

from benchmarks.make_nuscenes import make_nuscenes
from yolofast.cli import main


@pytest.mark.slow
def test_a_made_up_data_set_has_no_faults(tmp_path, capsys, monkeypatch):
    """Also not that train and val show the same image."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    rows = make_nuscenes(tmp_path / "root", "v1.0-mini", 2, pictures=True)
    assert rows["scene"] == 2 and rows["sample"] == 80
    own = ["--root", str(tmp_path / "root"), "--version", "v1.0-mini", "--out", str(tmp_path / "boxes")]
    assert main(["convert", "--from", "nuscenes", *own, "--cameras", "CAM_FRONT"]) == 0
    assert main(["check", "--data", str(tmp_path / "boxes" / "data.yaml")]) == 0, capsys.readouterr().out
