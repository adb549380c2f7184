#include "color.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "interleave.h"
#include "levels.h"

namespace headrace {
namespace {

constexpr size_t kBlock = 1024;  // pixels blended at a time

// NaN becomes 0.
float clip(float level) {
  level = level > 0.0f ? level : 0.0f;
  return level < 255.0f ? level : 255.0f;
}

uint8_t mean_grey(const uint8_t* pixels, size_t count) {
  uint8_t grey[kBlock];
  uint64_t sum = 0;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    kernels().make_grey(pixels + begin * 3, block, grey);
    sum += std::accumulate(grey, grey + block, 0u);
  }
  return uint8_t(double(sum) / double(count) + 0.5);
}

void blend_with_level(uint8_t* pixels, size_t count, uint8_t level, float factor) {
  uint8_t table[256], from[256];
  std::iota(table, table + 256, uint8_t(0));
  std::fill_n(from, 256, level);
  kernels().blend(table, from, 256, factor);
  kernels().map_levels(pixels, count * 3, table);
}

void blend_with_grey(uint8_t* pixels, size_t count, float factor) {
  uint8_t grey[kBlock] = {}, from[kBlock * 3];  // zeroed: whole vectors of it are read
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    kernels().make_grey(pixels + begin * 3, block, grey);
    interleave({grey, int32_t(block), 1, 1}, from, 0);
    kernels().blend(pixels + begin * 3, from, block * 3, factor);
  }
}

}  // namespace

void change_color(uint8_t* pixels, size_t count, ColorChange change, float factor) {
  if (factor == 1.0f) return;
  if (change == ColorChange::brightness)
    blend_with_level(pixels, count, 0, factor);
  else if (change == ColorChange::contrast)
    blend_with_level(pixels, count, mean_grey(pixels, count), factor);
  else
    blend_with_grey(pixels, count, factor);
}

void jitter_color(uint8_t* pixels, size_t count, const float factors[3], const uint8_t order[3]) {
  for (int step = 0; step < 3; ++step)
    change_color(pixels, count, ColorChange(order[step]), factors[order[step]]);
}

void add_offset(uint8_t* pixels, size_t count, const float offset[3]) {
  uint8_t tables[3][256];
  for (int channel = 0; channel < 3; ++channel)
    for (int level = 0; level < 256; ++level)
      tables[channel][level] = uint8_t(clip(std::nearbyint(float(level) + offset[channel])));
  map_channels(pixels, count, tables);
}

}  // namespace headrace
