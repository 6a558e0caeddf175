"""A page as Markdown: the same content, charts as tables of a few values, pictures as their captions."""

import re

from yolofast.pages import elements
from yolofast.pages.tables import cell_text, chart_table, is_number, matrix_table, timeline_table
from yolofast.pages.text import markdown_paragraph, markdown_text, printable

_KINDS = {"note": "Note", "warn": "Warning", "good": "Good"}


def render_markdown(page: elements.Page) -> str:
    blocks = [f"# {markdown_text(page.title)}", markdown_paragraph(page.subtitle)]
    for section in page.sections:
        blocks.append(f"## {markdown_text(section.title)}")
        blocks += [_element(element) for element in section.elements]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _element(element: elements.Element) -> str:
    match element:
        case elements.Table():
            return _table(element)
        case elements.Paragraph():
            return markdown_paragraph(element.text)
        case elements.Callout():
            return f"> **{_KINDS[element.kind]}:** {markdown_text(element.text)}"
        case elements.Code():
            return _code(element.text)
        case elements.Picture():
            return f"*Picture: {markdown_text(element.caption or element.alt)}*"
        case elements.Figures():
            return "\n".join(f"- {markdown_text(name)}: **{_cell(value)}**" for name, value in element.items)
        case elements.Matrix():
            return _with_hint(_table(matrix_table(element)), element.hint)
        case elements.Timeline():
            return _with_hint(_table(timeline_table(element)), element.hint)
        case _:
            return _with_hint(_table(chart_table(element)), getattr(element, "hint", ""))


def _with_hint(text: str, hint: str) -> str:
    return f"{text}\n\n{markdown_text(hint)}" if hint else text


def _table(table: elements.Table) -> str:
    numeric = [all(is_number(row[place]) for row in table.rows) for place in range(len(table.columns))]
    lines = [_row([markdown_text(name) for name in table.columns])]
    lines.append(_row(["---:" if right and table.rows else "---" for right in numeric]))
    lines += [_row([_marked(cell) for cell in row]) for row in table.rows]
    caption = f"**{markdown_text(table.caption)}**\n\n" if table.caption else ""
    return caption + "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _marked(cell: elements.Cell) -> str:
    """The best is bold; what is worse or doubtful says so, because Markdown has no colours."""
    text = _cell(cell)
    if not isinstance(cell, elements.Marked):
        return text
    hint = f" ({markdown_text(cell.hint)})" if cell.hint and cell.mark == "warn" else ""
    return {"best": f"**{text}**", "worse": f"{text} ↓", "warn": f"{text} ⚠"}[cell.mark] + hint


def _cell(cell: elements.Cell) -> str:
    return markdown_text(cell_text(cell))


def _code(text: str) -> str:
    """Fenced by more backticks than there are in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(text)}\n{fence}"
