// Noise as a pure function: the same on every machine, since it uses no function of the C library
// but sqrt(), which is exact.
#pragma once

#include <array>
#include <cstdint>

namespace headrace {

// Four random words for a counter and a key: Philox4x32-10 of Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3" (2011).
std::array<uint32_t, 4> draw_words(uint64_t counter, uint64_t key);

// The number below which a normal variable lies with a probability of (word + 0.5) / 2^32, with an
// error below 1e-6.
float to_normal(uint32_t word);

}  // namespace headrace
