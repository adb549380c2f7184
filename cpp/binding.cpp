// The only file that knows Python: checks what comes in, releases the GIL, makes one call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "crc32c.h"
#include "resize.h"
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

using Picture = nb::ndarray<uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;

void resize(Picture pixels, Picture out, bool bicubic, bool flip) {
  thread_local penstock::Resizer resizer;
  nb::gil_scoped_release release;
  resizer.resize(
      {pixels.data(), int32_t(pixels.shape(1)), int32_t(pixels.shape(0)), pixels.shape(1) * 3},
      bicubic ? penstock::Filter::bicubic : penstock::Filter::bilinear, flip,
      {out.data(), int32_t(out.shape(1)), int32_t(out.shape(0)), out.shape(1) * 3});
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The native core of Penstock.";
  m.def("crc32c", &checksum<penstock::crc32c>, nb::arg("data"), nb::arg("crc") = 0);
  m.def("crc32c_portable", &checksum<penstock::crc32c_portable>, nb::arg("data"),
        nb::arg("crc") = 0);
  m.def("resize", &resize);
  m.def("set_simd", [](bool on) { penstock::simd_allowed = on; });
}
