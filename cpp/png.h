// Decodes PNG files but for the inflating, which is the caller's: open() finds the compressed data,
// begin() says what is wanted of it, and feed() takes it inflated, a piece at a time.
//
// A file that is odd in any way is unsupported: Pillow decides on it. What is left decodes to
// Pillow's pixels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "pixels.h"
#include "status.h"

namespace headrace {

// Where bytes lie in the file.
struct PngSpan {
  size_t offset, size;
};

struct PngHeader {
  int32_t width, height;
  uint8_t depth, color;  // bits of a sample; the colour type of the standard
  bool interlaced;

  int channels() const { return color == 2 ? 3 : color == 4 ? 2 : color == 6 ? 4 : 1; }
  bool is_palette() const { return color == 3; }
  bool is_deep_grey() const { return color == 0 && depth == 16; }
};

// What becomes of the pixels.
enum class PngPixels {
  rgb,         // three bytes; levels of grey with 16 bits above 255 become 255, as in Pillow
  scaled_rgb,  // the same, but levels of grey with 16 bits are mapped to 0 to 255
  labels,      // one byte, or two if they are deep: levels of grey or indices of a palette
};

class PngDecoder {
 public:
  // Walks the chunks and checks them. Keeps no pointer to the file.
  Status open(Bytes png);
  const PngHeader& header() const { return header_; }
  const std::vector<PngSpan>& data() const { return data_; }  // to be inflated as one stream
  // A colour profile, whose size Pillow limits once it is inflated; empty if it cannot be too
  // large.
  PngSpan profile() const { return profile_; }

  // Starts to decode `box`, which lies in the image. Labels exist of one channel only. Returns the
  // number of bytes that feed() needs.
  size_t begin(Box box, PngPixels pixels);
  // Writes the rows that `inflated` completes to `out`, which has the size of the box and no gaps.
  // Bytes beyond those needed are ignored.
  Status feed(Bytes inflated, uint8_t* out);
  size_t missing() const { return missing_; }
  size_t pixel_size() const;  // bytes of a pixel in `out`
  // Returns whether the last byte that is needed is the last of the image.
  bool reaches_end() const { return reaches_end_; }
  void trim(size_t limit);  // frees buffers of more than `limit` bytes

 private:
  // A rectangular grid of pixels that is stored by itself: the whole image, or one pass of Adam7.
  struct Pass {
    int32_t left, top, right_step, down_step;  // where its pixels lie in the image
    int32_t width, height;                     // in pixels of its own
    int32_t wanted;                            // rows that are decoded
  };

  class Walk;
  void plan_passes();
  void start_pass();
  Status take_row(const uint8_t* line, uint8_t* out);
  bool write_row(int32_t first, int32_t count, uint8_t* out);
  bool write_palette(const uint8_t* samples, int32_t count, uint8_t* out) const;
  const uint8_t* make_bytes(int32_t first, int32_t count);
  size_t row_bytes(int32_t width) const;

  PngHeader header_{};
  std::vector<PngSpan> data_;
  PngSpan profile_{};
  std::array<uint32_t, 256> palette_{};  // red, green and blue in memory order
  int32_t palette_size_ = 0;

  Box box_{};
  PngPixels pixels_ = PngPixels::rgb;
  std::vector<Pass> passes_;
  bool reaches_end_ = false;
  size_t pass_ = 0;
  int32_t row_ = 0;
  size_t missing_ = 0;
  size_t carried_ = 0;  // bytes of an incomplete row in carry_memory_
  uint8_t *above_ = nullptr, *current_ = nullptr;
  Buffer<uint8_t> carry_memory_, row_memory_, bytes_memory_, pass_memory_;
};

}  // namespace headrace
