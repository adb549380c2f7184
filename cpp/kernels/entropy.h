// Entropy decoding of baseline JPEG (ITU-T T.81): bits in, quantised coefficients out.
//
// An MCU is a sequence of blocks (A.2). A block is coded (F.2.2) as
//   - a DC symbol SSSS (F.2.2.1): the SSSS bits behind it, sign-extended by EXTEND (figure F.12),
//     are the difference from the DC coefficient of the component's previous block;
//   - AC symbols RRRRSSSS (F.2.2.2) in zigzag order (A.3.6): RRRR zeros, then a coefficient of SSSS
//     bits. 0xF0 (ZRL) means 16 zeros; 0x00 (EOB) ends the block, as do 0x10 to 0xE0 in libjpeg. A
//     block whose coefficient 63 is coded has no EOB.
// Codes have 1 to 16 bits (annex C), values at most 15. unstuff() has removed the zero byte stuffed
// behind each 0xFF (F.1.2.3).
//
// Lookup. The next kLookupBits bits select an AcEntry (jpeg_huffman.h): up to two whole symbols
// with their values, and an EOB behind them. The result is
//   - inside: all symbols lie inside the block. Two stores and a shift, and no branch depends on
//     the number of symbols. This is the path that matters;
//   - last: the symbols reach the end of the block. decode_last() ends it and begins the next one;
//   - too_long: code and value need more bits. decode_long() finds the symbol as DECODE (F.2.2.3).
//
// Bit budget. A word is loaded from the byte of the current bit and shifted by up to 7 bits: at
// least kLoadedBits = 57 bits are valid, enough for five lookups. decode_rare() leaves three:
//   - a block begins after at most max(kLookupBits, kValueBits) bits of a word, so that a DC symbol
//     of any length is there. The word is reloaded before the symbol is dropped, which takes at
//     most kDcLookupBits + kValueBits;
//   - behind a code that is longer than its lookup, the word is reloaded.
//
// Spans. Two spans of MCUs are decoded in one loop: a lookup has to wait for the one before it, and
// the other span uses that time.
//
// Damage. Whatever the bits are, the index of a coefficient is at most 63. A span that reads beyond
// its end is noticed at the end of the block, less than kSpanPadding bytes later.
#pragma once

#include <algorithm>

#include "../jpeg_entropy.h"
#include "vector.h"

namespace headrace {
namespace {

constexpr int kLoadedBits = 57, kCodeBits = 16, kValueBits = 15;

HEADRACE_INLINE uint64_t load_big_endian(const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
  return __builtin_bswap64(word);
}

// The bits of one span, in registers.
struct BitReader {
  uint64_t bits;      // the next bits, left-aligned
  uint64_t position;  // of the first of them
};

HEADRACE_INLINE void refill(BitReader& reader, const uint8_t* data) {
  reader.bits = load_big_endian(data + (reader.position >> 3)) << (reader.position & 7);
}

HEADRACE_INLINE void drop(BitReader& reader, uint32_t count) {
  reader.bits <<= count & 63;
  reader.position += count;
}

// EXTEND of the first `size` of `bits`; size may be 0.
HEADRACE_INLINE int32_t extend(uint64_t bits, int size) {
  const auto negative = uint64_t(~(int64_t(bits) >> 63));
  const uint64_t magnitude = (bits ^ negative) >> 1 >> (~size & 63);
  return int32_t((magnitude ^ negative) - negative);
}

// DECODE: the next symbol and the length of its code; -1 if no code matches.
__attribute__((noinline)) int find_symbol(const HuffmanCodes& codes, uint64_t bits, int& length) {
  const uint32_t code = uint32_t(bits >> 48);
  for (length = 1; length <= 16; ++length)
    if (code < codes.limit[length])
      return codes.symbols[uint8_t(int32_t(code >> (16 - length)) + codes.symbol_offset[length])];
  return -1;
}

// What is needed once per block, apart from Cursor, whose members must stay in registers.
struct Progress {
  Span* span = nullptr;
  const McuLayout::Block* next = nullptr;
  ptrdiff_t step =
      0;  // from block to block; 0 while blocks are skipped: one scratch block takes all
  int blocks_left = 0;
};

// What is needed for every symbol.
struct Cursor {
  BitReader reader;
  const AcTable* table;
  int16_t* block;
  size_t index;  // zigzag index of the last coefficient
};

struct Queue {
  const McuLayout* layout;
  const uint8_t* data;
  Span *next, *end;
  int16_t scratch[kBlockSize] = {};
};

enum class Step : int32_t {
  span_done = int32_t(Status::ok),
  corrupt = int32_t(Status::corrupt),
  truncated = int32_t(Status::truncated),
  go_on = -1
};

static_assert(kLoadedBits - std::max(kLookupBits, kValueBits) >= kCodeBits + kValueBits);
static_assert(kLoadedBits - (kDcLookupBits + kValueBits) >= 3 * kLookupBits);
HEADRACE_INLINE Step begin_block(Cursor& cursor, Progress& progress, const uint8_t* data) {
  const McuLayout::Block& block = *progress.next;
  progress.next = block.next;
  cursor.table = block.ac;
  cursor.index = 0;
  uint64_t bits = cursor.reader.bits;
  const DcEntry& entry = block.dc->lookup[bits >> (64 - kDcLookupBits)];
  int length = entry.length, size = entry.size;
  // intentional: reload here, where the load does not wait for the entry.
  refill(cursor.reader, data);
  if (__builtin_expect(length == 0, 0)) {
    size = find_symbol(block.dc->codes, bits, length);
    if (size < 0) return Step::corrupt;
    bits <<= length;
    cursor.reader.position += uint64_t(length);
    refill(cursor.reader, data);
    length = 0;
  }
  drop(cursor.reader, uint32_t(length + size));
  const auto difference = uint32_t(extend(bits << length, size));
  int32_t& predictor = progress.span->predictors[block.component];
  predictor = int32_t(uint32_t(predictor) + difference);
  cursor.block[0] = int16_t(predictor);
  return Step::go_on;
}

HEADRACE_INLINE void begin_kept(Cursor& cursor, Progress& progress, const McuLayout& layout) {
  progress.blocks_left = progress.span->keep * layout.count;
  progress.step = kBlockSize;
  cursor.block = progress.span->coefficients;
}

HEADRACE_INLINE Step begin_span(Cursor& cursor, Progress& progress, Queue& queue) {
  Span* span = queue.next++;
  progress.span = span;
  progress.next = queue.layout->blocks;
  progress.blocks_left = span->skip * queue.layout->count;
  progress.step = 0;
  cursor.reader.position = span->bit;
  refill(cursor.reader, queue.data);
  cursor.block = queue.scratch;
  if (progress.blocks_left == 0) begin_kept(cursor, progress, *queue.layout);
  return begin_block(cursor, progress, queue.data);
}

HEADRACE_INLINE Step end_block(Cursor& cursor, Progress& progress, const uint8_t* data) {
  if (cursor.reader.position > progress.span->end) return Step::truncated;
  cursor.block += progress.step;
  return --progress.blocks_left == 0 ? Step::span_done : begin_block(cursor, progress, data);
}

// Continues with the blocks to keep, or with the next span if there is one.
HEADRACE_INLINE Step end_span(Cursor& cursor, Progress& progress, Queue& queue) {
  Span& span = *progress.span;
  if (progress.step == 0 && span.keep != 0) {
    begin_kept(cursor, progress, *queue.layout);
    return begin_block(cursor, progress, queue.data);
  }
  span.bit = cursor.reader.position;
  return queue.next != queue.end ? begin_span(cursor, progress, queue) : Step::span_done;
}

HEADRACE_INLINE int16_t& coefficient(const Cursor& cursor, size_t index) {
  return cursor.block[cursor.table->natural_order[index]];
}

// Stores a coefficient. The block ends with coefficient 63.
HEADRACE_INLINE Step put(Cursor& cursor, Progress& progress, const uint8_t* data, int advance,
                         int32_t value) {
  cursor.index += size_t(advance);
  if (cursor.index > 63) return Step::corrupt;
  coefficient(cursor, cursor.index) = int16_t(value);
  return cursor.index < 63 ? Step::go_on : end_block(cursor, progress, data);
}

HEADRACE_INLINE size_t lookup_index(const Cursor& cursor) {
  return cursor.reader.bits >> (64 - kLookupBits);
}

// One symbol of any length.
HEADRACE_INLINE Step decode_long(Cursor& cursor, Progress& progress, const uint8_t* data) {
  const AcEntry entry = cursor.table->lookup[lookup_index(cursor)];
  int length = entry.first_advance, symbol = uint8_t(entry.value);
  if (length == 0) {
    refill(cursor.reader, data);
    symbol = find_symbol(cursor.table->codes, cursor.reader.bits, length);
    if (symbol < 0) return Step::corrupt;
  }
  cursor.reader.position += uint64_t(length);
  refill(cursor.reader, data);
  const int size = symbol & 15, run = symbol >> 4;
  if (size == 0 && run != 15) return end_block(cursor, progress, data);
  const int32_t value = extend(cursor.reader.bits, size);
  drop(cursor.reader, uint32_t(size));
  return put(cursor, progress, data, run + 1, value);
}

// Symbols up to the end of the block.
HEADRACE_INLINE Step decode_last(Cursor& cursor, Progress& progress, const uint8_t* data) {
  const size_t at = lookup_index(cursor);
  const AcEntry& entry = cursor.table->lookup[at];
  refill(cursor.reader, data);
  // The index of the last coefficient before an EOB. Without an EOB the subtraction wraps, far
  // beyond 63. Coefficient 63 has no EOB behind it: what follows belongs to the next block, so only
  // the first symbol is used.
  const size_t last = cursor.index + entry.advance - kEndOfBlock;
  if (last >= 63) {
    drop(cursor.reader, cursor.table->first_length[at]);
    return put(cursor, progress, data, entry.first_advance, entry.first_value);
  }
  // Added, not stored: a missing symbol has the value 0 and the index of the coefficient before.
  coefficient(cursor, cursor.index + entry.first_advance) += entry.first_value;
  coefficient(cursor, last) += entry.value;
  drop(cursor.reader, cursor.table->length[at]);
  return end_block(cursor, progress, data);
}

enum class Lookup { inside, last, too_long };

// Changes nothing unless the result is `inside`.
// intentional: `last` and `too_long` are told apart here instead of once in decode_rare(). Each
// lookup then has a branch of its own for either, and the CPU mispredicts once instead of twice.
HEADRACE_INLINE Lookup decode_short(Cursor& cursor) {
  const size_t at = lookup_index(cursor);
  // intentional: one load for each member is cheaper than taking a word apart.
  const AcEntry& entry = cursor.table->lookup[at];
  const size_t advance = entry.advance;
  const size_t first = cursor.index + entry.first_advance;
  if (__builtin_expect(advance >= kLongSymbol, 0)) return Lookup::too_long;
  const size_t index = cursor.index + advance;
  if (__builtin_expect(index >= 63, 0)) return Lookup::last;
  cursor.index = index;
  const uint8_t length = cursor.table->length[at];
  const int16_t first_value = entry.first_value, value = entry.value;
  coefficient(cursor, index) = value;
  coefficient(cursor, first) = first_value;  // second: a lone symbol has a zero in the same place
  drop(cursor.reader, length);
  return Lookup::inside;
}

// What decode_short() leaves. Continues with the next span when one is done.
HEADRACE_INLINE Step decode_rare(Lookup found, Cursor& cursor, Progress& progress, Queue& queue) {
  const Step step = found == Lookup::too_long ? decode_long(cursor, progress, queue.data)
                                              : decode_last(cursor, progress, queue.data);
  return step == Step::span_done ? end_span(cursor, progress, queue) : step;
}

// intentional: the five lookups are written out. A loop around them would add a branch that is hard
// to predict, since its count is not in step with the blocks.
static_assert(5 * kLookupBits <= kLoadedBits);
HEADRACE_INLINE Status run_one(Cursor cursor, Progress& progress, Queue& queue) {
  const uint8_t* const data = queue.data;
  Lookup found;
  const auto inside = [&]() HEADRACE_INLINE_LAMBDA {
    return (found = decode_short(cursor)) == Lookup::inside;
  };
  for (;;) {
    refill(cursor.reader, data);
    if (!(inside() && inside())) goto rare;
  three:
    if (inside() && inside() && inside()) continue;
  rare:
    const Step step = decode_rare(found, cursor, progress, queue);
    if (step != Step::go_on) return Status(step);
    goto three;
  }
}

HEADRACE_INLINE Status run_two(Cursor a, Cursor b, Progress& progress_a, Progress& progress_b,
                               Queue& queue) {
  const uint8_t* const data = queue.data;
  Lookup found_a, found_b;
  const auto inside = [&]() HEADRACE_INLINE_LAMBDA {
    return (found_a = decode_short(a)) == Lookup::inside &&
           (found_b = decode_short(b)) == Lookup::inside;
  };
  for (;;) {
    refill(a.reader, data);
    refill(b.reader, data);
    if (!(inside() && inside())) goto rare;
  three:
    if (inside() && inside() && inside()) continue;
  rare:
    if (found_a != Lookup::inside) {
      const Step step = decode_rare(found_a, a, progress_a, queue);
      if (step == Step::span_done) return run_one(b, progress_b, queue);
      if (step != Step::go_on) return Status(step);
      refill(b.reader, data);
    } else {
      const Step step = decode_rare(found_b, b, progress_b, queue);
      if (step == Step::span_done) return run_one(a, progress_a, queue);
      if (step != Step::go_on) return Status(step);
      refill(a.reader, data);
    }
    goto three;
  }
}

Status decode_spans(const McuLayout& layout, const uint8_t* data, Span* spans, int count) {
  if (count == 0) return Status::ok;
  Queue queue{&layout, data, spans, spans + count};
  Cursor a, b;
  Progress progress_a, progress_b;
  Step step = begin_span(a, progress_a, queue);
  if (step != Step::go_on) return Status(step);
  if (count == 1) return run_one(a, progress_a, queue);
  step = begin_span(b, progress_b, queue);
  if (step != Step::go_on) return Status(step);
  return run_two(a, b, progress_a, progress_b, queue);
}

// Copies what lies before the next 0xFF, and up to 31 bytes more. Returns how much lies before it.
HEADRACE_INLINE size_t copy_plain(const uint8_t* from, const uint8_t* end, uint8_t* to) {
  size_t count = 0;
  for (; size_t(end - from) - count >= kVectorBytes; count += kVectorBytes) {
    const U8 bytes = load<uint8_t>(from + count);
    store(to + count, bytes);
    const size_t found = first_set(bytes == splat(uint8_t(0xFF)));
    if (found < kVectorBytes) return count + found;
  }
  for (; from + count != end && from[count] != 0xFF; ++count) to[count] = from[count];
  return count;
}

Unstuffed unstuff(Bytes data, uint8_t* out) {
  const uint8_t *from = data.data, *end = data.data + data.size;
  uint8_t* to = out;
  for (;;) {
    const size_t plain = copy_plain(from, end, to);
    from += plain;
    to += plain;
    if (end - from < 2 || from[1] != 0) break;  // the end, or a marker
    *to++ = 0xFF;
    from += 2;
  }
  return {size_t(from - data.data), size_t(to - out)};
}

}  // namespace
}  // namespace headrace
