// Decides whether the views of a picture are decoded each by itself, or all at once. The result is
// the same: a decoded part equals the same part of the decoded picture.
#pragma once

#include <cstdint>
#include <vector>

#include "pixels.h"

namespace headrace {

enum class Sharing { rule, never, always };

// For tests and benchmarks.
void force_sharing(Sharing sharing);

// What the parts of a JPEG cost to decode.
struct DecodeCost {
  int32_t width = 0, height = 0;
  bool seeks = false;     // only the data of the part itself is read
  bool one_scan = false;  // else all data is read, for any part

  // In units of a pixel that goes all the way from the data to RGB.
  double of(const Box& part) const;
};

// Returns the smallest box that contains both.
Box unite(const Box& a, const Box& b);

// Returns true if decoding `all`, which contains the parts, costs less than decoding each part.
bool should_share(const DecodeCost& cost, const std::vector<Box>& parts, const Box& all);

}  // namespace headrace
