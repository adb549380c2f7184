// The only file that knows Python: checks what comes in, releases the GIL, makes one call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
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
#include "render.h"
#include "simd.h"

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
    memory.trim(64 << 20);  // a giant's memory is given back
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

// Decodes all pictures with one decoder, as a thread of the pool does, and says where the time
// went: (nanoseconds of entropy decoding, nanoseconds from there to pixels).
nb::tuple profile_jpeg(const nb::list& images, const nb::list& boxes, const nb::list& seeks) {
  headrace::JpegDecoder decoder;
  headrace::JpegStages stages;
  decoder.measure(&stages);
  headrace::Buffer<uint8_t> memory;
  for (size_t i = 0; i < images.size(); ++i) {
    const Buffer jpeg(images[i]), table(seeks[i]);
    const auto [left, top, width, height] = nb::cast<BoxTuple>(boxes[i]);
    if (decoder.open({jpeg.data(), jpeg.size()}) != headrace::Status::ok) continue;
    const auto planar = headrace::Planar::reserve(memory, width, height, decoder.channels());
    decoder.decode({left, top, width, height}, {table.data(), table.size()}, planar);
  }
  return nb::make_tuple(stages.entropy_ns, stages.pixels_ns);
}

void set_simd(const std::string& name) {
  if (name != "auto" && name != "portable")
    throw nb::value_error("set_simd: the name must be 'auto' or 'portable'");
  headrace::force_portable(name == "portable");
}

template <typename T, typename Shape>
using Array = nb::ndarray<const T, Shape, nb::c_contig, nb::device::cpu>;
template <typename T, typename Shape>
using OptionalArray = std::optional<Array<T, Shape>>;
using Spans = OptionalArray<int64_t, nb::shape<-1, 3>>;
using Boxes = Array<int32_t, nb::shape<-1, 4>>;
using Windows = OptionalArray<int32_t, nb::shape<-1, 4>>;
using Checksums = OptionalArray<uint32_t, nb::shape<-1>>;
using Flips = OptionalArray<bool, nb::shape<-1>>;
template <typename T>
using Triples = OptionalArray<T, nb::shape<-1, 3>>;
using Table = std::optional<nb::ndarray<nb::ro, nb::shape<3, 256>, nb::c_contig, nb::device::cpu>>;
using Batch = nb::ndarray<nb::ndim<4>, nb::c_contig, nb::device::cpu>;
template <typename T>
using List = nb::ndarray<T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
using Codes = List<int32_t>;

void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

// The checksum of each stretch of `data`, into `out`.
void crc32c_each(nb::handle data, const List<const int64_t>& offsets,
                 const List<const int64_t>& sizes, const List<uint32_t>& out) {
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

template <typename T, typename Shape>
const T* data_of(const OptionalArray<T, Shape>& array, size_t count, const char* message) {
  require(!array || array->shape(0) == count, message);
  return array ? array->data() : nullptr;
}

// The bytes of every sample: each in a buffer of its own, or at (number of a buffer, offset, size).
class Inputs {
 public:
  Inputs(const nb::list& objects, const Spans& spans, size_t count) {
    for (nb::handle object : objects) buffers_.emplace_back(object);
    require((spans ? spans->shape(0) : buffers_.size()) == count,
            "images and seeks: there must be one for each box");
    for (const Buffer& buffer : buffers_)
      require(buffer.is_encoded() || (!spans && buffer.is_picture()),
              "images: each must be encoded bytes, or pixels as uint8[height, width, 3]");
    if (!spans) return;
    for (const int64_t* span = spans->data(); parts_.size() < count; span += 3) {
      const auto number = uint64_t(span[0]), offset = uint64_t(span[1]), size = uint64_t(span[2]);
      require(number < buffers_.size() && offset <= buffers_[number].size() &&
                  size <= buffers_[number].size() - offset,
              "images and seeks: a sample lies in no buffer, or reaches outside of it");
      parts_.push_back({buffers_[number].data() + offset, size});
    }
  }

  Bytes bytes(size_t i) const { return parts_.empty() ? buffers_[i].bytes() : parts_[i]; }
  const Buffer* picture(size_t i) const {
    return parts_.empty() && buffers_[i].is_picture() ? &buffers_[i] : nullptr;
  }

 private:
  std::deque<Buffer> buffers_;
  std::vector<Bytes> parts_;
};

headrace::Format make_format(const Batch& out, const Table& table, bool planar, bool bicubic) {
  require(out.shape(planar ? 1 : 3) == 3, "out: there must be three channels");
  require(table || !planar, "planar output needs a table");
  require(out.itemsize() == (table ? table->itemsize() : 1), "out: elements as in the table");
  headrace::Format format;
  format.height = int32_t(out.shape(planar ? 2 : 1));
  format.width = int32_t(out.shape(planar ? 3 : 2));
  format.filter = bicubic ? headrace::Filter::bicubic : headrace::Filter::bilinear;
  format.element_size = out.itemsize();
  format.table = table ? table->data() : nullptr;
  format.planar = planar;
  require(format.height > 0 && format.width > 0, "out: the pictures must not be empty");
  return format;
}

// The samples of a batch, checked, with all that they point to.
class Request {
 public:
  Request(const nb::list& images, const Spans& image_spans, Checksums checksums,
          const std::optional<nb::list>& seeks, const Spans& seek_spans, Boxes boxes,
          Windows windows, Flips flips, Triples<float> jitter, Triples<uint8_t> order,
          Triples<float> lighting, Table table, bool planar, bool bicubic, Batch out, Codes status)
      : images_(images, image_spans, boxes.shape(0)),
        checksums_(std::move(checksums)),
        seeks_(seeks ? *seeks : nb::list(), seek_spans, seeks ? boxes.shape(0) : 0),
        boxes_(std::move(boxes)),
        windows_(std::move(windows)),
        flips_(std::move(flips)),
        jitter_(std::move(jitter)),
        order_(std::move(order)),
        lighting_(std::move(lighting)),
        table_(std::move(table)),
        out_(std::move(out)),
        status_(std::move(status)),
        format_(make_format(out_, table_, planar, bicubic)) {
    gather(seeks.has_value());
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  void render(int threads) const {
    const WithoutGil without_gil;
    headrace::render_batch(samples_.data(), samples_.size(), format_, threads, pixels(), codes());
  }

  std::unique_ptr<headrace::Job> begin(std::shared_ptr<headrace::Crew> crew) const {
    return headrace::begin_batch(samples_.data(), samples_.size(), format_, std::move(crew),
                                 pixels(), codes());
  }

 private:
  uint8_t* pixels() const { return static_cast<uint8_t*>(out_.data()); }
  headrace::Status* codes() const {
    static_assert(sizeof(headrace::Status) == sizeof(int32_t));
    return reinterpret_cast<headrace::Status*>(status_.data());
  }
  void gather(bool has_seeks);

  Inputs images_;
  Checksums checksums_;
  Inputs seeks_;
  Boxes boxes_;
  Windows windows_;
  Flips flips_;
  Triples<float> jitter_;
  Triples<uint8_t> order_;
  Triples<float> lighting_;
  Table table_;
  Batch out_;
  Codes status_;
  headrace::Format format_;
  std::vector<headrace::Sample> samples_;
};

void Request::gather(bool has_seeks) {
  const size_t count = boxes_.shape(0);
  require(out_.shape(0) == count && status_.shape(0) == count, "out: one slot for each box");
  const int32_t* window = data_of(windows_, count, "windows: a row for each box");
  for (size_t i = 0; window && i < count; ++i)
    require(window[i * 4] > 0 && window[i * 4 + 1] > 0, "windows: of a picture that has pixels");
  const uint32_t* checksum = data_of(checksums_, count, "checksums: one for each box");
  const bool* flip = data_of(flips_, count, "flips: one for each box");
  const float* factors = data_of(jitter_, count, "jitter: a row for each box");
  const uint8_t* orders = data_of(order_, count, "order: a row for each box");
  const float* offsets = data_of(lighting_, count, "lighting: a row for each box");
  require(!factors == !orders, "jitter and order go together");
  for (size_t i = 0; orders && i < count * 3; ++i) require(orders[i] < 3, "order: 0, 1 or 2");

  samples_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    headrace::Sample& sample = samples_[i];
    sample.image = images_.bytes(i);
    if (const Buffer* picture = images_.picture(i)) {
      sample.width = picture->width();
      sample.height = picture->height();
    }
    sample.checksum = checksum ? checksum + i : nullptr;
    if (has_seeks) sample.seek = seeks_.bytes(i);
    const int32_t* box = boxes_.data() + i * 4;
    sample.box = {box[0], box[1], box[2], box[3]};
    if (const int32_t* w = window ? window + i * 4 : nullptr)
      sample.window = {w[0], w[1], w[2], w[3]};
    sample.flip = flip && flip[i];
    sample.jitter = factors ? factors + i * 3 : nullptr;
    sample.order = orders ? orders + i * 3 : nullptr;
    sample.lighting = offsets ? offsets + i * 3 : nullptr;
  }
}

// A request that a crew works on, and that outlives it. What has not begun when it is dropped never
// will.
class Rendering {
 public:
  Rendering(const Request& request, std::shared_ptr<headrace::Crew> crew)
      : threads_(double(crew->limit())), job_(request.begin(std::move(crew))) {}
  ~Rendering() {
    const WithoutGil without_gil;
    job_.reset();
  }

  // Returns how long it took the crew: the time of all threads, divided by how many they are.
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
  m.def("decode_jpeg", &decode_jpeg, nb::arg("data"), nb::arg("box") = nb::none(),
        nb::arg("seek") = nb::bytes("", 0));
  m.def("profile_jpeg", &profile_jpeg, nb::arg("images"), nb::arg("boxes"), nb::arg("seeks"));
  m.def("build_seek", &build_seek, nb::arg("data"));
  nb::class_<headrace::Crew>(m, "Crew").def(nb::new_(&make_crew), nb::arg("threads"));
  nb::class_<Rendering>(m, "Rendering").def("wait", &Rendering::wait);
  nb::class_<Request>(m, "Request")
      .def(nb::init<const nb::list&, const Spans&, Checksums, const std::optional<nb::list>&,
                    const Spans&, Boxes, Windows, Flips, Triples<float>, Triples<uint8_t>,
                    Triples<float>, Table, bool, bool, Batch, Codes>(),
           nb::arg("images"), nb::arg("image_spans").none(), nb::arg("checksums").none(),
           nb::arg("seeks").none(), nb::arg("seek_spans").none(), nb::arg("boxes"),
           nb::arg("windows").none(), nb::arg("flips").none(), nb::arg("jitter").none(),
           nb::arg("order").none(), nb::arg("lighting").none(), nb::arg("table").none(),
           nb::arg("planar"), nb::arg("bicubic"), nb::arg("out"), nb::arg("status"))
      .def("render", &Request::render, nb::arg("threads"))
      .def(
          "begin",
          [](const Request& request, std::shared_ptr<headrace::Crew> crew) {
            return new Rendering(request, std::move(crew));
          },
          nb::arg("crew"), nb::keep_alive<0, 1>());
  m.def("set_simd", &set_simd, nb::arg("name"));
}
