// RGB to HSV and back in bytes, as Pillow does it. Pillow computes some of it in double; in float
// all results are the same bytes, as the test of all levels shows.
#pragma once

#include "color.h"
#include "vector.h"

namespace headrace {
namespace {

using IntLanes = Register<int32_t>;
using FloatLanes = Register<float>;

// Finds the hue of pixels, of 255; `most` is the highest level, `range` the difference from the
// lowest.
HEADRACE_INLINE void find_hue(const IntLanes& red, const IntLanes& green, const IntLanes& blue,
                              const IntLanes& most, const IntLanes& range, IntLanes& hue) {
  const IntLanes middle = red + green + blue - most - (most - range);
  const FloatLanes over = __builtin_convertvector(range == 0 ? range + 1 : range, FloatLanes);
  const FloatLanes part = __builtin_convertvector(most - middle, FloatLanes) / over;
  const auto is_red = red == most, is_green = green == most;
  const FloatLanes zero{}, two = zero + 2.0f, four = zero + 4.0f;
  const FloatLanes first = is_red ? zero : is_green ? two : four;
  const IntLanes after = is_red ? green : is_green ? blue : red;
  const IntLanes before = is_red ? blue : is_green ? red : green;
  // Pillow adds and subtracts the distances of both other channels; that of the lowest one is 1.
  const FloatLanes sixths = before < after ? first + 1.0f - part : first - 1.0f + part;
  const FloatLanes turns = sixths / 6.0f;
  const FloatLanes positive = (turns < zero ? turns + 1.0f : turns) * 255.0f;
  hue = __builtin_convertvector(positive, IntLanes);
}

// Adds `turn` to the hues of pixels.
HEADRACE_INLINE void turn_lanes(IntLanes& red, IntLanes& green, IntLanes& blue, int32_t turn) {
  const IntLanes above = red > green ? red : green, below = red < green ? red : green;
  const IntLanes most = above > blue ? above : blue;
  const IntLanes range = most - (below < blue ? below : blue);
  IntLanes hue;
  find_hue(red, green, blue, most, range, hue);
  hue = (hue + turn) & 255;
  const FloatLanes full = __builtin_convertvector(most == 0 ? most + 1 : most, FloatLanes);
  const FloatLanes share = __builtin_convertvector(range, FloatLanes) / full * 255.0f;
  const IntLanes saturation = __builtin_convertvector(share, IntLanes);

  // Between two of six colours: one channel is high, one low, and the third goes up or down.
  const IntLanes sixth = __builtin_convertvector(
      __builtin_convertvector(hue, FloatLanes) * float(6.0 / 255.0), IntLanes);
  const FloatLanes rest = __builtin_convertvector(hue * 6 - sixth * 255, FloatLanes) / 255.0f;
  const FloatLanes strength = __builtin_convertvector(saturation, FloatLanes) / 255.0f;
  const FloatLanes value = __builtin_convertvector(most, FloatLanes);
  const FloatLanes fall = (sixth & 1) != 0 ? rest : 1.0f - rest;
  const IntLanes low = __builtin_convertvector(value * (1.0f - strength) + 0.5f, IntLanes);
  const IntLanes middle =
      __builtin_convertvector(value * (1.0f - strength * fall) + 0.5f, IntLanes);
  const IntLanes s = sixth == 6 ? sixth - 6 : sixth;
  red = (s == 0) | (s == 5) ? most : (s == 2) | (s == 3) ? low : middle;
  green = (s == 1) | (s == 2) ? most : s >= 4 ? low : middle;
  blue = (s == 3) | (s == 4) ? most : s <= 1 ? low : middle;
}

HEADRACE_INLINE void turn_vectors(I32& red, I32& green, I32& blue, int32_t turn) {
#if HEADRACE_AVX2
  turn_lanes(red.whole, green.whole, blue.whole, turn);
#else
  turn_lanes(red.lower, green.lower, blue.lower, turn);
  turn_lanes(red.upper, green.upper, blue.upper, turn);
#endif
}

// Adds `turn` to the hues of `count` pixels, whose channels lie apart, and of some behind them: up
// to the next multiple of kLineUnit.
void turn_hue(uint8_t* reds, uint8_t* greens, uint8_t* blues, size_t count, uint8_t turn) {
  for (size_t i = 0; i < count; i += kVectorBytes) {
    uint8_t* const places[3] = {reds + i, greens + i, blues + i};
    I32 parts[3][4];
    for (int c = 0; c < 3; ++c)
      for (int part = 0; part < 4; ++part)
        parts[c][part] = widen_part(load<uint8_t>(places[c]), part);
    for (int part = 0; part < 4; ++part)
      turn_vectors(parts[0][part], parts[1][part], parts[2][part], turn);
    for (int c = 0; c < 3; ++c)
      store(places[c],
            pack_unsigned(pack(parts[c][0], parts[c][1]), pack(parts[c][2], parts[c][3])));
  }
}

}  // namespace
}  // namespace headrace
