"""One element of a page as HTML. Every text passes `html_text`; there are no style attributes, which the page's content
security policy would refuse.
"""

import base64

from yolofast.pages import elements
from yolofast.pages.html_timeline import timeline_html
from yolofast.pages.tables import cell_text, cell_value, chart_table, is_number
from yolofast.pages.text import breakable_html, html_text, shown

_SHADES = 10
_MOST_NUMBERED = 24
"""Columns of a matrix whose numbers can still be read."""
_WIDE = {8: " wide", 18: " wider"}
"""From more columns on: in smaller letters on paper, and then with words that break anywhere."""


def element_html(element: elements.Element, chart: int) -> str:
    """`chart` is the number of the element's values among those of the page, if it is a chart."""
    match element:
        case elements.Table():
            return _table(element)
        case elements.Paragraph():
            return f"<p>{html_text(element.text)}</p>"
        case elements.Callout():
            return f'<div class="callout {element.kind}" role="note">{html_text(element.text)}</div>'
        case elements.Code():
            button = '<button type="button" class="copy">copy</button>'
            return f'<div class="code">{button}<pre><code>{html_text(element.text)}</code></pre></div>'
        case elements.Picture():
            return _picture(element)
        case elements.Figures():
            return _figures(element)
        case elements.Matrix():
            return _matrix(element)
        case elements.Timeline():
            return timeline_html(element)
        case _:
            return _chart(element, chart)


def _chart(chart: elements.Chart, number: int) -> str:
    """The values as a table too: that is what is there without scripts, and for screen readers."""
    values = f"<details><summary>values</summary>{_table(chart_table(chart))}</details>"
    drawn = f'<div class="plot" data-chart="{number}"><div class="yf-title">{html_text(chart.title)}</div></div>'
    return f'<figure class="chart">{drawn}{values}</figure>'


def _table(table: elements.Table) -> str:
    numeric = [all(is_number(row[at]) for row in table.rows) for at in range(len(table.columns))]
    heads = ""
    for name, right in zip(table.columns, numeric, strict=True):
        text, align = breakable_html(name), ' class="number"' if right else ""
        text = f'<button type="button" class="sort">{text}</button>' if table.sortable else text
        heads += f'<th scope="col"{align}>{text}</th>'
    rows = "".join(
        f"<tr>{''.join(_cell(cell, right) for cell, right in zip(row, numeric, strict=True))}</tr>"
        for row in table.rows
    )
    caption = f"<figcaption>{html_text(table.caption)}</figcaption>" if table.caption else ""
    head = f"<thead><tr>{heads}</tr></thead>" if any(table.columns) else ""
    inner = f"<table>{head}<tbody>{rows}</tbody></table>"
    wide = "".join(name for columns, name in _WIDE.items() if len(table.columns) > columns)
    return f'<figure class="table{wide}">{caption}<div class="scroll" tabindex="0">{inner}</div></figure>'


def _cell(cell: elements.Cell, right: bool) -> str:
    value, text = cell_value(cell), breakable_html(cell_text(cell))
    if isinstance(cell, elements.Marked) and cell.mark == "warn":  # not by colour alone
        text += f' <span aria-label="{html_text(cell.hint or "warning")}">⚠</span>'
    key = "" if isinstance(value, str) or value is None else f' data-value="{float(value)!r}"'
    return f"<td{_classes('number' if right else '', cell)}{_hint(cell)}{key}>{text}</td>"


def _figures(figures: elements.Figures) -> str:
    items = "".join(
        f"<div{_classes('figure', value)}{_hint(value)}><dt>{html_text(name)}</dt>"
        f"<dd>{html_text(cell_text(value))}</dd></div>"
        for name, value in figures.items
    )
    return f'<dl class="figures">{items}</dl>'


def _classes(own: str, cell: elements.Cell) -> str:
    classes = [*own.split(), *([cell.mark] if isinstance(cell, elements.Marked) else [])]
    return f' class="{" ".join(classes)}"' if classes else ""


def _hint(cell: elements.Cell) -> str:
    return f' title="{html_text(cell.hint)}"' if isinstance(cell, elements.Marked) and cell.hint else ""


def _picture(picture: elements.Picture) -> str:
    content = base64.b64encode(picture.content).decode()
    image = f'<img src="data:image/{picture.kind};base64,{content}" alt="{html_text(picture.alt)}" tabindex="0">'
    return f'<figure class="picture">{image}<figcaption>{html_text(picture.caption)}</figcaption></figure>'


def _matrix(matrix: elements.Matrix) -> str:
    sums = [sum(column) or 1.0 for column in zip(*matrix.values, strict=True)]
    numbered = len(matrix.columns) <= _MOST_NUMBERED
    heads = "".join(f'<th scope="col"><span>{html_text(name)}</span></th>' for name in matrix.columns)
    rows = "".join(
        f'<tr><th scope="row">{html_text(name)}</th>{_shaded(matrix, name, values, sums, numbered)}</tr>'
        for name, values in zip(matrix.rows, matrix.values, strict=True)
    )
    corner = f'<th class="corner">{html_text(matrix.row_label)} ↓<br>{html_text(matrix.column_label)} →</th>'
    table = f"<table><thead><tr>{corner}{heads}</tr></thead><tbody>{rows}</tbody></table>"
    hint = f'<p class="hint">{html_text(matrix.hint)}</p>' if matrix.hint else ""
    size = "matrix" if numbered else "matrix small"
    title = f'<div class="yf-title">{html_text(matrix.title)}</div>'
    return f'<figure class="{size}">{title}<div class="scroll" tabindex="0">{table}</div>{hint}</figure>'


def _shaded(matrix: elements.Matrix, row: str, values: tuple[float, ...], sums: list[float], numbered: bool) -> str:
    cells = []
    for column, value, total in zip(matrix.columns, values, sums, strict=True):
        shade = -(-int(1000 * value / total) * _SHADES // 1000)
        hint = f"{matrix.row_label} {row}, {matrix.column_label} {column}: {shown(value)} ({value / total:.1%})"
        text = shown(value) if numbered and value else ""
        cells.append(f'<td class="s{shade}" title="{html_text(hint)}">{text}</td>')
    return "".join(cells)
