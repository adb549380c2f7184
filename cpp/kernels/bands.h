// Entropy decoding of progressive JPEG (ITU-T T.81, annex G): bits in, quantised coefficients out.
//
// A coefficient arrives in several scans. Its first scan gives its bits from `low` on (G.1.2.1 for
// DC, G.1.2.2 for AC), each refining scan one bit more (G.1.2.3). An AC scan codes one band of
// zigzag indices of one component, block by block:
//   - first scan: symbols RRRRSSSS as in baseline (entropy.h), but RRRR0000 with RRRR < 15 is EOBn
//     (table G.1): RRRR more bits say in how many blocks the band has ended, this one included;
//   - refining scan: SSSS is 0 or 1. RRRR counts only coefficients that were zero so far. Each one
//     that is passed and was not zero has a correction bit behind the symbol: 1 adds the new bit to
//     its magnitude. So has each one behind the end of the band.
//
// Which coefficients are not zero is kept as 64 bits per block, by zigzag index. Thus the zeros to
// skip are found in a word, and correction bits are counted instead of visited: a block outside the
// region costs only its symbols. Inside, the correction bits of a block are collected and applied
// at its end.
//
// Bit budget. After refill() at least kRefilledBits = 56 bits are valid. A lookup takes at most
// kBandLookupBits of them, which leaves kCorrectionBits: enough for a code of 16 bits with a value
// of 15, or for so many correction bits. More of these, or some behind a long code, need a refill.
//
// Damage. Whatever the bits are, zigzag indices are at most 63. A block reads at most 63 symbols of
// 31 bits and 63 correction bits: 253 bytes, less than kSpanPadding, before its end is checked.
#pragma once

#include "../jpeg_bands.h"
#include "entropy.h"

namespace headrace {
namespace {

constexpr int kRefilledBits = 56;
constexpr int kCorrectionBits = kRefilledBits - kBandLookupBits;
static_assert(kCorrectionBits >= kCodeBits + kValueBits);

// Reads ahead by whole bytes, so that a load never waits for the symbol before it.
class BitQueue {
 public:
  explicit BitQueue(const BitSpan& span) { move_to(span, span.bit); }

  HEADRACE_INLINE void refill() {
    bits_ |= load_big_endian(next_) >> count_;
    next_ += (63 - count_) >> 3;
    count_ |= kRefilledBits;
  }
  HEADRACE_INLINE uint64_t bits() const { return bits_; }  // left-aligned
  HEADRACE_INLINE void drop(uint32_t count) {
    bits_ <<= count & 63;
    count_ -= count;
  }
  HEADRACE_INLINE uint64_t take(uint32_t count) {  // at most 63
    const uint64_t taken = bits_ >> 1 >> (63 - count);
    drop(count);
    return taken;
  }
  HEADRACE_INLINE uint64_t position(const BitSpan& span) const {
    return uint64_t(next_ - span.data) * 8 - count_;
  }
  HEADRACE_INLINE void move_to(const BitSpan& span, uint64_t bit) {
    next_ = span.data + (bit >> 3);
    bits_ = 0;
    count_ = 0;
    refill();
    drop(uint32_t(bit & 7));
  }

 private:
  uint64_t bits_;
  const uint8_t* next_;
  uint32_t count_;
};

// The verdict on an impossible code: beyond the end, it was read from the padding.
HEADRACE_INLINE Status refuse(const BitQueue& queue, const BitSpan& span) {
  return queue.position(span) > span.end ? Status::truncated : Status::corrupt;
}

Status decode_dc(DcScan& scan, int32_t mcus, int32_t* out) {
  BitQueue queue(scan.span);
  for (int32_t mcu = 0; mcu < mcus; ++mcu) {
    for (int b = 0; b < scan.blocks; ++b) {
      queue.refill();
      const DcTable& table = *scan.tables[b];
      const DcEntry entry = table.lookup[queue.bits() >> (64 - kDcLookupBits)];
      int length = entry.length, size = entry.size;
      if (__builtin_expect(length == 0, 0)) {
        size = find_symbol(table.codes, queue.bits(), length);
        if (size < 0) return refuse(queue, scan.span);
      }
      queue.drop(uint32_t(length));
      int32_t& predictor = scan.predictors[scan.component[b]];
      if (__builtin_add_overflow(predictor, extend(queue.bits(), size), &predictor))
        return refuse(queue, scan.span);
      queue.drop(uint32_t(size));
      *out++ = predictor;
    }
    if (queue.position(scan.span) > scan.span.end) return Status::truncated;
  }
  scan.span.bit = queue.position(scan.span);
  return Status::ok;
}

HEADRACE_INLINE BandEntry find_entry(const BandTable& table, uint64_t bits) {
  return table.lookup[bits >> (64 - kBandLookupBits)];
}

// Returns the entry of a symbol that is too long for a lookup, given what the lookup found and the
// bits behind that; with kLongBandSymbol if it is impossible.
__attribute__((noinline)) BandEntry find_long(const BandScan& scan, BandEntry found, uint64_t bits,
                                              int max_size) {
  constexpr BandEntry kImpossible{0, kLongBandSymbol, 0};
  int length = 0, symbol = found.value;
  if (found.length == 0) {
    symbol = find_symbol(scan.table.codes, bits, length);
    if (symbol < 0) return kImpossible;
    bits <<= length;
  }
  const int size = symbol & 15, run = symbol >> 4;
  if (size > max_size) return kImpossible;
  if (size > 0) {
    const int32_t value = extend(bits, size) * (1 << scan.low);
    return {uint8_t(length + size), uint8_t(run + 1), int16_t(value)};
  }
  if (run == 15) return {uint8_t(length), kSixteenZeros, 0};
  const int blocks = (1 << run) + int(bits >> 1 >> (63 - run));
  return {uint8_t(length + run), kEndOfBand, int16_t(blocks)};
}

Status decode_band(BandScan& scan, const BandBlocks& blocks) {
  const BandTable& table = scan.table;
  const size_t last = size_t(scan.last);
  int16_t scratch[kBlockSize];  // never read
  const ptrdiff_t step = blocks.coefficients ? kBlockSize : 0;
  int16_t* const coefficients = blocks.coefficients ? blocks.coefficients : scratch;
  uint32_t end_run = scan.end_run;
  BitQueue queue(scan.span);
  for (int32_t i = 0; i < blocks.count; ++i) {
    if (end_run > 0) {
      const auto skipped = std::min(end_run, uint32_t(blocks.count - i));
      end_run -= skipped;
      i += int32_t(skipped) - 1;
      continue;
    }
    int16_t* block = coefficients + i * step;
    uint64_t nonzero = 0;
    size_t index = size_t(scan.first) - 1;
    for (;;) {
      queue.refill();
      BandEntry entry = find_entry(table, queue.bits());
      queue.drop(entry.length);
      if (entry.advance >= kEndOfBand) {
        if (__builtin_expect(entry.advance == kLongBandSymbol, 0)) {
          entry = find_long(scan, entry, queue.bits(), 15 - scan.low);
          if (entry.advance == kLongBandSymbol) return refuse(queue, scan.span);
          queue.drop(entry.length);
        }
        if (entry.advance == kEndOfBand) {
          end_run = uint32_t(entry.value) - 1;
          break;
        }
        if (entry.advance == kSixteenZeros) {
          index += 16;
          if (index >= last) return refuse(queue, scan.span);
          continue;
        }
      }
      index += entry.advance;
      if (index > last) return refuse(queue, scan.span);
      block[table.natural_order[index]] = entry.value;
      nonzero |= uint64_t(1) << index;
      if (index == last) break;
    }
    blocks.nonzero[i] |= nonzero;
    if (queue.position(scan.span) > scan.span.end) return Status::truncated;
  }
  scan.end_run = end_run;
  scan.span.bit = queue.position(scan.span);
  return Status::ok;
}

// Adds the correction bits, of which `bits` has the last in its lowest place, to the coefficients.
HEADRACE_INLINE void apply_corrections(const BandScan& scan, uint64_t corrected, uint64_t bits,
                                       int count, int16_t* block) {
  bits <<= (64 - count) & 63;
  for (; corrected != 0; corrected &= corrected - 1, bits <<= 1) {
    int16_t& coefficient = block[scan.table.natural_order[__builtin_ctzll(corrected)]];
    const int one = ((coefficient >> 15) | 1) * (1 << scan.low);
    coefficient = int16_t(coefficient + (one & int(int64_t(bits) >> 63)));
  }
}

// Clears the lowest `count` of the bits that are set. Few are cleared without a branch, which would
// be mispredicted.
HEADRACE_INLINE uint64_t skip_ones(uint64_t bits, uint32_t count) {
  const uint32_t odd = count & 1, pair = count >> 1 & 1;
  bits &= bits - odd;
  bits &= bits - pair;
  bits &= bits - pair;
  for (; count >= 4; count -= 4)
    for (int i = 0; i < 4; ++i) bits &= bits - 1;
  return bits;
}

template <bool wanted>
HEADRACE_INLINE Status refine_blocks(BandScan& scan, const BandBlocks& blocks) {
  const BandTable& table = scan.table;
  const uint64_t band = ~uint64_t(0) >> (63 - scan.last) & ~uint64_t(0) << scan.first;
  uint32_t end_run = scan.end_run;
  BitQueue queue(scan.span);
  for (int32_t i = 0; i < blocks.count; ++i) {
    int16_t* block = wanted ? blocks.coefficients + i * kBlockSize : nullptr;
    const uint64_t nonzero = blocks.nonzero[i] & band, zero = ~nonzero;
    uint64_t rest = band, added = 0, corrections = 0;
    // Takes a bit for each of `passed`.
    const auto correct = [&](uint64_t passed) HEADRACE_INLINE_LAMBDA {
      auto count = uint32_t(__builtin_popcountll(passed));
      if (__builtin_expect(count > kCorrectionBits, 0)) {
        const uint64_t bits = queue.take(kCorrectionBits);
        if (wanted) corrections = corrections << kCorrectionBits | bits;
        queue.refill();
        count -= kCorrectionBits;
      }
      const uint64_t bits = queue.take(count);
      if (wanted) corrections = corrections << count | bits;
    };
    queue.refill();
    while (end_run == 0) {
      BandEntry entry = find_entry(table, queue.bits());
      queue.drop(entry.length);
      if (entry.advance >= kEndOfBand) {
        if (__builtin_expect(entry.advance == kLongBandSymbol, 0)) {
          entry = find_long(scan, entry, queue.bits(), 1);
          if (entry.advance == kLongBandSymbol) return refuse(queue, scan.span);
          queue.drop(entry.length);
          queue.refill();
        }
        if (entry.advance == kEndOfBand) {
          end_run = uint32_t(entry.value);
          break;
        }
        if (entry.advance == kSixteenZeros) entry.advance = 16;
      }
      const uint64_t zeros = skip_ones(rest & zero, entry.advance - 1u);
      if (zeros == 0) return refuse(queue, scan.span);
      const uint64_t found = zeros & -zeros;
      correct(rest & nonzero & (found - 1));
      queue.refill();
      if (entry.value != 0) {
        added |= found;
        if (wanted) block[table.natural_order[__builtin_ctzll(found)]] = entry.value;
      }
      rest &= -found << 1;
      if (rest == 0) break;
    }
    if (end_run > 0) {
      correct(rest & nonzero);
      --end_run;
    }
    if (wanted) apply_corrections(scan, nonzero, corrections, __builtin_popcountll(nonzero), block);
    blocks.nonzero[i] |= added;
    if (queue.position(scan.span) > scan.span.end) return Status::truncated;
  }
  scan.end_run = end_run;
  scan.span.bit = queue.position(scan.span);
  return Status::ok;
}

Status refine_band(BandScan& scan, const BandBlocks& blocks) {
  return blocks.coefficients ? refine_blocks<true>(scan, blocks)
                             : refine_blocks<false>(scan, blocks);
}

}  // namespace
}  // namespace headrace
