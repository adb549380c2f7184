// Baseline and progressive JPEG: encoded bytes in, the pixels of a box out, bit-identical to
// libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "jpeg_headers.h"
#include "jpeg_planes.h"
#include "jpeg_progressive.h"
#include "jpeg_scan.h"
#include "jpeg_seek.h"
#include "pixels.h"
#include "status.h"

namespace headrace {

// Decodes one image after another. Keeps its scratch memory, so that a warm decoder allocates
// nothing; use one instance per thread.
class JpegDecoder {
 public:
  JpegDecoder() = default;
  JpegDecoder(const JpegDecoder&) = delete;  // its members point to each other
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Parses the headers. `jpeg` must stay valid until the last decode of it.
  Status open(Bytes jpeg);
  int32_t width() const { return headers_.width; }
  int32_t height() const { return headers_.height; }
  int32_t channels() const { return headers_.component_count; }  // 3, or 1 for greyscale
  bool one_scan() const { return one_scan_; }  // else any box takes all of the data

  // Writes the pixels of `box` to `out`, which has the size of the box and channels() channels.
  // `seek` may be empty; a table that does not belong to the image is ignored.
  Status decode(Box box, Bytes seek, const Planar& out);

 private:
  Status decode_one_scan(Box box, Region region, Bytes seek_bytes, const Planar& out);
  Status decode_strips(Box box, Region region, bool seeking, const Planar& out);
  Status decode_scans(Box box, Region region, const Planar& out);
  Status decode_scan_rows(Region region);
  Status decode_progressive(Box box, Region region, const Planar& out);
  void transform_progressive_row(int32_t row, Region region);
  void reserve(Columns columns, int32_t rows);
  void transform_row(int32_t row, Columns columns, size_t block);

  Bytes jpeg_;
  HeaderParser parser_;
  Headers headers_;
  Status opened_ = Status::unsupported;
  bool one_scan_ = false;  // noted, since decoding goes on in the headers
  ScanDecoder scan_;
  ProgressiveDecoder progressive_;
  SeekTable seek_;
  Planes planes_;
  Buffer<int16_t> coefficients_;
};

// Builds the seek table of `jpeg` in one pass over its entropy-coded data. Replaces `seek`.
Status build_seek(Bytes jpeg, std::vector<uint8_t>& seek);

}  // namespace headrace
