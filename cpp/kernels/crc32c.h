// CRC-32C (Castagnoli), by the CPU's instruction where the target has one.
//
// The instruction has a latency of three cycles and a throughput of one, so three runs of `Length`
// bytes are summed side by side. To join the sums, a sum is moved past `Length` zero bytes: a
// linear map over GF(2), looked up byte by byte.
#pragma once

#include <array>

#include "vector.h"

#if defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace headrace {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 reflected
using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Table s has the CRC of each byte followed by s zero bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (auto& table : tables) {
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
      table[byte] = crc;
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

using BitMatrix = std::array<uint32_t, 32>;  // 32 columns of 32 bits

constexpr uint32_t multiply(const BitMatrix& matrix, uint32_t vector) {
  uint32_t product = 0;
  for (size_t bit = 0; vector != 0; ++bit, vector >>= 1)
    if (vector & 1) product ^= matrix[bit];
  return product;
}

// Tables of the linear map; `Length` is a power of two.
template <size_t Length>
constexpr std::array<std::array<uint32_t, 256>, 4> make_shift() {
  BitMatrix matrix{};  // past one zero byte
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t crc = uint32_t(1) << bit;
    matrix[bit] = (crc >> 8) ^ kTables[0][crc & 0xFF];
  }
  for (size_t length = 1; length < Length; length *= 2) {
    BitMatrix square{};
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
HEADRACE_INLINE uint32_t move_past_zeros(uint32_t crc) {
  static constexpr auto shift = make_shift<Length>();
  return shift[0][crc & 0xFF] ^ shift[1][(crc >> 8) & 0xFF] ^ shift[2][(crc >> 16) & 0xFF] ^
         shift[3][crc >> 24];
}

// intentional: 64 bits, though the upper half is zero. It saves clearing that half each time.
HEADRACE_INLINE uint64_t update_word(uint64_t crc, const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
#if HEADRACE_AVX2
  return _mm_crc32_u64(crc, word);
#elif defined(__ARM_FEATURE_CRC32)
  return __crc32cd(uint32_t(crc), word);
#else
  word ^= crc;
  uint64_t sum = 0;
  for (size_t i = 0; i < 8; ++i) sum ^= kTables[7 - i][word >> 8 * i & 0xFF];
  return sum;
#endif
}

template <size_t Length>
HEADRACE_INLINE uint32_t update_threes(uint32_t crc, const uint8_t*& data, size_t& size) {
  for (; size >= 3 * Length; data += 3 * Length, size -= 3 * Length) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t line = 0; line < Length; line += 64) {
      // Bytes just read from a file are often in no cache: prefetch the next three runs.
      for (size_t run = 3; run < 6; ++run) __builtin_prefetch(data + run * Length + line);
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

uint32_t update_crc32c(uint32_t crc, const uint8_t* data, size_t size) {
  crc = update_threes<4096>(crc, data, size);
  crc = update_threes<256>(crc, data, size);
  uint64_t state = crc;
  for (; size >= 8; data += 8, size -= 8) state = update_word(state, data);
  crc = uint32_t(state);
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 0xFF];
  return crc;
}

}  // namespace
}  // namespace headrace
