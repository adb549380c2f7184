// The markers of JPEG files (T.81, table B.1).
#pragma once

#include <cstdint>
#include <cstring>

#include "pixels.h"

namespace headrace {

constexpr uint8_t SOF0 = 0xC0, SOF1 = 0xC1, SOF2 = 0xC2, DHT = 0xC4, SOF9 = 0xC9, SOF10 = 0xCA,
                  DAC = 0xCC, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA, DQT = 0xDB, DRI = 0xDD,
                  APP0 = 0xE0, APP2 = 0xE2, APP14 = 0xEE, APP15 = 0xEF, COM = 0xFE;

// Returns whether a segment is for readers of the file, not for decoders: APPn or a comment.
constexpr bool is_application(uint8_t marker) {
  return (marker >= APP0 && marker <= APP15) || marker == COM;
}

inline int read_u16(const uint8_t* data) { return data[0] << 8 | data[1]; }

inline bool begins_with(Bytes segment, const char* name) {
  const size_t length = std::strlen(name);
  return segment.size >= length && std::memcmp(segment.data, name, length) == 0;
}

}  // namespace headrace
