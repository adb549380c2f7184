// One call, one batch: bytes and boxes in, finished pixels in place out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "jpeg.h"
#include "pool.h"
#include "resize_taps.h"
#include "status.h"

namespace headrace {

// Which part of a resized picture is wanted: the box is resized to `width` x `height`, of which the
// part from (`left`, `top`) on is taken, black where that reaches outside. All of it if zero.
struct Window {
  int32_t width = 0, height = 0, left = 0, top = 0;
};

// One picture of a batch. The pointers to three values each are null where nothing is to be done.
struct Sample {
  Bytes image;                         // a JPEG; or RGB pixels without gaps, if they have a size:
  int32_t width = 0, height = 0;       // zero for a JPEG
  const uint32_t* checksum = nullptr;  // the CRC-32C that a JPEG must have, if it is to be checked
  Bytes seek;                          // may be empty
  Box box{};
  Window window{};
  bool flip = false;
  const float* jitter = nullptr;    // factors of brightness, contrast and saturation
  const uint8_t* order = nullptr;   // in which order; given with `jitter`
  const float* lighting = nullptr;  // added to red, green and blue
};

// What every picture of a batch becomes: `width` x `height` pixels of three elements, one picture
// after the other in `out`.
struct Format {
  int32_t width = 0, height = 0;
  Filter filter = Filter::bilinear;
  size_t element_size = 1;
  const void* table =
      nullptr;          // 3 x 256 elements, one for each byte; null leaves bytes as they are
  bool planar = false;  // needs a table
};

// Renders `count` samples with at most `threads` threads. The result does not depend on them. A
// sample that cannot be rendered becomes zeros, and its status says why. Throws std::bad_alloc.
void render_batch(const Sample* samples, size_t count, const Format& format, int threads,
                  uint8_t* out, Status* status);

// The same in the background. All that it is given must stay as it is until the job is done.
std::unique_ptr<Job> begin_batch(const Sample* samples, size_t count, const Format& format,
                                 std::shared_ptr<Crew> crew, uint8_t* out, Status* status);

}  // namespace headrace
