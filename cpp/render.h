// One call renders one batch: images and what to make of them in, finished pixels in the caller's
// memory out. The unit of work is an image with all of its views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "jpeg.h"
#include "pool.h"
#include "program.h"
#include "resize_taps.h"
#include "status.h"

namespace headrace {

// The part of a resized picture that is rendered: the box is resized to `width` x `height`, and the
// slot shows what lies from (`left`, `top`) on, and the target's `fill` outside the picture. All
// zero: the whole picture.
struct Viewport {
  int32_t width = 0, height = 0, left = 0, top = 0;
};

// An image, opened and verified once for all of its views.
struct Picture {
  Bytes image;                         // a JPEG; or RGB pixels without gaps, if they have a size:
  int32_t width = 0, height = 0;       // zero for a JPEG
  const uint32_t* checksum = nullptr;  // the CRC-32C that a JPEG must have; null: not checked
  const int32_t* size = nullptr;  // the height and width that a JPEG must have; null: not checked
  Bytes seek;                     // may be empty
  uint8_t orientation = 1;  // EXIF's, 1 to 8: the picture is turned upright before anything else
};

// One result of a picture: this geometry, these pixel operations. A null pointer to three values
// means that the operation is left out.
struct View {
  Box box{};
  Viewport viewport{};
  bool flip = false, flip_rows = false;  // the result is mirrored; it is upside down

  const float* jitter = nullptr;    // factors of brightness, contrast and saturation
  const uint8_t* order = nullptr;   // the order in which they apply; given with `jitter`
  const float* lighting = nullptr;  // added to red, green and blue
  Program program{};                // runs last
};

// What one view of all pictures is rendered into: that of picture i fills slot i of `out`, `width`
// x `height` pixels of three elements, and `status[i]`.
struct Target {
  int32_t width = 0, height = 0;
  Filter filter = Filter::bilinear;
  size_t element_size = 1;
  Element element = Element::byte;
  const void* table = nullptr;  // 3 x 256 elements, one for each byte; null keeps bytes
  bool planar = false;          // needs a table
  uint8_t fill[3] = {0, 0, 0};  // the colour outside of pictures
  uint8_t* out = nullptr;
  Status* status = nullptr;

  size_t pixels() const { return size_t(width) * size_t(height); }
  size_t slot_size() const { return pixels() * 3 * element_size; }
  uint8_t* slot(size_t picture) const { return out + picture * slot_size(); }
};

// One batch. It must not change while it is rendered, nor anything that it points to.
struct RenderRequest {
  std::vector<Picture> pictures;
  std::vector<Target> targets;  // one for each view
  std::vector<View> views;      // [pictures][targets]

  View& view(size_t picture, size_t target) { return views[picture * targets.size() + target]; }
  const View& view(size_t picture, size_t target) const {
    return views[picture * targets.size() + target];
  }
};

// Renders with at most `threads` threads; the result does not depend on them. A view that fails
// leaves zeros in its slot, and its status says why. A box outside of the picture fails alone; a
// picture that does not decode fails in all views. Throws std::bad_alloc.
void render(const RenderRequest& request, int threads);

// Does the same in the background.
std::unique_ptr<Job> begin_render(const RenderRequest& request, std::shared_ptr<Crew> crew);

}  // namespace headrace
