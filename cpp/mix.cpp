#include "mix.h"

#include <algorithm>

#include "pool.h"

namespace headrace {
namespace {

// Elements at a time: the next image is still in the cache when its own turn comes.
constexpr int64_t kPiece = 4096;

void mix_row(float* image, const float* next, int64_t size, float keep, float rest) {
  for (int64_t i = 0; i < size; ++i) image[i] = next[i] * rest + image[i] * keep;
}

void mix_piece(float* images, size_t stride, const MixRing& ring, int64_t size, float keep,
               float rest) {
  static thread_local std::vector<float> first;
  const float* begin = images + size_t(ring.front()) * stride;
  first.assign(begin, begin + size);
  for (size_t k = 0; k < ring.size(); ++k) {
    const bool is_last = k + 1 == ring.size();
    const float* next = is_last ? first.data() : images + size_t(ring[k + 1]) * stride;
    mix_row(images + size_t(ring[k]) * stride, next, size, keep, rest);
  }
}

std::vector<MixPart> cut_pieces(const MixPart* parts, size_t count) {
  std::vector<MixPart> pieces;
  for (size_t i = 0; i < count; ++i)
    for (int64_t done = 0; done < parts[i].size; done += kPiece)
      pieces.push_back({parts[i].offset + done, std::min(kPiece, parts[i].size - done)});
  return pieces;
}

}  // namespace

void mix_images(float* images, size_t stride, const std::vector<MixRing>& rings,
                const MixPart* parts, size_t count, float keep, float rest, int threads) {
  const std::vector<MixPart> pieces = cut_pieces(parts, count);
  run_parallel(pieces.size(), threads, [&](size_t i) {
    for (const MixRing& ring : rings)
      mix_piece(images + pieces[i].offset, stride, ring, pieces[i].size, keep, rest);
  });
}

}  // namespace headrace
