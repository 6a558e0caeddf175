// The part of OpenCV that the lines of a README use, since OpenCV's wheels have no headers: images of 64×64 pixels that
// lie in a file as bare bytes, and no resizing.
#pragma once
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

constexpr int CV_8UC3 = 16;

namespace cv {
constexpr int COLOR_BGR2RGB = 4;
struct Size { int width = 0, height = 0; Size() {} Size(int w, int h) : width(w), height(h) {} };
struct Scalar { double value = 0; static Scalar all(double v) { Scalar s; s.value = v; return s; } };
struct Rect { int x, y, width, height; Rect(int a, int b, int w, int h) : x(a), y(b), width(w), height(h) {} };

struct Mat {
    int rows = 0, cols = 0;
    size_t step = 0, numbers = 0;
    std::shared_ptr<std::vector<uint8_t>> own;
    uint8_t* data = nullptr;
    Mat() {}
    Mat(int r, int c, int, Scalar s) : rows(r), cols(c), step(3 * c), numbers(size_t(r) * c) { room(3 * numbers, s.value); }
    void room(size_t bytes, double value) { own = std::make_shared<std::vector<uint8_t>>(bytes, value); data = own->data(); }
    Mat operator()(Rect r) const { Mat m = *this; m.rows = r.height; m.cols = r.width; m.data += r.y * step + 3 * r.x; return m; }
    template <class T> T* ptr() { return reinterpret_cast<T*>(data); }
    size_t total() const { return numbers; }
};

inline Mat imread(const std::string& name) {
    Mat m(64, 64, CV_8UC3, Scalar());
    std::ifstream(name, std::ios::binary).read(reinterpret_cast<char*>(m.data), 3 * 64 * 64);
    return m;
}
inline void resize(const Mat& from, const Mat& into, Size size) {
    if (from.rows != size.height || from.cols != size.width) throw std::runtime_error("no resizing");
    for (int y = 0; y < from.rows; y++) std::copy_n(from.data + y * from.step, 3 * from.cols, into.data + y * into.step);
}
inline void cvtColor(const Mat& from, Mat& into, int) {
    for (size_t i = 0; i < from.numbers; i++) std::swap(into.data[3 * i], into.data[3 * i + 2]);
}
namespace dnn {
inline Mat blobFromImages(const std::vector<Mat>& images, double scale, Size, Scalar, bool swapped) {
    Mat blob;
    const size_t area = size_t(images[0].rows) * images[0].cols;
    blob.numbers = 3 * area * images.size();
    blob.room(4 * blob.numbers, 0);
    for (size_t k = 0; k < blob.numbers; k++) {
        const size_t image = k / (3 * area), colour = k / area % 3, pixel = k % area;
        blob.ptr<float>()[k] = images[image].data[3 * pixel + (swapped ? 2 - colour : colour)] * scale;
    }
    return blob;
}
inline Mat blobFromImage(const Mat& image, double scale, Size size, Scalar mean, bool swapped) {
    return blobFromImages({image}, scale, size, mean, swapped);
}
}  // namespace dnn
}  // namespace cv
