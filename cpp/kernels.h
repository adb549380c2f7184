// The routines that depend on the CPU's instructions: one table per target, chosen once. All tables
// are compiled from the same sources (kernels/) and give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

enum class Status : int32_t;
struct BandBlocks;
struct BandScan;
struct Bytes;
struct DcScan;
struct FixedPlace;
struct McuLayout;
struct Planar;
struct RowPair;
struct Span;
struct Unstuffed;
struct Warp;
class ColumnPass;

// Elements that weigh_lines reads and writes behind the last one.
constexpr size_t kBlurPadding = 32;

using ColumnKernel = void (*)(ColumnPass&, const Planar& in, const Planar& out);

struct Kernels {
  // Decodes all spans of unstuffed `data`; kSpanPadding readable bytes follow each of them. Returns
  // corrupt for an impossible code, truncated for a span that is too short.
  Status (*decode_spans)(const McuLayout& layout, const uint8_t* data, Span* spans, int count);
  // Copies entropy-coded data up to the next marker or the end. `out` has room for all of `data`,
  // and may be overwritten beyond what the result says.
  Unstuffed (*unstuff)(Bytes data, uint8_t* out);

  // Progressive scans, with the same padding and results as decode_spans: the first DC coefficients
  // of `mcus` MCUs, [mcus][blocks of an MCU]; the first bits of AC coefficients; and a further bit.
  Status (*decode_dc)(DcScan& scan, int32_t mcus, int32_t* out);
  Status (*decode_band)(BandScan& scan, const BandBlocks& blocks);
  Status (*refine_band)(BandScan& scan, const BandBlocks& blocks);

  // Dequantisation and inverse DCT of two blocks of 64 row-major coefficients, which it clears, to
  // 8 rows of 16 samples.
  void (*inverse_dct)(int16_t* left, int16_t* right, const int16_t* quant, uint8_t* out,
                      size_t stride);
  // Triangle filters: in[-1..n] -> out[0..2n); a row and its neighbour above (bias 1) or below
  // (bias 2) -> out[0..n); both -> out[0..2n). They read and write up to kRowPadding beyond.
  void (*upsample_h2)(const uint8_t* in, uint8_t* out, int n);
  void (*upsample_v2)(const uint8_t* near, const uint8_t* far, uint8_t* out, int n, int bias);
  void (*upsample_h2v2)(const uint8_t* near, const uint8_t* far, uint8_t* out, int n);
  // YCbCr to RGB. Reads n samples and up to kRowPadding beyond; writes lines that begin every
  // `line` bytes of `out`, up to the next multiple of kLineUnit.
  void (*convert_ycc)(const uint8_t* const in[3], uint8_t* out, size_t line, int n);

  // Horizontal pass of a resize, by [loads - 1][pairs - 1], and for all other taps.
  ColumnKernel columns_near[2][3], columns_far;
  // Vertical pass, by the number of pairs; the first for any number. `bytes` is at least kLineUnit.
  void (*rows[4])(const RowPair* support, int32_t pairs, uint8_t* out, size_t bytes);

  void (*blend)(uint8_t* bytes, const uint8_t* from, size_t size, float factor);
  void (*make_grey)(const uint8_t* pixels, size_t count, uint8_t* grey);
  void (*interleave)(const Planar& from, uint8_t* out, ptrdiff_t stride);
  void (*deinterleave)(const uint8_t* in, size_t stride, const Planar& to);
  uint32_t (*update_crc32c)(uint32_t crc, const uint8_t* data, size_t size);

  // The checksum of PNG chunks.
  uint32_t (*update_crc32)(uint32_t crc, const uint8_t* data, size_t size);
  // Reverses a filter of PNG, from 0 to 4, for `bytes` of a row whose pixels have `size` bytes.
  // `above` and `out` have kRowPadding bytes behind them, which may be read and written.
  void (*unfilter)(int filter, const uint8_t* in, const uint8_t* above, uint8_t* out, size_t bytes,
                   size_t size);

  // Operations on the levels of bytes: replaces them by the entries of a table; keeps the bits of
  // `mask`; inverts those from `first` on; adds to those up to `last`, and clips.
  void (*map_levels)(uint8_t* bytes, size_t size, const uint8_t* table);
  void (*mask_levels)(uint8_t* bytes, size_t size, uint8_t mask);
  void (*solarize_from)(uint8_t* bytes, size_t size, uint8_t first);
  void (*add_up_to)(uint8_t* bytes, size_t size, int add, uint8_t last);
  // The least and the most of each channel of RGB pixels.
  void (*find_levels)(const uint8_t* pixels, size_t count, uint8_t least[3], uint8_t most[3]);
  // Adds to the hues of pixels, whose channels lie apart, up to the next multiple of kLineUnit.
  void (*turn_hue)(uint8_t* reds, uint8_t* greens, uint8_t* blues, size_t count, uint8_t turn);
  // Smooths `size` bytes of an RGB row. All rows have a pixel before and behind; `sums` has room
  // for size + 6.
  void (*smooth_row)(const uint8_t* above, const uint8_t* here, const uint8_t* below,
                     uint16_t* sums, uint8_t* out, size_t size);
  // Mirrors a row of RGB pixels. One byte behind `in` is read.
  void (*reverse_row)(const uint8_t* in, uint8_t* out, size_t count);

  // A row of a transformed picture, by WarpFilter; and one of nearest pixels in fixed point.
  void (*warp_row[3])(const Warp& warp, int32_t y, uint8_t* out, int32_t width);
  void (*warp_fixed)(const Warp& warp, FixedPlace place, uint8_t* out, int32_t width);

  // Draws three random words for each of `count` counters, as a pure function.
  void (*draw_noise)(uint64_t counter, size_t count, uint64_t key, uint32_t* words);
  // The numbers below which a normal variable lies with a probability of (word + 0.5) / 2^32, with
  // an error below 1e-6.
  void (*make_normals)(const uint32_t* words, size_t count, float* out);

  // Sums of 2 * radius + 1 pixels around each, for a radius up to 3; sums of lines.
  void (*sum_line)(const uint8_t* in, size_t size, int radius, uint32_t* sums);
  void (*add_line)(const uint8_t* in, size_t size, uint32_t* sums);
  void (*move_sums)(const uint8_t* add, const uint8_t* subtract, size_t size, uint32_t* sums);
  // Weighted sums of a box and of the pixels beyond it, rounded to bytes; weights are of 2^24.
  void (*weigh_box)(const uint32_t* sums, const uint8_t* before, const uint8_t* after,
                    uint32_t middle, uint32_t far, uint8_t* out, size_t size);
  // Weighted sums of an odd number of lines, with symmetric weights; levels to floats, and back to
  // the nearest one.
  void (*weigh_lines)(const float* const* lines, const float* weights, int count, float* out,
                      size_t size);
  void (*widen_levels)(const uint8_t* in, float* out, size_t size);
  void (*round_levels)(const float* in, uint8_t* out, size_t size);
};

// The fastest kernels for this CPU.
const Kernels& kernels();

// For tests: chooses the portable kernels even where the fast ones would run.
void force_portable(bool portable);

// The tables that they choose from: portable kernels run on every CPU of the architecture, fast
// ones need AVX2, FMA, BMI, BMI2 and PCLMULQDQ on x86-64, the CRC instructions on aarch64.
extern const Kernels kPortableKernels, kFastKernels;

}  // namespace headrace
