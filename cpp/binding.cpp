// The only file that knows Python: checks what comes in, releases the GIL, makes one call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "crc32c.h"
#include "jpeg.h"
#include "simd.h"

namespace nb = nanobind;

namespace {

// A read-only view of any object with the buffer protocol, contiguous, released on scope exit.
class Buffer {
 public:
  explicit Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return size_t(view_.len); }

 private:
  Py_buffer view_;
};

using Checksum = uint32_t (*)(uint32_t, const uint8_t*, size_t);

template <Checksum function>
uint32_t checksum(nb::handle data, uint32_t crc) {
  const Buffer buffer(data);
  nb::gil_scoped_release release;
  return function(crc, buffer.data(), buffer.size());
}

using BoxTuple = std::tuple<int32_t, int32_t, int32_t, int32_t>;

// (status, uint8[height, width, 3] or None)
nb::tuple decode_jpeg(nb::handle data, std::optional<BoxTuple> box, nb::handle seek) {
  using penstock::Status;
  const Buffer jpeg(data), table(seek);
  penstock::JpegDecoder decoder;
  Status status = decoder.open({jpeg.data(), jpeg.size()});
  if (status != Status::ok) return nb::make_tuple(int(status), nb::none());
  penstock::Box where{0, 0, decoder.width(), decoder.height()};
  if (box) where = {std::get<0>(*box), std::get<1>(*box), std::get<2>(*box), std::get<3>(*box)};
  if (where.width <= 0 || where.height <= 0 || where.width > decoder.width() ||
      where.height > decoder.height())
    return nb::make_tuple(int(Status::bad_box), nb::none());
  const size_t stride = size_t(where.width) * 3;
  std::unique_ptr<uint8_t[]> pixels(new uint8_t[stride * size_t(where.height)]);
  {
    nb::gil_scoped_release release;
    status = decoder.decode(where, {table.data(), table.size()}, pixels.get(), stride);
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
  penstock::Status status;
  {
    nb::gil_scoped_release release;
    status = penstock::build_seek({jpeg.data(), jpeg.size()}, seek);
  }
  return nb::make_tuple(int(status), nb::bytes(seek.data(), seek.size()));
}

// Decodes all pictures with one decoder, as a thread of the pool does, and says where the time
// went: (nanoseconds of entropy decoding, nanoseconds from there to pixels).
nb::tuple profile_jpeg(const nb::list& images, const nb::list& boxes, const nb::list& seeks) {
  penstock::JpegDecoder decoder;
  penstock::JpegStages stages;
  decoder.measure(&stages);
  std::vector<uint8_t> pixels;
  for (size_t i = 0; i < images.size(); ++i) {
    const Buffer jpeg(images[i]), table(seeks[i]);
    const auto [left, top, width, height] = nb::cast<BoxTuple>(boxes[i]);
    if (decoder.open({jpeg.data(), jpeg.size()}) != penstock::Status::ok) continue;
    pixels.resize(std::max(pixels.size(), size_t(width) * size_t(height) * 3));
    decoder.decode({left, top, width, height}, {table.data(), table.size()}, pixels.data(),
                   size_t(width) * 3);
  }
  return nb::make_tuple(stages.entropy_ns, stages.pixels_ns);
}

void set_simd(const std::string& name) {
  if (name != "auto" && name != "portable")
    throw nb::value_error("set_simd: the name must be 'auto' or 'portable'");
  penstock::force_portable(name == "portable");
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The native core of Penstock.";
  m.def("crc32c", &checksum<penstock::crc32c>, nb::arg("data"), nb::arg("crc") = 0);
  m.def("crc32c_portable", &checksum<penstock::crc32c_portable>, nb::arg("data"),
        nb::arg("crc") = 0);
  m.def("decode_jpeg", &decode_jpeg, nb::arg("data"), nb::arg("box") = nb::none(),
        nb::arg("seek") = nb::bytes("", 0));
  m.def("profile_jpeg", &profile_jpeg, nb::arg("images"), nb::arg("boxes"), nb::arg("seeks"));
  m.def("build_seek", &build_seek, nb::arg("data"));
  m.def("set_simd", &set_simd, nb::arg("name"));
}
