#include "interleave.h"

namespace headrace {
namespace {

void interleave_portable(const uint8_t* in, size_t line, uint8_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i, out += 3)
    for (size_t c = 0; c < 3; ++c) out[c] = in[c * line + i];
}

void deinterleave_portable(const uint8_t* in, uint8_t* out, size_t line, size_t count) {
  for (size_t i = 0; i < count; ++i, in += 3)
    for (size_t c = 0; c < 3; ++c) out[c * line + i] = in[c];
}

#if HEADRACE_AVX2

// Repeated in both lanes: byte i is at(i).
template <typename At>
AVX2_INLINE __m256i make_bytes(At at) {
  alignas(32) uint8_t bytes[32];
  for (int i = 0; i < 32; ++i) bytes[i] = uint8_t(at(i % 16));
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
}

// 16 pixels are three parts of 16 bytes, and byte i of part t belongs to channel (t + i) % 3. Pixel
// p of channel c lies at byte (3 p + c) % 16 of its part: so one shuffle of a channel brings all of
// its pixels to their places (11 is the inverse of 3 modulo 16), from where the parts pick theirs.
AVX2_INLINE __m256i pick(__m256i first, __m256i second, __m256i third) {
  const __m256i seconds = make_bytes([](int i) { return i % 3 == 1 ? 0xFF : 0; });
  const __m256i thirds = make_bytes([](int i) { return i % 3 == 2 ? 0xFF : 0; });
  return _mm256_blendv_epi8(_mm256_blendv_epi8(first, second, seconds), third, thirds);
}

HEADRACE_TARGET_AVX2 void interleave_avx2(const uint8_t* in, size_t line, uint8_t* out,
                                          size_t count) {
  const __m256i places[3] = {make_bytes([](int i) { return i * 11 % 16; }),
                             make_bytes([](int i) { return (i + 15) * 11 % 16; }),
                             make_bytes([](int i) { return (i + 14) * 11 % 16; })};
  for (; count >= 32; count -= 32, in += 32, out += 96) {
    __m256i spread[3], parts[3];
    for (size_t c = 0; c < 3; ++c)
      spread[c] = _mm256_shuffle_epi8(load_bytes(in + c * line), places[c]);
    for (size_t t = 0; t < 3; ++t)
      parts[t] = pick(spread[t], spread[(t + 1) % 3], spread[(t + 2) % 3]);
    auto* to = reinterpret_cast<__m256i*>(out);
    store_bytes(to, _mm256_permute2x128_si256(parts[0], parts[1], 0x20));
    store_bytes(to + 1, _mm256_permute2x128_si256(parts[2], parts[0], 0x30));
    store_bytes(to + 2, _mm256_permute2x128_si256(parts[1], parts[2], 0x31));
  }
  interleave_portable(in, line, out, count);
}

HEADRACE_TARGET_AVX2 void deinterleave_avx2(const uint8_t* in, uint8_t* out, size_t line,
                                            size_t count) {
  const __m256i places[3] = {make_bytes([](int i) { return i * 3 % 16; }),
                             make_bytes([](int i) { return (i * 3 + 1) % 16; }),
                             make_bytes([](int i) { return (i * 3 + 2) % 16; })};
  for (; count >= 32; count -= 32, in += 96, out += 32) {
    for (size_t t = 0; t < 2; ++t) _mm_prefetch(in + 1024 + 64 * t, _MM_HINT_T0);
    __m256i parts[3];
    for (size_t t = 0; t < 3; ++t) parts[t] = load_lanes(in + 16 * t, in + 48 + 16 * t);
    for (size_t c = 0; c < 3; ++c)
      store_bytes(
          out + c * line,
          _mm256_shuffle_epi8(pick(parts[c], parts[(c + 2) % 3], parts[(c + 1) % 3]), places[c]));
  }
  deinterleave_portable(in, out, line, count);
}

#endif

}  // namespace

void interleave(const Planar& from, uint8_t* out, size_t stride) {
  auto* run = interleave_portable;
#if HEADRACE_AVX2
  if (use_avx2()) run = interleave_avx2;
#endif
  for (int32_t y = 0; y < from.height; ++y, out += stride)
    run(from.row(y), from.channels == 3 ? from.line() : 0, out, size_t(from.width));
}

void deinterleave(const uint8_t* in, size_t stride, const Planar& to) {
  auto* run = deinterleave_portable;
#if HEADRACE_AVX2
  if (use_avx2()) run = deinterleave_avx2;
#endif
  for (int32_t y = 0; y < to.height; ++y, in += stride)
    run(in, to.row(y), to.line(), size_t(to.width));
}

}  // namespace headrace
