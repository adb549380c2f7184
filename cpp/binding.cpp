// The only file that knows Python: it checks arguments, releases the GIL and makes one call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "crc32c.h"
#include "interleave.h"
#include "jpeg.h"
#include "jpeg_recode.h"
#include "kernels.h"
#include "labels.h"
#include "maps.h"
#include "mix.h"
#include "png.h"
#include "read_cached.h"
#include "render.h"
#include "sharing.h"

namespace nb = nanobind;

namespace {

using headrace::Bytes;

// A read-only view of any object with the buffer protocol, contiguous, released on scope exit.
class Buffer {
 public:
  explicit Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_ND) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return size_t(view_.len); }
  Bytes bytes() const { return {data(), size()}; }

  bool is_encoded() const { return view_.ndim == 1; }

  // uint8[height, width, 3]
  bool is_picture() const {
    return view_.ndim == 3 && view_.itemsize == 1 && view_.shape[2] == 3 && size() > 0 &&
           view_.shape[0] <= INT32_MAX && view_.shape[1] <= INT32_MAX;
  }
  int32_t height() const { return int32_t(view_.shape[0]); }
  int32_t width() const { return int32_t(view_.shape[1]); }

 private:
  Py_buffer view_;
};

// Lets other Python threads run. Unlike nanobind's, it outlives the interpreter: to a thread that
// comes back when that is ending, Python before 3.14 does pthread_exit, whose unwinding would end
// the process in a destructor. Such a thread stays where it is until the process is gone.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

uint32_t crc32c(nb::handle data, uint32_t crc) {
  const Buffer buffer(data);
  const WithoutGil without_gil;
  return headrace::crc32c(crc, buffer.data(), buffer.size());
}

template <typename T, nb::ssize_t... Shape>
using Array = nb::ndarray<T, nb::shape<Shape...>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

using BoxTuple = std::tuple<int32_t, int32_t, int32_t, int32_t>;

// (status, uint8[height, width, 3] or None)
nb::tuple decode_jpeg(nb::handle data, std::optional<BoxTuple> box, nb::handle seek) {
  using headrace::Status;
  const Buffer jpeg(data), table(seek);
  static thread_local headrace::JpegDecoder decoder;  // keeps its scratch memory
  Status status = decoder.open({jpeg.data(), jpeg.size()});
  if (status != Status::ok) return nb::make_tuple(int(status), nb::none());
  headrace::Box where{0, 0, decoder.width(), decoder.height()};
  if (box) where = {std::get<0>(*box), std::get<1>(*box), std::get<2>(*box), std::get<3>(*box)};
  if (!where.lies_in(decoder.width(), decoder.height()))
    return nb::make_tuple(int(Status::bad_box), nb::none());
  const size_t stride = size_t(where.width) * 3;
  std::unique_ptr<uint8_t[]> pixels(new uint8_t[stride * size_t(where.height)]);
  {
    const WithoutGil without_gil;
    static thread_local headrace::Buffer<uint8_t> memory;
    const auto planar =
        headrace::Planar::reserve(memory, where.width, where.height, decoder.channels());
    status = decoder.decode(where, {table.data(), table.size()}, planar);
    if (status == Status::ok) headrace::interleave(planar, pixels.get(), stride);
    memory.trim(64 << 20);  // frees the memory of a giant picture
  }
  if (status != Status::ok) return nb::make_tuple(int(status), nb::none());
  nb::capsule owner(pixels.get(), [](void* p) noexcept { delete[] static_cast<uint8_t*>(p); });
  const size_t shape[] = {size_t(where.height), size_t(where.width), 3};
  nb::ndarray<nb::numpy, uint8_t> array(pixels.release(), 3, shape, owner);
  return nb::make_tuple(int(status), array);
}

nb::tuple build_seek(nb::handle data) {
  const Buffer jpeg(data);
  std::vector<uint8_t> seek;
  headrace::Status status;
  {
    const WithoutGil without_gil;
    status = headrace::build_seek({jpeg.data(), jpeg.size()}, seek);
  }
  return nb::make_tuple(int(status), nb::bytes(seek.data(), seek.size()));
}

nb::tuple recode_jpeg(nb::handle data) {
  const Buffer jpeg(data);
  std::vector<uint8_t> recoded;
  headrace::Status status;
  {
    const WithoutGil without_gil;
    static thread_local headrace::Recoder recoder;  // keeps its scratch memory
    status = recoder.recode(jpeg.bytes(), recoded);
  }
  if (status != headrace::Status::ok) return nb::make_tuple(int(status), nb::none());
  return nb::make_tuple(int(status), nb::bytes(recoded.data(), recoded.size()));
}

// Decodes one PNG after another, and keeps its scratch memory. Python inflates the data between.
class PngDecoder {
 public:
  // (width, height, depth, colour type, spans of the data, span of a profile); None if it is odd
  nb::object open(nb::handle data) {
    const Buffer png(data);
    headrace::Status status;
    {
      const WithoutGil without_gil;
      status = decoder_.open(png.bytes());
    }
    size_ = -1;
    opened_ = status == headrace::Status::ok;
    if (!opened_) return nb::none();
    nb::list spans;
    for (const auto& span : decoder_.data()) spans.append(nb::make_tuple(span.offset, span.size));
    const auto& header = decoder_.header();
    return nb::make_tuple(header.width, header.height, int(header.depth), int(header.color), spans,
                          nb::make_tuple(decoder_.profile().offset, decoder_.profile().size));
  }

  // (bytes of the result, inflated bytes that are missing, whether they end with the image)
  nb::tuple begin(BoxTuple where, const std::string& pixels) {
    const auto [left, top, width, height] = where;
    const headrace::Box box{left, top, width, height};
    const headrace::PngHeader& header = decoder_.header();
    const bool labels = pixels == "labels";
    require(opened_, "begin: open a PNG first");
    require(box.lies_in(header.width, header.height), "box: it must lie in the image");
    require(labels || pixels == "clip" || pixels == "scale", "pixels: clip, scale or labels");
    require(!labels || header.channels() == 1, "labels: the image must have one channel");
    const auto kind = labels              ? headrace::PngPixels::labels
                      : pixels == "scale" ? headrace::PngPixels::scaled_rgb
                                          : headrace::PngPixels::rgb;
    const size_t missing = decoder_.begin(box, kind);
    size_ = int64_t(width) * height * int64_t(decoder_.pixel_size());
    return nb::make_tuple(size_, missing, decoder_.reaches_end());
  }

  // Writes to `out`, and returns the number of inflated bytes that are missing; -1 if it is odd.
  int64_t feed(nb::handle inflated,
               const nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& out) {
    const Buffer bytes(inflated);
    require(size_ >= 0 && int64_t(out.shape(0)) == size_, "out: the bytes that begin() said");
    const WithoutGil without_gil;
    if (decoder_.feed(bytes.bytes(), out.data()) == headrace::Status::ok)
      return int64_t(decoder_.missing());
    size_ = -1;
    return -1;
  }

  void trim(size_t limit) {
    size_ = -1;
    decoder_.trim(limit);
  }

 private:
  headrace::PngDecoder decoder_;
  bool opened_ = false;
  int64_t size_ = -1;  // of the result; negative if nothing can be fed
};

void set_simd(const std::string& name) {
  if (name != "auto" && name != "portable")
    throw nb::value_error("set_simd: the name must be 'auto' or 'portable'");
  headrace::force_portable(name == "portable");
}

void set_sharing(const std::string& name) {
  using headrace::Sharing;
  require(name == "auto" || name == "never" || name == "always",
          "set_sharing: the name must be 'auto', 'never' or 'always'");
  headrace::force_sharing(name == "auto"    ? Sharing::rule
                          : name == "never" ? Sharing::never
                                            : Sharing::always);
}

// Writes the checksum of each stretch of `data` to `out`.
void crc32c_each(nb::handle data, const Array<const int64_t, -1>& offsets,
                 const Array<const int64_t, -1>& sizes, const Array<uint32_t, -1>& out) {
  const Buffer buffer(data);
  const size_t count = out.shape(0), room = buffer.size();
  require(offsets.shape(0) == count && sizes.shape(0) == count, "out: one for each stretch");
  for (size_t i = 0; i < count; ++i) {
    const auto offset = uint64_t(offsets.data()[i]), size = uint64_t(sizes.data()[i]);
    require(offset <= room && size <= room - offset, "a stretch lies outside the data");
  }
  const WithoutGil without_gil;
  for (size_t i = 0; i < count; ++i)
    out.data()[i] = headrace::crc32c(0, buffer.data() + offsets.data()[i], size_t(sizes.data()[i]));
}

using AxisTuple = std::tuple<int32_t, int32_t, int32_t, bool>;

// Axes are (size, full, offset, flip); see headrace::Axis.
headrace::Axis read_axis(const AxisTuple& tuple, headrace::Nearest rule, size_t available,
                         int32_t count) {
  const auto [size, full, offset, flip] = tuple;
  require(size > 0 && full > 0 && offset > -(1 << 30) && offset < 1 << 30 && count < 1 << 30,
          "an axis: (size, full, offset, flip), with sizes of at least 1");
  // The last pixel that is seen must be there: masks need not be decoded below it.
  const headrace::Axis axis{size, full, offset, flip};
  const auto seen = int32_t(std::min<int64_t>(int64_t(offset) + count, full) - 1);
  const auto find = headrace::source_finder(rule);
  require(seen < 0 || size_t(find(seen, axis.scale(), size)) < available,
          "labels: what is seen of them must be there");
  return axis;
}

template <typename T>
void render_labels(const Array<const T, -1, -1>& labels, const AxisTuple& rows,
                   const AxisTuple& columns, int64_t fill, const Array<T, -1, -1>& out,
                   bool exact) {
  const auto height = int32_t(out.shape(0)), width = int32_t(out.shape(1));
  const auto rule =
      headrace::choose_nearest(exact, int64_t(std::get<1>(rows)) + std::get<1>(columns));
  const auto down = read_axis(rows, rule, labels.shape(0), height);
  const auto across = read_axis(columns, rule, labels.shape(1), width);
  const WithoutGil without_gil;
  headrace::render_labels(labels.data(), labels.shape(1), down, across, rule, T(fill), out.data(),
                          height, width);
}

// Renders a map [rows, columns, channels] to `out`, times a factor for each channel.
void render_map(const Array<const float, -1, -1, -1>& map, const AxisTuple& rows,
                const AxisTuple& columns, const Array<const float, -1>& factors, bool nearest,
                float fill, const Array<float, -1, -1, -1>& out) {
  const auto height = int32_t(out.shape(0)), width = int32_t(out.shape(1));
  const auto down = read_axis(rows, headrace::Nearest::floor, map.shape(0), height);
  const auto across = read_axis(columns, headrace::Nearest::floor, map.shape(1), width);
  require(map.shape(0) == size_t(down.size) && map.shape(1) == size_t(across.size),
          "map: the whole box");
  const size_t channels = map.shape(2);
  require(channels > 0 && factors.shape(0) == channels && out.shape(2) == channels,
          "map, factors and out: the same channels");
  const headrace::MapView view{down, across, factors.data(), fill, nearest};
  const WithoutGil without_gil;
  headrace::render_map(map.data(), channels, view, out.data(), height, width);
}

template <typename T>
void define_render_labels(nb::module_& m) {
  m.def("render_labels", &render_labels<T>, nb::arg("labels"), nb::arg("rows"), nb::arg("columns"),
        nb::arg("fill"), nb::arg("out"), nb::arg("exact") = false);
}

// Mixes images float32[B, elements] in rings; see headrace::mix_images. `parts` are (offset, size).
void mix_images(const Array<float, -1, -1>& images, const std::vector<headrace::MixRing>& rings,
                const Array<const int64_t, -1, 2>& parts, float keep, float rest, int threads) {
  static_assert(sizeof(headrace::MixPart) == 2 * sizeof(int64_t));
  const auto count = int32_t(images.shape(0));
  const auto size = int64_t(images.shape(1));
  std::vector<bool> seen(images.shape(0));
  for (const auto& ring : rings) {
    require(!ring.empty(), "rings: one is empty");
    for (const int32_t image : ring) {
      require(image >= 0 && image < count && !seen[size_t(image)], "rings: each image once");
      seen[size_t(image)] = true;
    }
  }
  const auto* rows = reinterpret_cast<const headrace::MixPart*>(parts.data());
  for (size_t i = 0; i < parts.shape(0); ++i)
    require(rows[i].offset >= 0 && rows[i].size >= 0 && rows[i].offset <= size &&
                rows[i].size <= size - rows[i].offset,
            "parts: one lies outside the images");
  const WithoutGil without_gil;
  headrace::mix_images(images.data(), images.shape(1), rings, rows, parts.shape(0), keep, rest,
                       threads);
}

// Fills `memory` from ranges (offset, size, place) of a file; see headrace::read_cached.
bool read_cached(int fd, const Array<const int64_t, -1, 3>& ranges,
                 const Array<uint8_t, -1>& memory) {
  static_assert(sizeof(headrace::CachedRange) == 3 * sizeof(int64_t));
  const auto* rows = reinterpret_cast<const headrace::CachedRange*>(ranges.data());
  const auto room = int64_t(memory.shape(0));
  for (size_t i = 0; i < ranges.shape(0); ++i) {
    const headrace::CachedRange& row = rows[i];
    require(row.offset >= 0 && row.place >= 0 && row.size >= 0 && row.place <= room &&
                row.size <= room - row.place,
            "a range lies outside the memory");
  }
  const WithoutGil without_gil;
  return headrace::read_cached(fd, rows, ranges.shape(0), memory.data());
}

// The bytes of every job: a list with a buffer each, or an Arena, which has a few `buffers` and
// `spans` (number of a buffer, offset, size) in them.
class Inputs {
 public:
  Inputs(const nb::object& source, size_t count) {
    const bool is_list = nb::isinstance<nb::list>(source);
    const nb::object objects = is_list ? source : nb::object(source.attr("buffers"));
    for (nb::handle object : objects) buffers_.emplace_back(object);
    for (const Buffer& buffer : buffers_)
      require(buffer.is_encoded() || (is_list && buffer.is_picture()),
              "images: each must be encoded bytes, or pixels as uint8[height, width, 3]");
    if (!is_list) find_parts(nb::cast<Array<const int64_t, -1, 3>>(source.attr("spans"), false));
    require((is_list ? buffers_.size() : parts_.size()) == count,
            "images and seeks: one for each job");
  }

  Bytes bytes(size_t i) const { return parts_.empty() ? buffers_[i].bytes() : parts_[i]; }
  const Buffer* picture(size_t i) const {
    return parts_.empty() && buffers_[i].is_picture() ? &buffers_[i] : nullptr;
  }

 private:
  void find_parts(const Array<const int64_t, -1, 3>& spans) {
    for (size_t i = 0; i < spans.shape(0); ++i) {
      const int64_t* span = spans.data() + i * 3;
      const auto number = uint64_t(span[0]), offset = uint64_t(span[1]), size = uint64_t(span[2]);
      require(number < buffers_.size() && offset <= buffers_[number].size() &&
                  size <= buffers_[number].size() - offset,
              "images and seeks: the bytes of a job lie outside the buffers");
      parts_.push_back({buffers_[number].data() + offset, size});
    }
  }

  std::deque<Buffer> buffers_;
  std::vector<Bytes> parts_;
};

// A RenderRequest of headrace.render, checked, with all the memory that it points to.
class Request {
 public:
  explicit Request(nb::handle request) {
    const nb::object jobs = request.attr("jobs");
    const nb::object views = request.attr("views"), results = request.attr("results");
    request_.pictures.resize(nb::len(jobs));
    request_.targets.resize(nb::len(views));
    request_.views.resize(request_.pictures.size() * request_.targets.size());
    read_pictures(jobs);
    for (size_t i = 0; i < request_.targets.size(); ++i) {
      read_target(i, views[i].attr("target"), results[i]);
      read_draws(i, views[i].attr("draws"));
    }
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  void render(int threads) const {
    const WithoutGil without_gil;
    headrace::render(request_, threads);
  }

  std::unique_ptr<headrace::Job> begin(std::shared_ptr<headrace::Crew> crew) const {
    return headrace::begin_render(request_, std::move(crew));
  }

 private:
  // Returns an array of Python's, which stays alive; nothing if it is None.
  template <typename Kind>
  std::optional<Kind> keep(const nb::object& array) {
    if (array.is_none()) return std::nullopt;
    kept_.push_back(array);
    return nb::cast<Kind>(array, false);
  }

  // Returns an array that has a row for each picture; null if it is None.
  template <typename T, nb::ssize_t... Row>
  T* read_rows(const nb::object& rows) {
    const auto array = keep<Array<T, -1, Row...>>(rows);
    require(!array || array->shape(0) == request_.pictures.size(), "draws: one row for each job");
    return array ? array->data() : nullptr;
  }

  void read_pictures(nb::handle jobs);
  void read_target(size_t number, nb::handle target, nb::handle result);
  void read_draws(size_t number, nb::handle draws);
  void read_color(size_t number, nb::handle color);
  void read_program(size_t number, nb::handle program);

  headrace::RenderRequest request_;
  std::deque<Inputs> inputs_;
  std::vector<nb::object> kept_;
};

void Request::read_pictures(nb::handle jobs) {
  const size_t count = request_.pictures.size();
  const Inputs& images = inputs_.emplace_back(jobs.attr("images"), count);
  const nb::object tables = jobs.attr("seeks");
  const Inputs* seeks = tables.is_none() ? nullptr : &inputs_.emplace_back(tables, count);
  const auto* checksums = read_rows<const uint32_t>(jobs.attr("checksums"));
  const auto* sizes = read_rows<const int32_t, 2>(jobs.attr("sizes"));
  const auto* orientations = read_rows<const uint8_t>(jobs.attr("orientations"));
  for (size_t i = 0; i < count; ++i) {
    headrace::Picture& picture = request_.pictures[i];
    picture.image = images.bytes(i);
    if (const Buffer* pixels = images.picture(i)) {
      picture.width = pixels->width();
      picture.height = pixels->height();
    }
    if (seeks) picture.seek = seeks->bytes(i);
    if (checksums) picture.checksum = checksums + i;
    if (sizes) picture.size = sizes + i * 2;
    if (orientations) picture.orientation = orientations[i];
    require(picture.orientation >= 1 && picture.orientation <= 8, "orientations: each from 1 to 8");
  }
}

headrace::Element read_element(const std::string& dtype) {
  using headrace::Element;
  if (dtype == "float32") return Element::float32;
  if (dtype == "float16") return Element::float16;
  return dtype == "bfloat16" ? Element::bfloat16 : Element::byte;
}

// `result` is (out, status).
void Request::read_target(size_t number, nb::handle target, nb::handle result) {
  const nb::object output = target.attr("output");
  const auto table = keep<nb::ndarray<nb::ro, nb::shape<3, 256>, nb::c_contig, nb::device::cpu>>(
      output.attr("table")());
  const auto out =
      *keep<nb::ndarray<nb::ndim<4>, nb::c_contig, nb::device::cpu>>(nb::object(result[0]));
  const bool planar = nb::cast<bool>(output.attr("planar"));
  require(out.shape(0) == request_.pictures.size(), "out: one slot for each job");
  require(out.shape(planar ? 1 : 3) == 3, "out: there must be three channels");
  require(table || !planar, "planar output needs a table");
  require(out.itemsize() == (table ? table->itemsize() : 1), "out: elements as in the table");
  static_assert(sizeof(headrace::Status) == sizeof(int32_t));
  headrace::Target& to = request_.targets[number];
  to.height = int32_t(out.shape(planar ? 2 : 1));
  to.width = int32_t(out.shape(planar ? 3 : 2));
  to.element_size = out.itemsize();
  to.element = read_element(nb::cast<std::string>(output.attr("dtype")));
  require(to.element_size == headrace::size_of(to.element), "out: elements of the dtype");
  to.table = table ? table->data() : nullptr;
  to.planar = planar;
  const auto fill = nb::cast<std::tuple<int, int, int>>(target.attr("fill"));
  const int levels[] = {std::get<0>(fill), std::get<1>(fill), std::get<2>(fill)};
  for (int c = 0; c < 3; ++c) {
    require(levels[c] >= 0 && levels[c] <= 255, "fill: levels from 0 to 255");
    to.fill[c] = uint8_t(levels[c]);
  }
  to.out = static_cast<uint8_t*>(out.data());
  to.status = reinterpret_cast<headrace::Status*>(read_rows<int32_t>(nb::object(result[1])));
  require(to.height > 0 && to.width > 0, "out: the slots must not be empty");
  const bool bicubic = nb::cast<std::string>(target.attr("resample")) == "bicubic";
  to.filter = bicubic ? headrace::Filter::bicubic : headrace::Filter::bilinear;
}

void Request::read_draws(size_t number, nb::handle draws) {
  const auto* boxes = read_rows<const int32_t, 4>(draws.attr("boxes"));
  const nb::object viewport = draws.attr("viewport");
  const auto* viewports =
      viewport.is_none() ? nullptr : read_rows<const int32_t, 4>(viewport.attr("rows"));
  const auto* flips = read_rows<const bool>(draws.attr("flips"));
  const auto* vertical = read_rows<const bool>(draws.attr("vertical_flips"));
  require(boxes || request_.pictures.empty(), "boxes: one for each job");
  for (size_t i = 0; i < request_.pictures.size(); ++i) {
    headrace::View& view = request_.view(i, number);
    const int32_t* box = boxes + i * 4;
    view.box = {box[0], box[1], box[2], box[3]};
    if (const int32_t* part = viewports ? viewports + i * 4 : nullptr) {
      require(part[0] > 0 && part[1] > 0, "viewport: the resized picture must not be empty");
      view.viewport = {part[0], part[1], part[2], part[3]};
    }
    view.flip = flips && flips[i];
    view.flip_rows = vertical && vertical[i];
  }
  if (const nb::object color = draws.attr("color"); !color.is_none()) read_color(number, color);
  if (const nb::object program = draws.attr("program"); !program.is_none())
    read_program(number, program);
}

void Request::read_program(size_t number, nb::handle program) {
  const size_t count = request_.pictures.size();
  const auto starts = *keep<Array<const int32_t, -1>>(program.attr("starts"));
  const auto codes = *keep<Array<const uint8_t, -1>>(program.attr("codes"));
  const auto params = *keep<Array<const double, -1, headrace::kParameters>>(program.attr("params"));
  const auto steps = int64_t(codes.shape(0));
  require(starts.shape(0) == count + 1, "program: starts for each job, and the end");
  require(params.shape(0) == codes.shape(0), "program: parameters for each step");
  for (size_t i = 0; i < count; ++i) {
    const int32_t begin = starts.data()[i], end = starts.data()[i + 1];
    require(0 <= begin && begin <= end && end <= steps, "program: starts must grow");
    request_.view(i, number).program = {
        codes.data() + begin, params.data() + size_t(begin) * headrace::kParameters, end - begin};
  }
}

void Request::read_color(size_t number, nb::handle color) {
  const auto* jitter = read_rows<const float, 3>(color.attr("jitter"));
  const auto* order = read_rows<const uint8_t, 3>(color.attr("order"));
  const auto* lighting = read_rows<const float, 3>(color.attr("lighting"));
  require(!jitter || order, "jitter needs an order");
  for (size_t i = 0; i < request_.pictures.size(); ++i) {
    headrace::View& view = request_.view(i, number);
    if (jitter) {
      view.jitter = jitter + i * 3;
      view.order = order + i * 3;
      for (int k = 0; k < 3; ++k) require(view.order[k] < 3, "order: 0, 1 or 2");
    }
    if (lighting) view.lighting = lighting + i * 3;
  }
}

// A request that a crew works on; the request must outlive it. Dropping it cancels the jobs that
// have not begun.
class Rendering {
 public:
  Rendering(const Request& request, std::shared_ptr<headrace::Crew> crew)
      : threads_(double(crew->limit())), job_(request.begin(std::move(crew))) {}
  ~Rendering() {
    const WithoutGil without_gil;
    job_.reset();
  }

  // Waits, and returns the seconds it took the crew: the time of all threads over their number.
  double wait() {
    {
      const WithoutGil without_gil;
      job_->wait();
    }
    return std::chrono::duration<double>(job_->busy()).count() / threads_;
  }

 private:
  const double threads_;
  std::unique_ptr<headrace::Job> job_;
};

std::shared_ptr<headrace::Crew> make_crew(int threads) {
  require(threads > 0, "a crew must have at least one thread");
  return std::make_shared<headrace::Crew>(threads);
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The native core of Headrace.";
  // intentional: threads that the interpreter abandons at exit keep what they render.
  nb::set_leak_warnings(false);
  m.def("crc32c", &crc32c, nb::arg("data"), nb::arg("crc") = 0);
  m.def("crc32c_each", &crc32c_each, nb::arg("data"), nb::arg("offsets"), nb::arg("sizes"),
        nb::arg("out"));
  for (const auto define : {&define_render_labels<uint8_t>, &define_render_labels<uint16_t>,
                            &define_render_labels<int32_t>, &define_render_labels<int64_t>})
    define(m);
  m.def("render_map", &render_map, nb::arg("map"), nb::arg("rows"), nb::arg("columns"),
        nb::arg("factors"), nb::arg("nearest"), nb::arg("fill"), nb::arg("out"));
  m.def("mix_images", &mix_images, nb::arg("images"), nb::arg("rings"), nb::arg("parts"),
        nb::arg("keep"), nb::arg("rest"), nb::arg("threads"));
  m.def("read_cached", &read_cached, nb::arg("fd"), nb::arg("ranges"), nb::arg("memory"));
  m.def("decode_jpeg", &decode_jpeg, nb::arg("data"), nb::arg("box") = nb::none(),
        nb::arg("seek") = nb::bytes("", 0));
  m.def("build_seek", &build_seek, nb::arg("data"));
  m.def("recode_jpeg", &recode_jpeg, nb::arg("data"));
  nb::class_<PngDecoder>(m, "PngDecoder")
      .def(nb::init<>())
      .def("open", &PngDecoder::open, nb::arg("data"))
      .def("begin", &PngDecoder::begin, nb::arg("box"), nb::arg("pixels"))
      .def("feed", &PngDecoder::feed, nb::arg("inflated"), nb::arg("out"))
      .def("trim", &PngDecoder::trim, nb::arg("limit"));
  nb::class_<headrace::Crew>(m, "Crew", "Threads that render requests in the background.")
      .def(nb::new_(&make_crew), nb::arg("threads"));
  nb::class_<Rendering>(m, "Rendering").def("wait", &Rendering::wait);
  nb::class_<Request>(m, "Request")
      .def(nb::init<nb::handle>(), nb::arg("request"))
      .def("render", &Request::render, nb::arg("threads"))
      .def(
          "begin",
          [](const Request& request, std::shared_ptr<headrace::Crew> crew) {
            return new Rendering(request, std::move(crew));
          },
          nb::arg("crew"), nb::keep_alive<0, 1>());
  m.def("set_simd", &set_simd, nb::arg("name"));
  m.def("set_sharing", &set_sharing, nb::arg("name"));
}
