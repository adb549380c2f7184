#include "hue.h"

#include <algorithm>

#include "interleave.h"

namespace headrace {
namespace {

constexpr size_t kBlock = 512;  // pixels at a time

}  // namespace

void turn_hue(uint8_t* pixels, size_t count, uint8_t turn) {
  alignas(64) uint8_t planes[kBlock * 4 + kRowPadding] = {};  // interleaving reads another line
  for (; count > 0;) {
    const size_t block = std::min(kBlock, count);
    const Planar planar{planes, int32_t(block), 1, 3, kBlock};
    deinterleave(pixels, 0, planar);
    kernels().turn_hue(planes, planes + kBlock, planes + 2 * kBlock, block, turn);
    interleave(planar, pixels, 0);
    count -= block;
    pixels += block * 3;
  }
}

void make_grayscale(uint8_t* pixels, size_t count) {
  uint8_t grey[kBlock + kRowPadding] = {};
  for (; count > 0;) {
    const size_t block = std::min(kBlock, count);
    kernels().make_grey(pixels, block, grey);
    interleave({grey, int32_t(block), 1, 1}, pixels, 0);
    count -= block;
    pixels += block * 3;
  }
}

}  // namespace headrace
