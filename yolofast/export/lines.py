"""The lines of a folder's README that run its model on `street.jpg`: in Python and in C++, nothing of yolofast.

Both read and fit the image with OpenCV, run it as the format does, and print what is found: class, score and box.
"""

from yolofast.export.formats.contract import ExportFormat
from yolofast.export.formats.facts import IMAGE, IMAGES, ExportFacts


def python_lines(name: str, facts: ExportFacts, form: ExportFormat) -> str:
    imports, run = form.python_lines(name, IMAGE if facts.image_order else IMAGES)
    return f"import cv2\nimport numpy as np\n{imports}\n{_preparing(facts)}{run}{_showing(facts)}"


def _preparing(facts: ExportFacts) -> str:
    if facts.image_order:
        turned = "[..., ::-1]" if facts.image_order == "rgb" else ""
        return f'{IMAGE} = np.ascontiguousarray(cv2.imread("street.jpg"){turned})\n'
    height, width = facts.shape
    order = "[..., ::-1]" if facts.inputs.rgb else ""
    corner = "0, 0" if facts.inputs.top_left else f"({height} - high) // 2, ({width} - wide) // 2"
    more = f".repeat({facts.batch}, 0)" if facts.batch > 1 else ""
    return f"""picture = cv2.imread("street.jpg")
ratio = min({height} / picture.shape[0], {width} / picture.shape[1])
high, wide = (max(int(side * ratio), 1) for side in picture.shape[:2])
top, left = {corner}
canvas = np.full(({height}, {width}, 3), 114, np.uint8)
canvas[top : top + high, left : left + wide] = cv2.resize(picture, (wide, high))
{IMAGES} = canvas{order}.transpose(2, 0, 1)[None].astype(np.float32){more} / {facts.inputs.divisor:g}
"""


def _showing(facts: ExportFacts) -> str:
    if facts.nms == "none":
        return "print(*(one.shape for one in outputs))\n"
    if len(facts.outputs) > 1:
        return """count, boxes, scores, classes = (output[0] for output in outputs)
for box, score, label in zip(boxes[: count[0]], scores, classes):
    print(label, score, *box)
"""
    return """for x1, y1, x2, y2, score, label in outputs[0][0]:
    if score > 0:
        print(int(label), score, x1, y1, x2, y2)
"""


def cpp_lines(name: str, facts: ExportFacts, form: ExportFormat) -> str:
    """Headers, and what stands in `main`."""
    headers, run, value = form.cpp_lines(name, facts)
    known = "#include <iostream>\n#include <opencv2/opencv.hpp>\n"
    return f"{known}{headers}\n{_cpp_preparing(facts)}{run}{_cpp_showing(facts, value) if value else ''}"


def _cpp_preparing(facts: ExportFacts) -> str:
    if facts.image_order:
        turned = f"cv::cvtColor({IMAGE}, {IMAGE}, cv::COLOR_BGR2RGB);\n" if facts.image_order == "rgb" else ""
        return f'cv::Mat {IMAGE} = cv::imread("street.jpg");\n{turned}'
    height, width = facts.shape
    corner = "0, 0" if facts.inputs.top_left else f"({width} - wide) / 2, ({height} - high) / 2"
    taken = "canvas" if facts.batch < 2 else f"std::vector<cv::Mat>({facts.batch}, canvas)"
    made = "blobFromImage" if facts.batch < 2 else "blobFromImages"
    swapped = "true" if facts.inputs.rgb else "false"
    return f"""cv::Mat picture = cv::imread("street.jpg");
double ratio = std::min({height}.0 / picture.rows, {width}.0 / picture.cols);
int high = std::max(int(picture.rows * ratio), 1), wide = std::max(int(picture.cols * ratio), 1);
cv::Mat canvas({height}, {width}, CV_8UC3, cv::Scalar::all(114));
cv::resize(picture, canvas(cv::Rect({corner}, wide, high)), cv::Size(wide, high));
cv::Mat {IMAGES} = cv::dnn::{made}({taken}, 1 / {facts.inputs.divisor:.1f}, cv::Size(), cv::Scalar(), {swapped});
"""


def _cpp_showing(facts: ExportFacts, value: str) -> str:
    def output(place: int, kind: str) -> str:
        return value.format(place=place, name=facts.outputs[place], kind=kind)

    if facts.nms == "none":
        return f"const float* rows = {output(0, 'float')};  // of {5 + len(facts.names)} numbers each\n"
    if len(facts.outputs) > 1:
        return f"""const int count = *{output(0, "int")}, *labels = {output(3, "int")};
const float *boxes = {output(1, "float")}, *scores = {output(2, "float")};
for (int i = 0; i < count; i++)
    std::cout << labels[i] << ' ' << scores[i] << ' ' << boxes[4 * i] << ' ' << boxes[4 * i + 1] << ' '
              << boxes[4 * i + 2] << ' ' << boxes[4 * i + 3] << '\\n';
"""
    return f"""const float* row = {output(0, "float")};
for (int i = 0; i < {facts.max_det} && row[4] > 0; i++, row += 6)
    std::cout << row[5] << ' ' << row[4] << ' ' << row[0] << ' ' << row[1] << ' ' << row[2] << ' ' << row[3] << '\\n';
"""
