import pytest

from tests.dataset.make import image, write


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Tests leave nothing in the user's cache, nor do they find anything there."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """a.jpg with two boxes, b.PNG without a label file, c.jpg with an empty one, deeper/d.jpg with one box."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "set"
    for seed, name in enumerate(("a.jpg", "b.PNG", "c.jpg", "deeper/d.jpg")):
        image(data / "images" / "train" / name, seed=seed)
    write(data / "images" / "train" / "notes.md", "")
    write(data / "labels" / "train" / "a.txt", "0 .5 .5 .2 .4\n1 0.25 0.25 0.5 0.5\n")
    write(data / "labels" / "train" / "c.txt", "")
    write(data / "labels" / "train" / "deeper" / "d.txt", "1 .1 .2 .1 .2")
    write(data / "data.yaml", "train: images/train\nnc: 2\nnames: [cat, dog]\n")
    return data
