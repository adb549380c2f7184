// Vectors of 32 bytes, which the kernels are written in: one register with AVX2, two elsewhere.
//
// Arithmetic is the compiler's own (GCC vector extensions) and wraps around. Operations that move
// bytes between elements work on each half of 16 bytes by itself, as AVX2 does; they are defined
// below for AVX2, for NEON and in plain C++. Every body gives the same bits.
//
// Files in this folder are compiled once for each target (see all.h): everything in them has
// internal linkage, so that the linker never takes AVX2 code for another target.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define HEADRACE_INLINE inline __attribute__((always_inline))
// intentional: lambdas on registers capture by [=], even nothing. Those without captures convert to
// function pointers, and GCC compiles that second body for the wrong target.
#define HEADRACE_INLINE_LAMBDA __attribute__((always_inline))

namespace headrace {
namespace {

constexpr size_t kVectorBytes = 32, kRegisterBytes = HEADRACE_AVX2 ? 32 : 16;

template <typename T>
struct RegisterOf {
  typedef T type __attribute__((vector_size(kRegisterBytes)));
};
template <typename T>
using Register = typename RegisterOf<T>::type;

template <typename T>
struct Vector {
#if HEADRACE_AVX2
  Register<T> whole;
#else
  Register<T> lower, upper;
#endif
};

using U8 = Vector<uint8_t>;
using I8 = Vector<int8_t>;
using U16 = Vector<uint16_t>;
using I16 = Vector<int16_t>;
using I32 = Vector<int32_t>;

// Applies `f` to the registers of vectors.
template <typename To, typename F, typename... From>
HEADRACE_INLINE Vector<To> each(F f, Vector<From>... in) {
#if HEADRACE_AVX2
  return {Register<To>(f(in.whole...))};
#else
  return {Register<To>(f(in.lower...)), Register<To>(f(in.upper...))};
#endif
}

// The same bits as elements of another type.
template <typename To, typename From>
HEADRACE_INLINE Vector<To> as(Vector<From> in) {
  return each<To>([=](auto a) HEADRACE_INLINE_LAMBDA { return a; }, in);
}

template <typename T>
HEADRACE_INLINE Vector<T> splat(T value) {
  return each<T>([=](auto a) HEADRACE_INLINE_LAMBDA { return a + value; }, Vector<T>{});
}

// --- arithmetic ---------------------------------------------------------------------------------

#define OPERATOR(op)                                                                              \
  template <typename T>                                                                           \
  HEADRACE_INLINE Vector<T> operator op(Vector<T> a, Vector<T> b) {                               \
    using Wrapping = Register<std::make_unsigned_t<T>>;                                           \
    return each<T>(                                                                               \
        [=](auto x, auto y) HEADRACE_INLINE_LAMBDA { return Wrapping(x) op Wrapping(y); }, a, b); \
  }
OPERATOR(+)
OPERATOR(-)
OPERATOR(*)
OPERATOR(&)
OPERATOR(|)
OPERATOR(==)  // all ones where equal

template <typename T>
HEADRACE_INLINE Vector<T> operator<<(Vector<T> a, int count) {
  return each<T>([=](auto x) HEADRACE_INLINE_LAMBDA { return x << count; }, a);
}

template <typename T>  // arithmetic for signed elements
HEADRACE_INLINE Vector<T> operator>>(Vector<T> a, int count) {
  return each<T>([=](auto x) HEADRACE_INLINE_LAMBDA { return x >> count; }, a);
}

// The elements of `a` where the signed `mask` is all ones, of `b` where it is zero.
template <typename M, typename T>
HEADRACE_INLINE Vector<T> select(Vector<M> mask, Vector<T> a, Vector<T> b) {
  return each<T>([=](auto m, auto x, auto y) HEADRACE_INLINE_LAMBDA { return m ? x : y; }, mask, a,
                 b);
}

// --- operations within halves -------------------------------------------------------------------

// Bodies of an operation on registers a and b. SSE2 has the same instructions as AVX2, but not all.
#if HEADRACE_AVX2
#define X86(name) _mm256_##name(__m256i(a), __m256i(b))
#define BY_TARGET(x86, neon, plain) x86
#define BY_TARGET_NOT_SSE2(avx2, neon, plain) avx2
#elif defined(__aarch64__)
#define BY_TARGET(x86, neon, plain) neon
#define BY_TARGET_NOT_SSE2(avx2, neon, plain) neon
#elif defined(__SSE2__)
#define X86(name) _mm_##name(__m128i(a), __m128i(b))
#define BY_TARGET(x86, neon, plain) x86
#define BY_TARGET_NOT_SSE2(avx2, neon, plain) plain
#else
#define BY_TARGET(x86, neon, plain) plain
#define BY_TARGET_NOT_SSE2(avx2, neon, plain) plain
#endif

// Defines an operation on two vectors by an expression of their registers.
#define DEFINE(name, To, A, B, expression)                                                        \
  HEADRACE_INLINE Vector<To> name(Vector<A> va, Vector<B> vb) {                                   \
    return each<To>(                                                                              \
        [=](Register<A> a, Register<B> b) HEADRACE_INLINE_LAMBDA { return expression; }, va, vb); \
  }

// A register whose element i is at(i).
template <typename T, typename At>
HEADRACE_INLINE Register<T> make(At at) {
  T elements[kRegisterBytes / sizeof(T)];
  for (size_t i = 0; i < kRegisterBytes / sizeof(T); ++i) elements[i] = T(at(i));
  Register<T> made;
  std::memcpy(&made, elements, sizeof made);
  return made;
}
#define MAKE(T, expression) make<T>([&](size_t i) HEADRACE_INLINE_LAMBDA { return expression; })

// zip_low, zip_high: the lower or the upper elements of each half, alternating between a and b.
#define ZIP(T, bits, neon)                                                                         \
  DEFINE(zip_low, T, T, T,                                                                         \
         BY_TARGET(X86(unpacklo_epi##bits), vzip1q_##neon(a, b), MAKE(T, (i % 2 ? b : a)[i / 2]))) \
  DEFINE(zip_high, T, T, T,                                                                        \
         BY_TARGET(X86(unpackhi_epi##bits), vzip2q_##neon(a, b),                                   \
                   MAKE(T, (i % 2 ? b : a)[8 / sizeof(T) + i / 2])))
ZIP(uint8_t, 8, u8)
ZIP(int16_t, 16, s16)
ZIP(int32_t, 32, s32)

// The upper 16 bits of all elements, alternating between a and b.
DEFINE(zip_high_halves, int16_t, int32_t, int32_t,
       BY_TARGET_NOT_SSE2(_mm256_blend_epi16(_mm256_srli_epi32(__m256i(a), 16), __m256i(b), 0xAA),
                          vtrn2q_s16(int16x8_t(a), int16x8_t(b)),
                          (Register<uint32_t>(a) >> 16) | (Register<uint32_t>(b) & 0xFFFF0000)))

// The sums of products of neighbours; those of bytes must fit into 16 bits.
DEFINE(multiply_add, int32_t, int16_t, int16_t,
       BY_TARGET(X86(madd_epi16),
                 vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)),
                 MAKE(int32_t, a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1])))
DEFINE(multiply_add, int16_t, uint8_t, int8_t,
       BY_TARGET_NOT_SSE2(X86(maddubs_epi16),
                          vpaddq_s16(int16x8_t(vmovl_u8(vget_low_u8(a))) * vmovl_s8(vget_low_s8(b)),
                                     int16x8_t(vmovl_high_u8(a)) * vmovl_high_s8(b)),
                          (Register<int16_t>(a) & 0xFF) * (Register<int16_t>(b) << 8 >> 8) +
                              Register<int16_t>(Register<uint16_t>(a) >> 8) *
                                  (Register<int16_t>(b) >> 8)))

// (a * b + 2^14) >> 15
DEFINE(multiply_round, int16_t, int16_t, int16_t,
       BY_TARGET_NOT_SSE2(X86(mulhrs_epi16), vqrdmulhq_s16(a, b),
                          MAKE(int16_t, (a[i] * b[i] + (1 << 14)) >> 15)))

// a, then b, saturated to fewer bits. Reverses zip_low() and zip_high() with zero.
DEFINE(pack, int16_t, int32_t, int32_t,
       BY_TARGET(X86(packs_epi32), vqmovn_high_s32(vqmovn_s32(a), b),
                 MAKE(int16_t, std::clamp<int>((i < 4 ? a : b)[i % 4], -32768, 32767))))
DEFINE(pack, int8_t, int16_t, int16_t,
       BY_TARGET(X86(packs_epi16), vqmovn_high_s16(vqmovn_s16(a), b),
                 MAKE(int8_t, std::clamp<int>((i < 8 ? a : b)[i % 8], -128, 127))))
DEFINE(pack_unsigned, uint8_t, int16_t, int16_t,
       BY_TARGET(X86(packus_epi16), vqmovun_high_s16(vqmovun_s16(a), b),
                 MAKE(uint8_t, std::clamp<int>((i < 8 ? a : b)[i % 8], 0, 255))))

// Byte b[i] of a, or zero if b[i] is 128 or more. Other indices must be below 16.
DEFINE(shuffle, uint8_t, uint8_t, uint8_t,
       BY_TARGET_NOT_SSE2(X86(shuffle_epi8), vqtbl1q_u8(a, b),
                          MAKE(uint8_t, b[i] < 128 ? a[b[i] % 16] : 0)))

template <typename T>
HEADRACE_INLINE bool any(Vector<T> a) {
#if HEADRACE_AVX2
  return !_mm256_testz_si256(__m256i(a.whole), __m256i(a.whole));
#else
  const auto bits = Register<uint64_t>(a.lower | a.upper);
  return (bits[0] | bits[1]) != 0;
#endif
}

// The index of the first byte that is set in the result of a comparison, or 32.
HEADRACE_INLINE size_t first_set(U8 a) {
#if HEADRACE_AVX2
  return _tzcnt_u32(uint32_t(_mm256_movemask_epi8(__m256i(a.whole))));
#else
  uint64_t words[4];
  std::memcpy(words, &a, sizeof words);
  size_t at = 0;
  while (at < 4 && words[at] == 0) ++at;
  return at * 8 + (at < 4 ? size_t(__builtin_ctzll(words[at])) / 8 : 0);
#endif
}

// --- memory -------------------------------------------------------------------------------------

// The halves of 16 bytes, from two places.
template <typename T>
HEADRACE_INLINE Vector<T> load_halves(const void* lower, const void* upper) {
#if HEADRACE_AVX2
  const auto* low = static_cast<const __m128i*>(lower);
  const auto* high = static_cast<const __m128i*>(upper);
  return {Register<T>(_mm256_set_m128i(_mm_loadu_si128(high), _mm_loadu_si128(low)))};
#else
  Vector<T> loaded;
  std::memcpy(&loaded.lower, lower, 16);
  std::memcpy(&loaded.upper, upper, 16);
  return loaded;
#endif
}

template <typename T>
HEADRACE_INLINE Vector<T> load(const void* from) {
#if HEADRACE_AVX2
  return {Register<T>(_mm256_loadu_si256(static_cast<const __m256i*>(from)))};
#else
  return load_halves<T>(from, static_cast<const uint8_t*>(from) + 16);
#endif
}

template <typename T>
HEADRACE_INLINE void store_halves(void* lower, void* upper, Vector<T> in) {
#if HEADRACE_AVX2
  _mm_storeu_si128(static_cast<__m128i*>(lower), _mm256_castsi256_si128(__m256i(in.whole)));
  _mm_storeu_si128(static_cast<__m128i*>(upper), _mm256_extracti128_si256(__m256i(in.whole), 1));
#else
  std::memcpy(lower, &in.lower, 16);
  std::memcpy(upper, &in.upper, 16);
#endif
}

template <typename T>
HEADRACE_INLINE void store(void* to, Vector<T> in) {
#if HEADRACE_AVX2
  _mm256_storeu_si256(static_cast<__m256i*>(to), __m256i(in.whole));
#else
  store_halves(to, static_cast<uint8_t*>(to) + 16, in);
#endif
}

// The lower eight bytes of both halves go to `first`, the upper eight to `second`.
template <typename T>
HEADRACE_INLINE void store_quarters(uint8_t* first, uint8_t* second, Vector<T> in) {
#if HEADRACE_AVX2
  store_halves(first, second,
               U8{Register<uint8_t>(_mm256_permute4x64_epi64(__m256i(in.whole), 0xD8))});
#else
  const auto lower = Register<uint64_t>(in.lower), upper = Register<uint64_t>(in.upper);
  const Register<uint64_t> rows[2] = {{lower[0], upper[0]}, {lower[1], upper[1]}};
  std::memcpy(first, rows, 16);
  std::memcpy(second, rows + 1, 16);
#endif
}

// A vector whose byte i of each half is at(i).
template <typename At>
HEADRACE_INLINE U8 make_bytes(At at) {
  uint8_t bytes[kVectorBytes];
  for (size_t i = 0; i < kVectorBytes; ++i) bytes[i] = uint8_t(at(int(i % 16)));
  return load<uint8_t>(bytes);
}

// The bytes of every other 16-bit element, from the first or (`odd`) the second on, zero-extended.
template <int odd>
HEADRACE_INLINE I16 widen_pairs(U8 in) {
  [[maybe_unused]] const U8 places =
      make_bytes([](int i) { return i % 2 ? 0x80 : i / 4 * 4 + i / 2 % 2 + 2 * odd; });
  [[maybe_unused]] const auto pairs = as<uint32_t>(in) >> (16 * odd);
  return as<int16_t>(BY_TARGET_NOT_SSE2(shuffle(in, places), shuffle(in, places),
                                        (pairs & splat(0xFFu)) | ((pairs & splat(0xFF00u)) << 8)));
}

// Transposes eight by eight elements in each half.
HEADRACE_INLINE void transpose(I16 (&rows)[8]) {
  for (int round = 0; round < 3; ++round) {
    I16 mixed[8];
    for (int i = 0; i < 4; ++i) {
      mixed[i * 2] = zip_low(rows[i], rows[i + 4]);
      mixed[i * 2 + 1] = zip_high(rows[i], rows[i + 4]);
    }
    for (int i = 0; i < 8; ++i) rows[i] = mixed[i];
  }
}

}  // namespace
}  // namespace headrace
