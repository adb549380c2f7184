#include "jpeg_entropy.h"

#include <cstring>

#include "simd.h"

#define PENSTOCK_INLINE inline __attribute__((always_inline))

namespace penstock {
namespace {

constexpr int kSymbolsPerRefill = 5;
static_assert(kSymbolsPerRefill * kLookBits <= 56);

uint64_t load_big_endian(const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

// One span being decoded. Kept in registers as far as they go: the first group is what every
// symbol needs, the rest is touched once a block.
struct Lane {
  uint64_t bits;         // the next bits, left-aligned
  uint32_t bit_count;    // how many of them are valid
  const uint8_t* next;   // the byte that the next refill begins with
  const uint32_t* look;  // of the current block
  int16_t* block;
  uint32_t index;  // zigzag index of the last coefficient

  const HuffmanTable* ac;
  Span* span;
  uint8_t* last;
  int block_in_mcu;
  int blocks_left;
  int block_step;
};

PENSTOCK_INLINE void refill(Lane& lane) {
  lane.bits |= load_big_endian(lane.next) >> lane.bit_count;
  lane.next += (63 - lane.bit_count) >> 3;
  lane.bit_count |= 56;
}

PENSTOCK_INLINE void drop(Lane& lane, uint32_t count) {
  lane.bits <<= count & 63;
  lane.bit_count -= count;
}

// The next `size` bits as the standard's signed value; size may be 0.
PENSTOCK_INLINE int32_t receive_extend(Lane& lane, int size) {
  const uint32_t bits = uint32_t((lane.bits >> 1) >> (63 - size));
  const int32_t negative = int32_t(~(int64_t(lane.bits) >> 63));
  drop(lane, size);
  return int32_t(bits) + (negative & (1 - (1 << size)));
}

// A symbol whose code is longer than kLookBits; -1 if there is none.
int long_code(const HuffmanTable& table, uint64_t bits, int& length) {
  const uint32_t code = uint32_t(bits >> 48);
  for (length = kLookBits + 1; length <= 16; ++length)
    if (code < table.limit[length])
      return table.symbols[uint8_t(int32_t(code >> (16 - length)) + table.symbol_offset[length])];
  return -1;
}

PENSTOCK_INLINE bool decode_dc(Lane& lane, const McuLayout::Block& block) {
  refill(lane);
  const uint32_t entry = block.dc->look[lane.bits >> (64 - kLookBits)];
  int length = int(entry & 0xFF), size = int(entry >> 8 & 0xFF);
  if (length == 0) {
    size = long_code(*block.dc, lane.bits, length);
    if (size < 0) return false;
  }
  drop(lane, length);
  const uint32_t difference = uint32_t(receive_extend(lane, size));
  int32_t& predictor = lane.span->predictors[block.component];
  predictor = int32_t(uint32_t(predictor) + difference);
  lane.block[0] = int16_t(predictor);
  refill(lane);
  return true;
}

PENSTOCK_INLINE bool begin_block(Lane& lane, const McuLayout& layout) {
  const McuLayout::Block& block = layout.blocks[lane.block_in_mcu];
  lane.ac = block.ac;
  lane.look = block.ac->look;
  lane.index = 0;
  return decode_dc(lane, block);
}

// Skipped blocks all go to one scratch block.
PENSTOCK_INLINE void begin_kept(Lane& lane, const McuLayout& layout) {
  lane.blocks_left = lane.span->keep * layout.count;
  lane.block = lane.span->coefficients;
  lane.last = lane.span->last;
  lane.block_step = 1;
}

PENSTOCK_INLINE bool begin_span(Lane& lane, const McuLayout& layout, Span* span, int16_t* scratch,
                                uint8_t* scratch_last) {
  lane.span = span;
  lane.bits = 0;
  lane.bit_count = 0;
  lane.next = span->data + (span->bit >> 3);
  refill(lane);
  drop(lane, span->bit & 7);
  lane.block_in_mcu = 0;
  lane.blocks_left = span->skip * layout.count;
  lane.block = scratch;
  lane.last = scratch_last;
  lane.block_step = 0;
  if (lane.blocks_left == 0) begin_kept(lane, layout);
  return begin_block(lane, layout);
}

enum class Step { go_on, span_done, corrupt, truncated };

PENSTOCK_INLINE Step end_block(Lane& lane, const McuLayout& layout, uint32_t last) {
  *lane.last = uint8_t(last);
  // intentional: `next` runs up to 8 bytes ahead of the bits used; span_done checks to the bit.
  if (lane.next > lane.span->end + 8) return Step::truncated;
  lane.block += lane.block_step * kBlockSize;
  lane.last += lane.block_step;
  if (++lane.block_in_mcu == layout.count) lane.block_in_mcu = 0;
  if (--lane.blocks_left == 0) {
    if (lane.block_step != 0 || lane.span->keep == 0) {
      Span& span = *lane.span;
      span.bit = uint64_t(lane.next - span.data) * 8 - lane.bit_count;
      return span.bit > uint64_t(span.end - span.data) * 8 ? Step::truncated : Step::span_done;
    }
    begin_kept(lane, layout);
  }
  return begin_block(lane, layout) ? Step::go_on : Step::corrupt;
}

// Everything but a short symbol inside a block.
PENSTOCK_INLINE Step decode_rare(Lane& lane, const McuLayout& layout, uint32_t entry) {
  if (lane.index >= kLongSymbol) {
    lane.index -= kLongSymbol;
    refill(lane);
    int length = int(entry >> 24), symbol = int(entry >> 16 & 0xFF);
    if (length == 0) symbol = long_code(*lane.ac, lane.bits, length);
    if (symbol < 0) return Step::corrupt;
    drop(lane, length);
    const int size = symbol & 15, run = symbol >> 4;
    if (size == 0 && run != 15) return end_block(lane, layout, lane.index);
    const int32_t value = receive_extend(lane, size);
    lane.index += run + 1;
    if (lane.index > 63) return Step::corrupt;
    lane.block[kNaturalOrder[lane.index]] = int16_t(value);
    refill(lane);
    return lane.index < 63 ? Step::go_on : end_block(lane, layout, 63);
  }
  drop(lane, entry & 0xFF);
  if (lane.index >= kEndOfBlock) return end_block(lane, layout, lane.index - kEndOfBlock);
  if (lane.index > 63) return Step::corrupt;
  lane.block[63] = int16_t(entry >> 16);
  return end_block(lane, layout, 63);
}

PENSTOCK_INLINE Step decode_symbol(Lane& lane, const McuLayout& layout) {
  const uint32_t entry = lane.look[lane.bits >> (64 - kLookBits)];
  lane.index += entry >> 8 & 0xFF;
  if (__builtin_expect(lane.index >= 63, 0)) return decode_rare(lane, layout, entry);
  lane.block[kNaturalOrder[lane.index]] = int16_t(entry >> 16);
  drop(lane, entry & 0xFF);
  return Step::go_on;
}

struct Queue {
  Span* next;
  Span* end;
};

// Decodes with `width` lanes until the spans run out; leaves the lanes that are not finished.
template <int width>
PENSTOCK_INLINE Status run_lanes(const McuLayout& layout, Lane* lanes, Queue& queue,
                                 int16_t* scratch, uint8_t* scratch_last, int& finished) {
  Lane local[width];
  for (int i = 0; i < width; ++i) local[i] = lanes[i];
  for (;;) {
#pragma GCC unroll 8
    for (int i = 0; i < width; ++i) refill(local[i]);
#pragma GCC unroll 8
    for (int symbol = 0; symbol < kSymbolsPerRefill; ++symbol) {
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) {
        const Step step = decode_symbol(local[i], layout);
        if (__builtin_expect(step != Step::go_on, 0)) {
          if (step == Step::corrupt) return Status::corrupt;
          if (step == Step::truncated) return Status::truncated;
          if (queue.next == queue.end) {
            finished = i;
            for (int j = 0; j < width; ++j) lanes[j] = local[j];
            return Status::ok;
          }
          if (!begin_span(local[i], layout, queue.next++, scratch, scratch_last))
            return Status::corrupt;
        }
      }
    }
  }
}

PENSTOCK_INLINE Status decode_all(const McuLayout& layout, Span* spans, int count) {
  int16_t scratch[kBlockSize];
  uint8_t scratch_last = 0;
  Queue queue{spans, spans + count};
  Lane lanes[2];
  int active = 0, finished = 0;
  while (active < 2 && queue.next != queue.end)
    if (!begin_span(lanes[active++], layout, queue.next++, scratch, &scratch_last))
      return Status::corrupt;
  if (active == 2) {
    const Status status = run_lanes<2>(layout, lanes, queue, scratch, &scratch_last, finished);
    if (status != Status::ok) return status;
    lanes[0] = lanes[1 - finished];
  }
  return run_lanes<1>(layout, lanes, queue, scratch, &scratch_last, finished);
}

Status decode_portable(const McuLayout& layout, Span* spans, int count) {
  return decode_all(layout, spans, count);
}

#if PENSTOCK_AVX2
PENSTOCK_TARGET_AVX2 Status decode_bmi2(const McuLayout& layout, Span* spans, int count) {
  return decode_all(layout, spans, count);
}
#endif

}  // namespace

Status decode_spans(const McuLayout& layout, Span* spans, int count) {
  if (count == 0) return Status::ok;
#if PENSTOCK_AVX2
  if (use_avx2()) return decode_bmi2(layout, spans, count);
#endif
  return decode_portable(layout, spans, count);
}

Unstuffed unstuff(Bytes data, uint8_t* out) {
  Unstuffed result;
  uint8_t* to = out;
  const uint8_t *from = data.data, *end = data.data + data.size;
  while (from < end) {
    const auto* found = static_cast<const uint8_t*>(std::memchr(from, 0xFF, size_t(end - from)));
    const uint8_t* stop = found != nullptr ? found : end;
    std::memcpy(to, from, size_t(stop - from));
    to += stop - from;
    from = stop;
    if (found == nullptr) break;
    if (end - from < 2 || from[1] != 0) break;
    *to++ = 0xFF;
    from += 2;
  }
  result.read = size_t(from - data.data);
  result.written = size_t(to - out);
  return result;
}

}  // namespace penstock
