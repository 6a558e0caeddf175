"""Batches by shape: ceil(share · img / stride + pad) strides, by hand."""

import numpy as np

from yolofast.loader.order import rect_order, rect_shapes

WIDE, TALL, SQUARE = (640, 480), (480, 640), (500, 500)


def test_order_is_from_wide_to_tall_and_stable():
    sizes = np.array([TALL, SQUARE, WIDE, (300, 300), (1000, 200)])
    assert rect_order(sizes).tolist() == [4, 2, 1, 3, 0]


def test_shapes():
    sizes = np.array([(1000, 200), WIDE, WIDE, SQUARE, TALL, (320, 640)])
    shapes = rect_shapes(sizes, batch=2, img=640, stride=32)
    # 0.75 · 20 + 0.5 = 15.5 -> 16 strides of 32; 1 · 20 + 0.5 -> 21. The second batch holds a square one.
    assert shapes.tolist() == [[512, 672], [672, 672], [672, 512]]


def test_no_padding_and_a_last_batch_of_one():
    sizes = np.array([WIDE, WIDE, TALL])
    assert rect_shapes(sizes, batch=2, img=640, stride=32, pad=0.0).tolist() == [[480, 640], [640, 480]]


def test_nothing():
    assert rect_shapes(np.zeros((0, 2), np.int64), batch=2, img=640, stride=32).shape == (0, 2)
