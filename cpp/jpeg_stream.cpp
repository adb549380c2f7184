#include "jpeg_stream.h"

#include <cstring>

#include "jpeg_entropy.h"
#include "kernels.h"

namespace headrace {

constexpr size_t kKeptStream = 16 << 20;  // bytes kept from image to image

void ScanStream::trim() { memory_.trim(kKeptStream); }

void ScanStream::read(Bytes jpeg, size_t start, int64_t intervals) {
  uint8_t* stream = memory_.reserve(jpeg.size - start + kSpanPadding);
  size_t written = 0;
  segments_.clear();
  end_ = start;
  for (;;) {
    const Unstuffed part =
        kernels().unstuff({jpeg.data + end_, jpeg.size - end_}, stream + written);
    segments_.push_back({written, written + part.written});
    written += part.written;
    end_ += part.read;
    size_t marker = end_;
    while (marker < jpeg.size && jpeg.data[marker] == 0xFF) ++marker;
    marker_found_ = marker < jpeg.size;
    const int expected = 0xD0 + int((segments_.size() - 1) & 7);
    if (!marker_found_ || int64_t(segments_.size()) == intervals || jpeg.data[marker] != expected)
      break;
    end_ = marker + 1;
  }
  std::memset(stream + written, 0, kSpanPadding);
}

}  // namespace headrace
