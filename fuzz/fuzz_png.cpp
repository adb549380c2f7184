// Decodes arbitrary chunks and rows: nothing may be read or written out of bounds, and the pixels
// depend neither on the pieces that rows come in nor on the kernels. Input: 4 bytes for the box,
// one for the kind of pixels, one for the size of a piece, 2 for the length of the PNG, the PNG
// (whose checksums are put right, so that the chunks are reached), the inflated data.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../cpp/kernels.h"
#include "../cpp/png.h"

using headrace::Box;
using headrace::Bytes;
using headrace::PngPixels;
using headrace::Status;

namespace {

constexpr int64_t kMaxPixels = 1 << 18;  // more only takes longer

// Corrects the checksum of every chunk that ends in the file.
void sign(std::vector<uint8_t>& png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    const uint8_t* chunk = png.data() + at;
    const size_t size =
        size_t(chunk[0]) << 24 | size_t(chunk[1]) << 16 | size_t(chunk[2]) << 8 | chunk[3];
    if (size > png.size() - at - 12) return;
    const uint32_t crc = ~headrace::kernels().update_crc32(~uint32_t(0), chunk + 4, size + 4);
    for (size_t i = 0; i < 4; ++i) png[at + 8 + size + i] = uint8_t(crc >> (24 - 8 * i));
    at += 12 + size;
  }
}

struct Decoded {
  Status status;
  std::vector<uint8_t> pixels;
  bool operator==(const Decoded& other) const {
    return status == other.status && (status != Status::ok || pixels == other.pixels);
  }
};

Decoded decode(headrace::PngDecoder& decoder, Box box, PngPixels pixels, Bytes inflated,
               size_t piece) {
  decoder.begin(box, pixels);
  Decoded result{Status::ok, {}};
  // Exact: ASan guards its end.
  result.pixels.resize(size_t(box.width) * size_t(box.height) * decoder.pixel_size());
  for (size_t at = 0; at < inflated.size && result.status == Status::ok; at += piece) {
    const uint8_t* from = inflated.data + at;
    const std::vector<uint8_t> copy(from, from + std::min(piece, inflated.size - at));
    result.status = decoder.feed({copy.data(), copy.size()}, result.pixels.data());
  }
  return result;
}

int32_t scale(uint8_t fraction, int32_t size) { return int32_t(int64_t(fraction) * size / 256); }

void check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 8) return 0;
  const size_t png_size = std::min(size_t(data[6] | data[7] << 8), size - 8);
  std::vector<uint8_t> png(data + 8, data + 8 + png_size);
  const Bytes inflated{data + 8 + png_size, size - 8 - png_size};

  static headrace::PngDecoder decoder;  // used again and again, as a thread does
  decoder.open({png.data(), png.size()});
  sign(png);
  if (decoder.open({png.data(), png.size()}) != Status::ok) return 0;
  for (const headrace::PngSpan& span : decoder.data())
    check(span.offset <= png.size() && span.size <= png.size() - span.offset);
  check(decoder.profile().offset + decoder.profile().size <= png.size());
  const headrace::PngHeader& header = decoder.header();
  if (int64_t(header.width) * header.height > kMaxPixels) return 0;

  const int32_t left = scale(data[0], header.width), top = scale(data[1], header.height);
  const Box box{left, top, 1 + scale(data[2], header.width - left),
                1 + scale(data[3], header.height - top)};
  PngPixels pixels = PngPixels(data[4] % 3);
  if (header.channels() != 1 && pixels == PngPixels::labels) pixels = PngPixels::rgb;
  const Decoded plain = decode(decoder, box, pixels, inflated, std::max<size_t>(1, inflated.size));
  check(decode(decoder, box, pixels, inflated, 1 + data[5]) == plain);
  headrace::force_portable(true);
  check(decode(decoder, box, pixels, inflated, 3 + 8 * size_t(data[5])) == plain);
  headrace::force_portable(false);
  return 0;
}
