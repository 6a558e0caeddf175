"""On a narrow terminal a table is longer, not poorer."""

import io

from rich.console import Console

from yolofast.terminal.console import folded, table


def printed(width):
    listing = table("epochs", "begins with", ">mean", ">noise")
    listing.add_row("11-100", "0.09 -> 0.44 M parameters learn", "0.000625", "3.91e-05")
    file = io.StringIO()
    Console(file=file, width=width).print(folded(listing))
    return file.getvalue()


def test_words_are_broken_and_numbers_stay_whole():
    text = printed(40)
    assert "…" not in text and max(map(len, text.splitlines())) <= 40
    assert all(number in text for number in ("11-100", "0.000625", "3.91e-05", "parameters", "learn"))


def test_where_there_is_room_nothing_is_broken():
    assert len(printed(200).splitlines()) == 2


def test_even_without_room_nothing_is_cut():
    text = printed(20)
    assert "…" not in text and sum(map(str.isdigit, text)) == sum(map(str.isdigit, "11-1000.090.440.0006253.91e-05"))
