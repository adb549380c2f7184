#include "crc32c.h"

#include <array>
#include <cstring>

#include "simd.h"

namespace headrace {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 reflected
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < 8; ++slice)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[slice - 1][byte];
      tables[slice][byte] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  return tables;
}

constexpr Tables kTables = make_tables();

uint32_t update_portable(uint32_t crc, const uint8_t* data, size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    const uint32_t low = crc ^ (uint32_t(data[0]) | uint32_t(data[1]) << 8 |
                                uint32_t(data[2]) << 16 | uint32_t(data[3]) << 24);
    crc = kTables[7][low & 0xFF] ^ kTables[6][(low >> 8) & 0xFF] ^ kTables[5][(low >> 16) & 0xFF] ^
          kTables[4][low >> 24] ^ kTables[3][data[4]] ^ kTables[2][data[5]] ^ kTables[1][data[6]] ^
          kTables[0][data[7]];
  }
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 0xFF];
  return crc;
}

#if HEADRACE_AVX2
// The CRC instruction takes three cycles and can start each cycle, so three stretches of `Length`
// bytes are summed side by side. To join them, a sum is moved past `Length` zero bytes: a linear
// map over GF(2), looked up a byte at a time.
using Columns = std::array<uint32_t, 32>;  // of a 32 x 32 matrix of bits

constexpr uint32_t multiply(const Columns& matrix, uint32_t vector) {
  uint32_t product = 0;
  for (size_t bit = 0; vector != 0; ++bit, vector >>= 1)
    if (vector & 1) product ^= matrix[bit];
  return product;
}

// `Length` is a power of two.
template <size_t Length>
constexpr std::array<std::array<uint32_t, 256>, 4> make_shift() {
  Columns matrix{};  // past one zero byte
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t crc = uint32_t(1) << bit;
    matrix[bit] = (crc >> 8) ^ kTables[0][crc & 0xFF];
  }
  for (size_t length = 1; length < Length; length *= 2) {
    Columns square{};
    for (size_t bit = 0; bit < 32; ++bit) square[bit] = multiply(matrix, matrix[bit]);
    matrix = square;
  }
  std::array<std::array<uint32_t, 256>, 4> shift{};
  for (size_t place = 0; place < 4; ++place)
    for (uint32_t byte = 0; byte < 256; ++byte)
      shift[place][byte] = multiply(matrix, byte << (8 * place));
  return shift;
}

template <size_t Length>
uint32_t move_past_zeros(uint32_t crc) {
  static constexpr auto shift = make_shift<Length>();
  return shift[0][crc & 0xFF] ^ shift[1][(crc >> 8) & 0xFF] ^ shift[2][(crc >> 16) & 0xFF] ^
         shift[3][crc >> 24];
}

AVX2_INLINE uint64_t update_word(uint64_t crc, const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
  return _mm_crc32_u64(crc, word);
}

template <size_t Length>
HEADRACE_TARGET_AVX2 uint32_t update_threes(uint32_t crc, const uint8_t*& data, size_t& size) {
  for (; size >= 3 * Length; data += 3 * Length, size -= 3 * Length) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t line = 0; line < Length; line += 64) {
      // What was just read from a file often lies in no cache: fetch the next three stretches.
      for (size_t stretch = 3; stretch < 6; ++stretch)
        __builtin_prefetch(data + stretch * Length + line);
      for (size_t i = line; i < line + 64; i += 8) {
        first = update_word(first, data + i);
        second = update_word(second, data + Length + i);
        third = update_word(third, data + 2 * Length + i);
      }
    }
    crc = move_past_zeros<Length>(uint32_t(first)) ^ uint32_t(second);
    crc = move_past_zeros<Length>(crc) ^ uint32_t(third);
  }
  return crc;
}

HEADRACE_TARGET_AVX2 uint32_t update_sse42(uint32_t crc, const uint8_t* data, size_t size) {
  crc = update_threes<4096>(crc, data, size);
  crc = update_threes<256>(crc, data, size);
  uint64_t state = crc;
  for (; size >= 8; data += 8, size -= 8) state = update_word(state, data);
  crc = uint32_t(state);
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, *data);
  return crc;
}
#endif

}  // namespace

uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t size) {
#if HEADRACE_AVX2
  if (use_avx2()) return ~update_sse42(~crc, data, size);
#endif
  return ~update_portable(~crc, data, size);
}

}  // namespace headrace
