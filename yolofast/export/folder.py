"""What lies beside an exported model: how it was compared, and in a folder its labels and how to run it."""

from pathlib import Path

from yolofast.export.check import ExportComparison
from yolofast.export.formats.contract import ExportFormat
from yolofast.export.formats.facts import IMAGE, IMAGES, PREDICTIONS, ExportFacts
from yolofast.export.int8 import Int8
from yolofast.export.lines import cpp_lines, python_lines

CHECK = "check.md"


def write_companions(
    folder: Path,
    model: Path,
    facts: ExportFacts,
    form: ExportFormat,
    comparison: ExportComparison | None,
    int8: Int8 | None,
    *,
    alone: bool,
    runs: bool,
) -> None:
    """`alone`: the model is a file by itself, beside which only the comparison lies, under its name. `runs`: yolofast
    runs such files."""
    if comparison is not None:
        name = f"{model.name}.{CHECK}" if alone else CHECK
        (folder / name).write_text(check_page(model.name, facts, comparison, int8), encoding="utf-8")
    if not alone:
        (folder / "labels.txt").write_text("".join(f"{name}\n" for name in facts.names), encoding="utf-8")
        (folder / "README.md").write_text(readme(model.name, facts, form, runs=runs), encoding="utf-8")


def check_page(name: str, facts: ExportFacts, comparison: ExportComparison, int8: Int8 | None) -> str:
    searched = "" if int8 is None else f"\n| int8 | found | target |\n|---|---|---|\n{_lines(int8.rows())}"
    compared = f"| | found | allowed |\n|---|---|---|\n{_lines(comparison.rows())}"
    return (
        f"# {name} against {facts.weights}\n\n{compared}{searched}\n"
        f"yolofast {facts.version}, {facts.precision}, weights sha256 `{facts.weights_sha256}`.\n"
    )


def _lines(rows: list[tuple[str, str, str]]) -> str:
    return "".join(f"| {what} | {value} | {allowed} |\n" for what, value, allowed in rows)


def input_words(facts: ExportFacts) -> str:
    if facts.image_order:
        return f"`{IMAGE}`: uint8 [height, width, 3], {facts.image_order.upper()}, one image of any size"
    batch = facts.batch or "batch"
    sides = f"height, width (multiples of {facts.stride})" if facts.any_sides else "{}, {}".format(*facts.shape)
    order, most = "RGB" if facts.inputs.rgb else "BGR", 255 / facts.inputs.divisor
    place = "in the top left corner" if facts.inputs.top_left else "in the middle"
    return (
        f"`{IMAGES}`: float32 [{batch}, 3, {sides}], {order}, 0 to {most:g}; "
        f"the image keeps its form, lies {place}, and the rest is grey (114 of 255)"
    )


def output_words(facts: ExportFacts, form: ExportFormat) -> str:
    if form.raw:
        return "`out0`, `out1`, …: float32 raw maps of each level, before σ; `yolofast.json` says how they are decoded"
    batch, pixels = facts.batch or "batch", "the image" if facts.image_order else "the input"
    if facts.nms == "none":
        return f"`{PREDICTIONS}`: float32 [{batch}, n, {5 + len(facts.names)}]: cx, cy, w, h, objectness, class scores"
    if len(facts.outputs) > 1:
        most = facts.max_det
        return (
            f"`num_dets` int32 [{batch}, 1], `det_boxes` float32 [{batch}, {most}, 4] (x1, y1, x2, y2 in pixels of "
            f"{pixels}), `det_scores` float32 [{batch}, {most}], `det_classes` int32 [{batch}, {most}]"
        )
    return (
        f"`detections`: float32 [{batch}, {facts.max_det}, 6]: x1, y1, x2, y2 in pixels of {pixels}, score, class; "
        "best first, rows of zeros behind them"
    )


def _threshold_words(facts: ExportFacts) -> str:
    """Of inputs that may be left out."""
    given = "- inputs `conf`: float32 [1], `iou`: float32 [1], `max_det`: int64 [1]; each may be left out\n"
    return given if facts.threshold_inputs else ""


def _own_words(name: str) -> str:
    asked = f'`Detector("{name}").predict("street.jpg")`, or `yolofast val --weights {name} --data data.yaml`'
    return f"With yolofast itself: {asked}.\n\n"


def readme(name: str, facts: ExportFacts, form: ExportFormat, *, runs: bool) -> str:
    """`runs`: yolofast runs such files too."""
    suppression = {"none": "none: apply it to the predictions", "onnx": "inside", "efficientnms": "TensorRT's, inside"}
    return f"""# {name}

Exported by yolofast {facts.version} from `{facts.weights}` (sha256 `{facts.weights_sha256}`), {facts.precision}.

- input {input_words(facts)}
{_threshold_words(facts)}- output {output_words(facts, form)}
- suppression: {suppression[facts.nms]}; conf {facts.conf:g}, iou {facts.iou:g}, at most {facts.max_det} detections
- classes: `labels.txt`, a line each, from 0

{_engine_words(name) if _only_in_tensorrt(facts, form) else _lines_words(name, facts, form, runs=runs)}"""


def _only_in_tensorrt(facts: ExportFacts, form: ExportFormat) -> bool:
    """A graph that the runtime of its own format cannot run, since it has TensorRT's suppression."""
    return facts.nms == "efficientnms" and form.extra != "tensorrt"


def _engine_words(name: str) -> str:
    engine = Path(name).with_suffix(".engine").name
    return f"""TensorRT alone knows its suppression. Its own program builds an engine where the GPU is:

```
trtexec --onnx={name} --saveEngine={engine}  # needs TensorRT
```

{_own_words(name)}Both use the predictions in the file, and suppression of yolofast.
"""


def _lines_words(name: str, facts: ExportFacts, form: ExportFormat, *, runs: bool) -> str:
    return f"""## Python

```python
{python_lines(name, facts, form)}```

{_own_words(name) if runs else ""}## C++

```cpp
{cpp_lines(name, facts, form)}```
"""
