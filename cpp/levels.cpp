#include "levels.h"

#include <algorithm>
#include <numeric>

#include "interleave.h"

namespace headrace {
namespace {

using Histogram = uint32_t[256];

// Fills the histograms of the channels. Neighbours are counted apart, since they are often equal,
// and a counter that was just written is slow to read.
void count_levels(const uint8_t* pixels, size_t count, Histogram (&counts)[3]) {
  Histogram parts[4][3] = {};
  size_t i = 0;
  for (; i + 4 <= count; i += 4, pixels += 12)
    for (int part = 0; part < 4; ++part)
      for (int c = 0; c < 3; ++c) ++parts[part][c][pixels[part * 3 + c]];
  for (; i < count; ++i, pixels += 3)
    for (int c = 0; c < 3; ++c) ++parts[0][c][pixels[c]];
  for (int c = 0; c < 3; ++c)
    for (int level = 0; level < 256; ++level)
      counts[c][level] =
          parts[0][c][level] + parts[1][c][level] + parts[2][c][level] + parts[3][c][level];
}

// Fills the table that stretches levels from `least` to `most`.
void make_stretch(int least, int most, uint8_t* table) {
  std::iota(table, table + 256, uint8_t(0));
  if (most <= least) return;
  const double scale = 255.0 / (most - least), offset = -least * scale;
  for (int level = 0; level < 256; ++level)
    table[level] = uint8_t(std::clamp(int(level * scale + offset), 0, 255));
}

void make_equal(const Histogram& counts, size_t count, uint8_t* table) {
  std::iota(table, table + 256, uint8_t(0));
  int last = 255;
  while (counts[last] == 0) --last;
  const size_t step = (count - counts[last]) / 255;
  if (step == 0) return;
  size_t sum = step / 2;
  for (int level = 0; level < 256; ++level) {
    table[level] = uint8_t(std::min<size_t>(sum / step, 255));
    sum += counts[level];
  }
}

}  // namespace

void invert(uint8_t* bytes, size_t size) { kernels().solarize_from(bytes, size, 0); }

void posterize(uint8_t* bytes, size_t size, int bits) {
  kernels().mask_levels(bytes, size, uint8_t(0xFF00 >> bits));
}

void solarize(uint8_t* bytes, size_t size, int first) {
  if (first < 256) kernels().solarize_from(bytes, size, uint8_t(first));
}

void solarize_add(uint8_t* bytes, size_t size, int add, int first) {
  if (first > 0) kernels().add_up_to(bytes, size, add, uint8_t(first - 1));
}

void map_channels(uint8_t* pixels, size_t count, const uint8_t (&tables)[3][256]) {
  constexpr size_t kBlock = 512;
  alignas(64) uint8_t planes[kBlock * 4 + kRowPadding] = {};  // interleaving reads another line
  for (; count > 0;) {
    const size_t block = std::min(kBlock, count);
    const Planar planar{planes, int32_t(block), 1, 3, kBlock};
    deinterleave(pixels, 0, planar);
    for (size_t c = 0; c < 3; ++c) kernels().map_levels(planes + c * kBlock, block, tables[c]);
    interleave(planar, pixels, 0);
    count -= block;
    pixels += block * 3;
  }
}

void autocontrast(uint8_t* pixels, size_t count) {
  uint8_t least[3], most[3], tables[3][256];
  kernels().find_levels(pixels, count, least, most);
  for (int c = 0; c < 3; ++c) make_stretch(least[c], most[c], tables[c]);
  map_channels(pixels, count, tables);
}

void equalize(uint8_t* pixels, size_t count) {
  Histogram counts[3];
  uint8_t tables[3][256];
  count_levels(pixels, count, counts);
  for (int c = 0; c < 3; ++c) make_equal(counts[c], count, tables[c]);
  map_channels(pixels, count, tables);
}

}  // namespace headrace
