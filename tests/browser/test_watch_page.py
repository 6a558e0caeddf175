"""`yolofast watch` in a browser: its clock is the test's, so that nobody waits for the next look."""

import json
import shutil
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest

from tests.patience import PATIENCE
from tests.watch.made_runs import append, make_run, row
from yolofast.commands.watch import address_of, make_server

EVIL = '<img src=x onerror="window.harmed=1;alert(1)"><script>window.harmed=1<／script>\'&'
LOOK = 2100
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
TOKEN = "a-token-for-the-tests"


@contextmanager
def serving(root, port=0, token=None, host="127.0.0.1"):
    with make_server(root, host, port, token) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def root(tmp_path):
    make_run(tmp_path / "first", age=5000, batch_size=16)
    make_run(tmp_path / "second", age=3000, batch_size=32, quality=2.0)
    make_run(tmp_path / "nested" / "live", epochs=30, done=4, finished=False)
    return tmp_path


def opened(one, server, hash=""):
    one.page.clock.install()
    one.page.goto(address_of(server) + hash)
    one.page.wait_for_selector(".status.live")
    return one.page


def points(page, title):
    chart = page.locator(".chart").filter(has=page.get_by_text(title, exact=True)).first
    lines = chart.locator("path.yf-line[data-points]")
    return [int(lines.nth(i).get_attribute("data-points")) for i in range(lines.count())]


def look_until(page, condition):
    """Lets two seconds of the page pass at a time; what it asks for takes real time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        page.clock.run_for(LOOK)
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not come")


def test_the_run_that_trains_is_shown_first_and_its_curves_draw(root, watched):
    with serving(root) as server:
        page = opened(watched(), server)
        assert page.locator("#titles h2").inner_text() == "nested/live"
        assert page.locator(".runs li").count() == 3
        assert points(page, "mAP50-95") == [4] and points(page, "Loss: box") == [4, 4]
        assert points(page, "Loss of every batch") == [16] and points(page, "Learning rate") == [4]
        assert page.title().startswith("1 running")


def test_selecting_several_compares_them(root, watched):
    results, last = root / "first" / "results.csv", row(9).split(",")
    worse = ",".join([*last[:7], "0.1", *last[8:]])  # the highest mAP50-95, but not the highest fitness
    results.write_text(results.read_text().replace(row(9), worse))
    with serving(root) as server:
        one = watched()
        page = opened(one, server)
        page.get_by_role("button", name="first").click()
        page.wait_for_function("document.querySelector('#titles h2').textContent === 'first'")
        page.get_by_label("compare second").check()
        page.wait_for_selector("#settings-table")
        assert page.locator("#settings-table tbody").inner_text().split() == ["batch_size", "16", "32"]
        best = page.locator("#figures-table tr").filter(has_text="best mAP50-95").locator("td").all()
        assert [cell.get_attribute("class") for cell in best[1:]] == ["number", "number best"]
        epoch = page.locator("#figures-table tr").filter(has_text="best epoch").locator("td").all()
        assert [cell.inner_text() for cell in epoch[1:]] == ["9", "10"], "those of best.pt"
        assert points(page, "mAP50-95") == [10, 10]
        page.reload()
        page.wait_for_selector("#settings-table")
        page.select_option("#axis", "time")
        assert "seconds" in page.locator(".yf-svg").first.text_content(), "100 of them are less than two minutes"
        page.get_by_label("compare first").uncheck()
        assert page.locator("#titles h2").inner_text() == "second"
        page.fill("#filter", "nes")
        assert page.locator(".run-name").all_text_contents() == ["nested/live"]
        page.press("#filter", "Enter")
        page.wait_for_function("document.querySelector('#titles h2').textContent === 'nested/live'")


def winners(page, name):
    cells = page.locator("#figures-table tr").filter(has_text=name).locator("td.number").all()
    return ["best" in cell.get_attribute("class").split() for cell in cells]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"gpu": "H200", "gpus": 1}, {"gpu": "A100", "gpus": 8}, "different hardware (gpu: H200, A100)"),
        ({"gpu": "H200", "cpu_cores": 4}, {"gpu": "H200", "cpu_cores": 16}, "different hardware (cpu_cores: 4, 16)"),
        ({"gpu": "H200", "cpu": "this"}, {"gpu": "H200", "cpu": "that"}, ""),
        ({"gpu": "H200"}, {}, ""),  # silence
    ],
)
def test_nobody_wins_in_time_on_other_hardware(tmp_path, watched, one, other, words):
    """The second takes half the time."""
    make_run(tmp_path / "slow", environment=one)
    fast = make_run(tmp_path / "fast", environment=other, quality=2.0) / "results.csv"
    head, *rows = (line.split(",") for line in fast.read_text().splitlines())
    halved = [[row[0], str(float(row[1]) / 2), *(cell.replace("900", "1800") for cell in row[2:])] for row in rows]
    fast.write_text("\n".join(",".join(line) for line in [head, *halved]) + "\n")
    with serving(tmp_path) as server:
        page = opened(watched(), server, "#run=slow&run=fast")
        page.wait_for_selector("#figures-table")
        assert winners(page, "best mAP50-95") == [False, True]
        for name in ("training time", "images per second"):
            assert winners(page, name) == [False, not words]
        why = page.locator("#no-contest")
        assert words in why.inner_text() if words else why.count() == 0


def test_nobody_wins_in_times_that_count_different_things(tmp_path, watched):
    """A folder of Ultralytics: its time has evaluations in it."""
    make_run(tmp_path / "ours")
    theirs = make_run(tmp_path / "theirs") / "results.csv"
    rows = (line.split(",") for line in theirs.read_text().splitlines())
    theirs.write_text("".join(",".join([row[0], row[1] + "0" * row[1].isdigit(), *row[2:-3]]) + "\n" for row in rows))
    with serving(tmp_path) as server:
        page = opened(watched(), server, "#run=ours&run=theirs")
        page.wait_for_selector("#figures-table")
        assert winners(page, "training time") == [False, False]
        assert "some runs count training only" in page.locator("#no-contest").inner_text()


def test_a_run_without_settings_is_left_out_of_what_differs(root, watched):
    (root / "nested" / "live" / "args.yaml").unlink()
    lines = (root / "first" / "results.csv").read_text().splitlines()
    lines[-1] = lines[-1].replace(",900,", ",450,").replace(",100,", ",120,")  # the last epoch: 30 of 120 s
    (root / "first" / "results.csv").write_text("\n".join(lines) + "\n")
    with serving(root) as server:
        page = opened(watched(), server, "#run=nested%2Flive&run=first&run=second")
        page.wait_for_selector("#settings-table")
        assert page.locator("#settings-table tbody").inner_text().split() == ["batch_size", "16", "32"]
        heads = page.locator("#settings-table th.run")
        assert heads.all_inner_texts() == ["first", "second"]
        assert "yf-c1" in heads.first.get_attribute("class")  # the colour of its curves
        assert "nested/live" in page.locator("#left-out").inner_text()
        speeds = page.locator("#figures-table tr").filter(has_text="images per second").inner_text()
        assert "787.5" in speeds and "788 img/s" in page.locator(".runs").inner_text()


def test_rows_and_runs_appear_while_it_is_open(root, watched):
    live = root / "nested" / "live"
    with serving(root) as server:
        page = opened(watched(), server)
        text = row(4) + "\n"
        append(live, text[:40])
        page.clock.run_for(LOOK)
        append(live, text[40:])
        look_until(page, lambda: points(page, "mAP50-95") == [5])
        look_until(page, lambda: "epoch 5 of 30" in page.locator("#titles").inner_text())  # the list is asked for apart
        make_run(root / "newcomer", done=1, finished=False)
        look_until(page, lambda: page.locator(".runs li").count() == 4)
        shutil.rmtree(live)
        look_until(page, lambda: page.locator(".runs li").count() == 3)


def test_it_says_when_the_server_has_gone_and_continues_when_it_is_back(root, watched):
    one = watched()
    with serving(root) as server:
        page, port = opened(one, server), server.server_port
    look_until(page, page.locator("#gone").is_visible)
    assert "server has gone" in page.locator("#gone").inner_text() and points(page, "mAP50-95") == [4]
    append(root / "nested" / "live", row(4) + "\n")
    with serving(root, port):
        look_until(page, lambda: points(page, "mAP50-95") == [5])
        assert not page.locator("#gone").is_visible()


def test_a_hidden_tab_asks_for_nothing(root, watched):
    with serving(root) as server:
        page, requested = opened(watched(), server), []
        page.on("request", lambda request: requested.append(request.url))
        page.evaluate(HIDE, True)
        page.clock.run_for(10 * LOOK)
        page.wait_for_timeout(50)
        assert requested == [] and page.locator("#status").inner_text() == "paused"
        with page.expect_response("**/api/runs"):
            page.evaluate(HIDE, False)


def test_hostile_names_and_values_are_only_shown(tmp_path, watched):
    run = make_run(tmp_path / EVIL, done=3, data=EVIL)
    make_run(tmp_path / ("x" * 200), data=EVIL + "2")
    content = (run / "results.csv").read_text().replace("train/box_loss", "train/<img src=x onerror=alert(1)>_loss")
    (run / "results.csv").write_text(content)
    with serving(tmp_path) as server:
        page = opened(watched(), server)
        for box in page.locator(".runs input").all():
            box.set_checked(True)
        page.wait_for_selector("#settings-table")
        assert EVIL in page.locator(".run-name").all_text_contents()
        assert EVIL in page.locator("#settings-table").inner_text()
        assert page.evaluate("window.harmed") is None and page.locator("img[src=x]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "a long name does not push the page"


def test_the_token_leaves_the_address(root, watched):
    with serving(root, token=TOKEN) as server:
        one = watched()
        page = opened(one, server)
        assert urlsplit(page.url).query == "" and page.evaluate("document.cookie") == ""
        (cookie,) = page.context.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        page.reload()
        page.wait_for_selector(".status.live")
        assert points(page, "mAP50-95") == [4]


def test_a_report_opens_apart(root, watched):
    (root / "first" / "report.html").write_text("<!DOCTYPE html><title>report</title><p>figures</p>")
    cv2.imwrite(str(root / "first" / "results.png"), np.zeros((20, 30, 3), np.uint8))
    with serving(root) as server:
        page = opened(watched(), server, "#run=first")
        page.locator("#pictures img").scroll_into_view_if_needed()
        page.wait_for_function("document.querySelector('#pictures img').naturalWidth === 30")
        with page.context.expect_page() as waiting:
            page.get_by_role("link", name="report").first.click()
        report = waiting.value
        within = report.frame_locator("iframe").locator("p")
        assert within.inner_text() == "figures" and within.evaluate("() => self.origin") == "null"
        assert report.evaluate("self.origin") == "null" and report.title() == "first"


def test_without_runs_it_says_what_to_type(tmp_path, watched):
    with serving(tmp_path / "runs") as server:
        page = opened(watched(), server)
        assert "yolofast train" in page.locator("#empty").inner_text()
        make_run(tmp_path / "runs" / "exp", done=1, finished=False)
        look_until(page, lambda: page.locator("#titles h2").inner_text() == "exp")
        assert not page.locator("#empty").is_visible()


def test_dark_and_narrow(root, watched):
    with serving(root) as server:
        page = opened(watched(color_scheme="dark"), server)
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
        page.emulate_media(media="print")
        assert not page.locator(".side").is_visible()


def test_a_sweep_shows_its_trials_and_its_page(root, watched):
    folder = root / "sweep" / "rates"
    make_run(folder / "000-lr0=0.01")
    make_run(folder / "001-lr0=0.02")
    trials = [{"state": "complete", "best": 0.5}, {"state": "waits", "best": None}]
    (folder / "trials.json").write_text("{}")
    (folder / "sweep.json").write_text(json.dumps({"trials": trials}))
    (folder / "sweep.html").write_text("<p>what came out</p>")
    with serving(root) as server:
        page = opened(watched(), server)
        sweep = page.locator("#sweeps li")
        assert "1 of 2 complete · best 0.500" in sweep.inner_text()
        assert page.locator("#runs li").count() == 5
        sweep.get_by_role("button").click()
        assert page.locator("#runs li").count() == 2
        sweep.get_by_role("button").click()
        assert page.locator("#runs li").count() == 5
        with page.expect_popup() as other:
            sweep.get_by_role("link", name="page").click()
        assert "what came out" in other.value.frame_locator("iframe").locator("p").inner_text()
