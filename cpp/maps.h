// Maps of floats under the geometry of their images, resized as torch resizes floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "axis.h"

namespace headrace {

// What a result shows of a map. Without `nearest`, it is bilinear and antialiased.
struct MapView {
  Axis rows, columns;
  const float* factors = nullptr;  // of each channel
  float fill = 0;                  // outside of the map
  bool nearest = false;
};

// Renders a map [rows.size][columns.size][channels] to out[height][width][channels].
void render_map(const float* in, size_t channels, const MapView& view, float* out, int32_t height,
                int32_t width);

}  // namespace headrace
