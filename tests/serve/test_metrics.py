"""Prometheus's text format, as its documentation gives it."""

import re

from yolofast.serve.metrics import Histogram, Metrics, label_text

LINE = re.compile(r'# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="(\\.|[^"\\\n])*"\})? [0-9.e+-]+')


def test_buckets_hold_all_up_to_their_bound():
    one = Histogram("seconds", "How long.", (0.1, 1.0))
    for value in (0.1, 0.05, 0.5, 7.0):
        one.add(value)
    assert one.lines() == [
        "# HELP seconds How long.",
        "# TYPE seconds histogram",
        'seconds_bucket{le="0.1"} 2',
        'seconds_bucket{le="1.0"} 3',
        'seconds_bucket{le="+Inf"} 4',
        "seconds_sum 7.650000",
        "seconds_count 4",
    ]


def test_every_line_can_be_read_whatever_a_class_is_called():
    metrics = Metrics(batch=6)
    metrics.requests.add("200")
    metrics.requests.add("200", 2)
    metrics.detections.add(label_text('a "big"\ncat\\'))
    text = metrics.text({"waiting": ("Now.", 3)})
    assert text.endswith("\n") and all(LINE.fullmatch(line) for line in text.splitlines())
    assert 'yolofast_requests_total{status="200"} 3\n' in text and "\nwaiting 3\n" in text
    assert r'yolofast_detections_total{class="a \"big\"\ncat\\"} 1' in text
    assert re.findall(r'batch_images_bucket\{le="(.+?)"', text) == ["1", "2", "4", "6", "+Inf"]
