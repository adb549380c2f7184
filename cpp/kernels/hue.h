// RGB to HSV and back in bytes, as Pillow does it. Pillow computes some of it in double; in float
// all results are the same bytes, as the test of all levels shows.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// Returns the hue; `range` is the difference between the highest level, `most`, and the lowest one.
HEADRACE_INLINE int find_hue(int red, int green, int blue, int most, int range) {
  const int least = most - range, middle = red + green + blue - most - least;
  const float over = float(range == 0 ? 1 : range), part = float(most - middle) / over;
  const bool is_red = red == most, is_green = green == most;
  const float first = is_red ? 0.0f : is_green ? 2.0f : 4.0f;
  const int after = is_red ? green : is_green ? blue : red;
  const int before = is_red ? blue : is_green ? red : green;
  // Pillow adds and subtracts the distances of both other channels; that of the lowest one is 1.
  const float sixths = before < after ? first + 1.0f - part : first - 1.0f + part;
  const float hue = sixths / 6.0f;
  return int((hue < 0.0f ? hue + 1.0f : hue) * 255.0f);
}

// Adds `turn` to the hues of `count` pixels, whose channels lie apart.
void turn_hue(uint8_t* __restrict reds, uint8_t* __restrict greens, uint8_t* __restrict blues,
              size_t count, uint8_t turn) {
  for (size_t i = 0; i < count; ++i) {
    const int red = reds[i], green = greens[i], blue = blues[i];
    const int most = std::max(red, std::max(green, blue));
    const int range = most - std::min(red, std::min(green, blue));
    const int hue = (find_hue(red, green, blue, most, range) + turn) & 255;
    const float full = float(most == 0 ? 1 : most);
    const int saturation = int(float(range) / full * 255.0f);

    // Between two of six colours: one channel is high, one low, and the third goes up or down.
    const int sixth = int(float(hue) * float(6.0 / 255.0));
    const float rest = float(hue * 6 - sixth * 255) / 255.0f, strength = float(saturation) / 255.0f;
    const float fall = sixth & 1 ? rest : 1.0f - rest, value = float(most);
    const int low = int(value * (1.0f - strength) + 0.5f);
    const int middle = int(value * (1.0f - strength * fall) + 0.5f);
    const int s = sixth == 6 ? 0 : sixth;
    const bool red_high = (s == 0) | (s == 5), red_low = (s == 2) | (s == 3);
    const bool green_high = (s == 1) | (s == 2), green_low = s >= 4;
    const bool blue_high = (s == 3) | (s == 4), blue_low = s <= 1;
    reds[i] = uint8_t(red_high ? most : red_low ? low : middle);
    greens[i] = uint8_t(green_high ? most : green_low ? low : middle);
    blues[i] = uint8_t(blue_high ? most : blue_low ? low : middle);
  }
}

}  // namespace
}  // namespace headrace
