// Reverses the filters of PNG: each byte was stored as its difference from a prediction, made of
// the pixel to the left, the one above, and the one to the left of that.
//
// A pixel depends on the one before it, so what counts is the latency of one step. Pixels of three
// bytes or more are one vector; smaller ones are numbers.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// Eight bytes that begin with all channels of a pixel, with room for sums.
struct PixelVector {
  static constexpr size_t kLanes = 8;
  typedef uint8_t Narrow __attribute__((vector_size(8)));
  typedef int16_t Wide __attribute__((vector_size(16)));

  static HEADRACE_INLINE Wide load(const uint8_t* from) {
    Narrow bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, Wide);
  }
  static HEADRACE_INLINE void store(uint8_t* to, Wide pixel) {
    const Narrow bytes = __builtin_convertvector(pixel, Narrow);
    std::memcpy(to, &bytes, sizeof bytes);
  }
};

// One byte of a pixel.
struct PixelByte {
  static constexpr size_t kLanes = 1;
  using Wide = int32_t;
  static HEADRACE_INLINE Wide load(const uint8_t* from) { return *from; }
  static HEADRACE_INLINE void store(uint8_t* to, Wide pixel) { *to = uint8_t(pixel); }
};

enum class Predict { left, average, paeth };

// The usual definition takes whichever of a (left), b (above) and c (above left) is nearest to
// a + b - c. This one has the same result, with fewer steps between `a` and the result.
template <typename Wide>
HEADRACE_INLINE Wide predict_paeth(Wide a, Wide b, Wide c) {
  const Wide threshold = c + c + c - a - b;
  const Wide low = a < b ? a : b, high = a < b ? b : a;
  const Wide inner = high <= threshold ? low : c;
  return threshold <= low ? high : inner;
}

template <Predict predict, typename Wide>
HEADRACE_INLINE Wide predict_pixel(Wide a, Wide b, Wide c) {
  if (predict == Predict::left) return a;
  if (predict == Predict::average) return (a + b) >> 1;
  return predict_paeth(a, b, c);
}

// Takes a vector of pixels of one or two bytes that are all as predicted, as in most of a mask.
// Returns whether they are, and can be told without computing each.
template <Predict predict, size_t size>
HEADRACE_INLINE bool unfilter_flat(const uint8_t* in, const uint8_t* above, uint8_t* out,
                                   int32_t (&left)[size], int32_t (&corner)[size]) {
  if (predict == Predict::average || any(load<uint8_t>(in))) return false;
  if (predict == Predict::left) {
    const int32_t pair = left[0] | left[size - 1] << 8;
    store(out, splat(uint16_t(pair)));
    return true;
  }
  // If the pixel on the left is the one above it, the prediction is the pixel above.
  for (size_t c = 0; c < size; ++c)
    if (left[c] != corner[c]) return false;
  store(out, load<uint8_t>(above));
  for (size_t c = 0; c < size; ++c) left[c] = corner[c] = above[kVectorBytes - size + c];
  return true;
}

// Reads and writes up to seven bytes behind the rows `above` and `out`.
template <Predict predict, size_t size>
HEADRACE_INLINE void unfilter_pixels(const uint8_t* in, const uint8_t* above, uint8_t* out,
                                     size_t bytes) {
  using P = std::conditional_t<(size > 2), PixelVector, PixelByte>;
  using Wide = typename P::Wide;
  constexpr size_t channels = P::kLanes == 1 ? size : 1;  // that are computed one by one
  Wide left[channels] = {}, corner[channels] = {};
  const auto step = [&](const uint8_t* from, size_t i) HEADRACE_INLINE_LAMBDA {
    for (size_t c = 0; c < channels; ++c) {
      const Wide up = P::load(above + i + c);
      left[c] = (P::load(from + c) + predict_pixel<predict>(left[c], up, corner[c])) & 0xFF;
      corner[c] = up;
      P::store(out + i + c, left[c]);
    }
  };
  size_t i = 0;
  if constexpr (P::kLanes == 1)
    while (i + kVectorBytes <= bytes) {
      const size_t end = i + kVectorBytes;
      if (!unfilter_flat<predict, size>(in + i, above + i, out + i, left, corner))
        for (; i < end; i += size) step(in + i, i);
      i = end;
    }
  for (; i + std::max(size, P::kLanes) <= bytes; i += size) step(in + i, i);
  if (i == bytes) return;
  uint8_t last[16] = {};  // since nothing may be read behind the row
  std::memcpy(last, in + i, bytes - i);
  for (const uint8_t* from = last; i < bytes; i += size, from += size) step(from, i);
}

template <Predict predict>
void unfilter_row(const uint8_t* in, const uint8_t* above, uint8_t* out, size_t bytes,
                  size_t size) {
  switch (size) {
    case 1:
      return unfilter_pixels<predict, 1>(in, above, out, bytes);
    case 2:
      return unfilter_pixels<predict, 2>(in, above, out, bytes);
    case 3:
      return unfilter_pixels<predict, 3>(in, above, out, bytes);
    case 4:
      return unfilter_pixels<predict, 4>(in, above, out, bytes);
    case 6:
      return unfilter_pixels<predict, 6>(in, above, out, bytes);
    default:
      return unfilter_pixels<predict, 8>(in, above, out, bytes);
  }
}

void unfilter_up(const uint8_t* in, const uint8_t* above, uint8_t* out, size_t bytes) {
  size_t i = 0;
  for (; i + kVectorBytes <= bytes; i += kVectorBytes)
    store(out + i, load<uint8_t>(in + i) + load<uint8_t>(above + i));
  for (; i < bytes; ++i) out[i] = uint8_t(in[i] + above[i]);
}

void unfilter(int filter, const uint8_t* in, const uint8_t* above, uint8_t* out, size_t bytes,
              size_t size) {
  switch (filter) {
    case 1:
      return unfilter_row<Predict::left>(in, above, out, bytes, size);
    case 2:
      return unfilter_up(in, above, out, bytes);
    case 3:
      return unfilter_row<Predict::average>(in, above, out, bytes, size);
    case 4:
      return unfilter_row<Predict::paeth>(in, above, out, bytes, size);
    default:
      std::memcpy(out, in, bytes);
  }
}

}  // namespace
}  // namespace headrace
