// MixUp and CutMix: images of a batch mixed with each other, in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace {

// A part of every image: `size` elements from `offset` on.
struct MixPart {
  int64_t offset, size;
};

// Images that are mixed in a ring: each with the next one, the last with the first.
using MixRing = std::vector<int32_t>;

// Replaces these parts of each image by next * rest + image * keep, where `next` is the next image
// of its ring as it was before. Images are `stride` elements apart. Rings share no image.
void mix_images(float* images, size_t stride, const std::vector<MixRing>& rings,
                const MixPart* parts, size_t count, float keep, float rest, int threads);

}  // namespace headrace
