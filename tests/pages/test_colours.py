"""Colours of curves and parts of bars differ, also for people who see no red (protanopia) or green (deuteranopia)."""

import re
from itertools import combinations

import numpy as np
import pytest

from yolofast.pages.html import web_file
from yolofast.profile.step_phases import ORDER

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
SIGHTS = {
    "all": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
LEAST = 14
"""In CIELAB; two greys of 14 % difference are that far apart."""


def lab(colour, sight):
    levels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(SIGHTS[sight]) @ linear, 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def palettes():
    blocks = re.findall(r"{[^{}]*}", web_file("page.css"))
    return sorted({tuple(re.findall(r"--c\d+: (#\w{6});", block)) for block in blocks} - {()})


def test_there_is_a_light_and_a_dark_one():
    """Each phase of a step has a colour of its own in either."""
    assert [len(colours) for colours in palettes()] == [len(ORDER)] * 2


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_are_far_from_one_another(sight):
    for colours in palettes():
        for one, other in combinations(colours, 2):
            assert np.linalg.norm(lab(one, sight) - lab(other, sight)) > LEAST, (one, other)
