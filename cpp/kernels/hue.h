// RGB to HSV and back, in bytes, with the arithmetic of Pillow: some of it is float, some double.
#pragma once

#include "vector.h"

namespace headrace {
namespace {

// Returns the hue of a pixel that is not grey; `most` is its highest level, `range` the difference
// from the lowest one.
HEADRACE_INLINE int find_hue(int red, int green, int blue, int most, int range) {
  const float over = float(range);
  const float r = float(most - red) / over, g = float(most - green) / over,
              b = float(most - blue) / over;
  const double first = red == most ? 0.0 : green == most ? 2.0 : 4.0;
  const float plus = red == most ? b : green == most ? r : g;
  const float minus = red == most ? g : green == most ? b : r;
  const float sixth = float(first + double(plus) - double(minus));
  const double turn = double(sixth) / 6.0 + 1.0;
  const float hue = float(turn >= 1.0 ? turn - 1.0 : turn);  // fmod(turn, 1), since turn < 2
  return int(double(hue) * 255.0);
}

// Rounds halves up; `level` is not negative.
HEADRACE_INLINE int round_level(double level) {
  const int whole = int(level);
  return whole + (level - whole >= 0.5 ? 1 : 0);
}

// Adds `turn` to the hues of `count` pixels, whose channels lie apart.
void turn_hue(uint8_t* reds, uint8_t* greens, uint8_t* blues, size_t count, uint8_t turn) {
  for (size_t i = 0; i < count; ++i) {
    const int red = reds[i], green = greens[i], blue = blues[i];
    const int most = std::max(red, std::max(green, blue));
    const int range = most - std::min(red, std::min(green, blue));
    const int divisor = range == 0 ? 1 : range;
    const int hue = (find_hue(red, green, blue, most, divisor) + turn) & 255;
    const int full = most == 0 ? 1 : most;
    const int saturation = range == 0 ? 0 : int(double(float(range) / float(full)) * 255.0);

    const double place = double(hue) * 6.0 / 255.0;
    const int sector = int(place);
    const float rest = float(place - sector), strength = float(double(saturation) / 255.0);
    const double value = most;
    const int p = round_level(value * (1.0 - double(strength)));
    const int q = round_level(value * (1.0 - double(strength * rest)));
    const int t = round_level(value * (1.0 - double(strength) * (1.0 - double(rest))));
    const int s = sector == 6 ? 0 : sector;
    const bool grey = saturation == 0;
    reds[i] = uint8_t(grey || s == 0 || s == 5 ? most : s == 1 ? q : s == 4 ? t : p);
    greens[i] = uint8_t(grey || s == 1 || s == 2 ? most : s == 0 ? t : s == 3 ? q : p);
    blues[i] = uint8_t(grey || s == 3 || s == 4 ? most : s == 2 ? t : s == 5 ? q : p);
  }
}

}  // namespace
}  // namespace headrace
