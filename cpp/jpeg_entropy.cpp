#include "jpeg_entropy.h"

#include <algorithm>
#include <cstring>

#include "simd.h"

#define HEADRACE_INLINE inline __attribute__((always_inline))

namespace headrace {
namespace {

// How many bits there are when a word was loaded, and how many a symbol with its value takes.
constexpr int kLoadedBits = 57, kCodeBits = 16, kValueBits = 15;

uint64_t load_big_endian(const uint8_t* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
  return __builtin_bswap64(word);
}

// The bits of one span, in registers.
struct Reader {
  uint64_t bits;      // the next bits, left-aligned
  uint64_t position;  // of the first of them
};

HEADRACE_INLINE void refill(Reader& reader, const uint8_t* data) {
  reader.bits = load_big_endian(data + (reader.position >> 3)) << (reader.position & 7);
}

HEADRACE_INLINE void drop(Reader& reader, uint32_t count) {
  reader.bits <<= count & 63;
  reader.position += count;
}

// The first `size` of `bits` as the standard's signed value; size may be 0.
HEADRACE_INLINE int32_t extend(uint64_t bits, int size) {
  const auto negative = uint64_t(~(int64_t(bits) >> 63));
  const uint64_t magnitude = (bits ^ negative) >> 1 >> (~size & 63);
  return int32_t((magnitude ^ negative) - negative);
}

// The next symbol, found by its code alone; -1 if there is none.
__attribute__((noinline)) int find_symbol(const HuffmanCodes& codes, uint64_t bits, int& length) {
  const uint32_t code = uint32_t(bits >> 48);
  for (length = 1; length <= 16; ++length)
    if (code < codes.limit[length])
      return codes.symbols[uint8_t(int32_t(code >> (16 - length)) + codes.symbol_offset[length])];
  return -1;
}

// What is needed once a block only, so that the registers are left to the rest.
struct Progress {
  Span* span = nullptr;
  const McuLayout::Block* next = nullptr;  // the block to come
  ptrdiff_t step = 0;  // to it; 0 while blocks are skipped: they all go to one scratch block
  int blocks_left = 0;
};

// The state of every symbol.
struct Lane {
  Reader reader;
  const AcTable* table;
  int16_t* block;
  size_t index;  // zigzag index of the last coefficient
};

struct Queue {
  const McuLayout* layout;
  const uint8_t* data;
  Span* next;
  Span* end;
  int16_t scratch[kBlockSize];
};

enum class Step { go_on, span_done, corrupt, truncated };

// Begins with the bits of a symbol of any length, and leaves those of three looks.
static_assert(kLoadedBits - std::max(kLookBits, kValueBits) >= kCodeBits + kValueBits);
static_assert(kLoadedBits - (kDcLookBits + kValueBits) >= 3 * kLookBits);
HEADRACE_INLINE Step begin_block(Lane& lane, Progress& progress, const uint8_t* data) {
  const McuLayout::Block& block = *progress.next;
  progress.next = block.next;
  lane.table = block.ac;
  lane.index = 0;
  uint64_t bits = lane.reader.bits;
  const DcEntry& entry = block.dc->look[bits >> (64 - kDcLookBits)];
  int length = entry.length, size = entry.size;
  // intentional: here, since the load need not wait for the entry.
  refill(lane.reader, data);
  if (__builtin_expect(length == 0, 0)) {
    size = find_symbol(block.dc->codes, bits, length);
    if (size < 0) return Step::corrupt;
    bits <<= length;
    lane.reader.position += uint64_t(length);
    refill(lane.reader, data);
    length = 0;
  }
  drop(lane.reader, uint32_t(length + size));
  const auto difference = uint32_t(extend(bits << length, size));
  int32_t& predictor = progress.span->predictors[block.component];
  predictor = int32_t(uint32_t(predictor) + difference);
  lane.block[0] = int16_t(predictor);
  return Step::go_on;
}

HEADRACE_INLINE void begin_kept(Lane& lane, Progress& progress, const McuLayout& layout) {
  progress.blocks_left = progress.span->keep * layout.count;
  progress.step = kBlockSize;
  lane.block = progress.span->coefficients;
}

HEADRACE_INLINE Step begin_span(Lane& lane, Progress& progress, Queue& queue) {
  Span* span = queue.next++;
  progress.span = span;
  progress.next = queue.layout->blocks;
  progress.blocks_left = span->skip * queue.layout->count;
  progress.step = 0;
  lane.reader.position = span->bit;
  refill(lane.reader, queue.data);
  lane.block = queue.scratch;
  if (progress.blocks_left == 0) begin_kept(lane, progress, *queue.layout);
  return begin_block(lane, progress, queue.data);
}

HEADRACE_INLINE Step end_block(Lane& lane, Progress& progress, const uint8_t* data) {
  if (lane.reader.position > progress.span->end) return Step::truncated;
  lane.block += progress.step;
  return --progress.blocks_left == 0 ? Step::span_done : begin_block(lane, progress, data);
}

// Goes on with the blocks to keep, or with the next span if there is one.
HEADRACE_INLINE Step end_span(Lane& lane, Progress& progress, Queue& queue) {
  Span& span = *progress.span;
  if (progress.step == 0 && span.keep != 0) {
    begin_kept(lane, progress, *queue.layout);
    return begin_block(lane, progress, queue.data);
  }
  span.bit = lane.reader.position;
  return queue.next != queue.end ? begin_span(lane, progress, queue) : Step::span_done;
}

HEADRACE_INLINE int16_t& coefficient(const Lane& lane, size_t index) {
  return lane.block[lane.table->natural_order[index]];
}

// A value behind which the block may end, for there is no room for more.
HEADRACE_INLINE Step put(Lane& lane, Progress& progress, const uint8_t* data, int advance,
                         int32_t value) {
  lane.index += size_t(advance);
  if (lane.index > 63) return Step::corrupt;
  coefficient(lane, lane.index) = int16_t(value);
  return lane.index < 63 ? Step::go_on : end_block(lane, progress, data);
}

HEADRACE_INLINE size_t look_index(const Lane& lane) { return lane.reader.bits >> (64 - kLookBits); }

// One symbol of any size.
HEADRACE_INLINE Step decode_long(Lane& lane, Progress& progress, const uint8_t* data) {
  const AcEntry entry = lane.table->look[look_index(lane)];
  int length = entry.first_advance, symbol = uint8_t(entry.value);
  if (length == 0) {
    refill(lane.reader, data);
    symbol = find_symbol(lane.table->codes, lane.reader.bits, length);
    if (symbol < 0) return Step::corrupt;
  }
  lane.reader.position += uint64_t(length);
  refill(lane.reader, data);
  const int size = symbol & 15, run = symbol >> 4;
  if (size == 0 && run != 15) return end_block(lane, progress, data);
  const int32_t value = extend(lane.reader.bits, size);
  drop(lane.reader, uint32_t(size));
  return put(lane, progress, data, run + 1, value);
}

// Symbols up to the end of the block.
HEADRACE_INLINE Step decode_last(Lane& lane, Progress& progress, const uint8_t* data) {
  const size_t at = look_index(lane);
  const AcEntry& entry = lane.table->look[at];
  refill(lane.reader, data);
  // Before an end of block; beyond 63, by wrapping, if there is none. An index of 63 ends the block
  // by itself, and what follows belongs to the next: the first symbol is then taken alone.
  const size_t last = lane.index + entry.advance - kEndOfBlock;
  if (last >= 63) {
    drop(lane.reader, lane.table->first_length[at]);
    return put(lane, progress, data, entry.first_advance, entry.first_value);
  }
  // Added, not stored: missing symbols are zeros on top of the last coefficient.
  coefficient(lane, lane.index + entry.first_advance) += entry.first_value;
  coefficient(lane, last) += entry.value;
  drop(lane.reader, lane.table->length[at]);
  return end_block(lane, progress, data);
}

enum class Look { inside, last, too_long };

// One look at the table. Nothing is done unless all that it shows lies inside the block.
// intentional: long symbols are told from last ones here, and not in one place for all looks. Each
// look has its own branch for them then, and the processor guesses wrong once, not twice.
HEADRACE_INLINE Look decode_short(Lane& lane) {
  const size_t at = look_index(lane);
  // intentional: one load for each member, which is cheaper than to take a word apart.
  const AcEntry& entry = lane.table->look[at];
  const size_t advance = entry.advance;
  const size_t first = lane.index + entry.first_advance;
  if (__builtin_expect(advance >= kLongSymbol, 0)) return Look::too_long;
  const size_t index = lane.index + advance;
  if (__builtin_expect(index >= 63, 0)) return Look::last;
  lane.index = index;
  const uint8_t length = lane.table->length[at];
  const int16_t first_value = entry.first_value, value = entry.value;
  coefficient(lane, index) = value;
  coefficient(lane, first) = first_value;  // last: a lone symbol has a zero in its place
  drop(lane.reader, length);
  return Look::inside;
}

HEADRACE_INLINE Status status_of(Step step) {
  return step == Step::corrupt     ? Status::corrupt
         : step == Step::truncated ? Status::truncated
                                   : Status::ok;
}

// What decode_short has left. Goes on with the next span when one is done.
HEADRACE_INLINE Step decode_rare(Look look, Lane& lane, Progress& progress, Queue& queue) {
  const Step step = look == Look::too_long ? decode_long(lane, progress, queue.data)
                                           : decode_last(lane, progress, queue.data);
  return step == Step::span_done ? end_span(lane, progress, queue) : step;
}

// Five looks for a word, or three for what is left of it behind a rare one.
// intentional: they are written out, for a loop around them would be one more branch to predict,
// and its count is not in step with the blocks.
static_assert(5 * kLookBits <= kLoadedBits);
HEADRACE_INLINE Status run_one(Lane lane, Progress& progress, Queue& queue) {
  const uint8_t* const data = queue.data;
  Look look;
  const auto inside = [&]() __attribute__((always_inline)) {
    return (look = decode_short(lane)) == Look::inside;
  };
  for (;;) {
    refill(lane.reader, data);
    if (!(inside() && inside())) goto rare;
  three:
    if (inside() && inside() && inside()) continue;
  rare:
    const Step step = decode_rare(look, lane, progress, queue);
    if (step != Step::go_on) return status_of(step);
    goto three;
  }
}

HEADRACE_INLINE Status run_two(Lane a, Lane b, Progress& progress_a, Progress& progress_b,
                               Queue& queue) {
  const uint8_t* const data = queue.data;
  Look look_a, look_b;
  const auto inside = [&]() __attribute__((always_inline)) {
    return (look_a = decode_short(a)) == Look::inside && (look_b = decode_short(b)) == Look::inside;
  };
  for (;;) {
    refill(a.reader, data);
    refill(b.reader, data);
    if (!(inside() && inside())) goto rare;
  three:
    if (inside() && inside() && inside()) continue;
  rare:
    if (look_a != Look::inside) {
      const Step step = decode_rare(look_a, a, progress_a, queue);
      if (step == Step::span_done) return run_one(b, progress_b, queue);
      if (step != Step::go_on) return status_of(step);
      refill(b.reader, data);
    } else {
      const Step step = decode_rare(look_b, b, progress_b, queue);
      if (step == Step::span_done) return run_one(a, progress_a, queue);
      if (step != Step::go_on) return status_of(step);
      refill(a.reader, data);
    }
    goto three;
  }
}

HEADRACE_INLINE Status decode_all(const McuLayout& layout, const uint8_t* data, Span* spans,
                                  int count) {
  Queue queue;
  queue.layout = &layout;
  queue.data = data;
  queue.next = spans;
  queue.end = spans + count;
  Lane a, b;
  Progress progress_a, progress_b;
  Step step = begin_span(a, progress_a, queue);
  if (step != Step::go_on) return status_of(step);
  if (count == 1) return run_one(a, progress_a, queue);
  step = begin_span(b, progress_b, queue);
  if (step != Step::go_on) return status_of(step);
  return run_two(a, b, progress_a, progress_b, queue);
}

Status decode_portable(const McuLayout& layout, const uint8_t* data, Span* spans, int count) {
  return decode_all(layout, data, spans, count);
}

#if HEADRACE_AVX2
HEADRACE_TARGET_AVX2 Status decode_bmi2(const McuLayout& layout, const uint8_t* data, Span* spans,
                                        int count) {
  return decode_all(layout, data, spans, count);
}
#endif

// Copies what lies before the next 0xFF, and says how much that was.
size_t copy_plain(const uint8_t* from, const uint8_t* end, uint8_t* to) {
  const void* found = std::memchr(from, 0xFF, size_t(end - from));
  const uint8_t* stop = found != nullptr ? static_cast<const uint8_t*>(found) : end;
  std::copy(from, stop, to);
  return size_t(stop - from);
}

#if HEADRACE_AVX2
// May write up to 31 bytes more, of those that follow.
HEADRACE_TARGET_AVX2 size_t copy_plain_avx2(const uint8_t* from, const uint8_t* end, uint8_t* to) {
  size_t count = 0;
  for (; size_t(end - from) - count >= 32; count += 32) {
    const __m256i bytes = load_bytes(from + count);
    store_bytes(to + count, bytes);
    const auto found =
        uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(-1))));
    if (found != 0) return count + size_t(__builtin_ctz(found));
  }
  return count + copy_plain(from + count, end, to + count);
}
#endif

}  // namespace

Status decode_spans(const McuLayout& layout, const uint8_t* data, Span* spans, int count) {
  if (count == 0) return Status::ok;
#if HEADRACE_AVX2
  if (use_avx2()) return decode_bmi2(layout, data, spans, count);
#endif
  return decode_portable(layout, data, spans, count);
}

Unstuffed unstuff(Bytes data, uint8_t* out) {
  const uint8_t *from = data.data, *end = data.data + data.size;
  uint8_t* to = out;
  auto* copy = copy_plain;
#if HEADRACE_AVX2
  if (use_avx2()) copy = copy_plain_avx2;
#endif
  for (;;) {
    const size_t plain = copy(from, end, to);
    from += plain;
    to += plain;
    if (end - from < 2 || from[1] != 0) break;  // the end, or a marker
    *to++ = 0xFF;
    from += 2;
  }
  return {size_t(from - data.data), size_t(to - out)};
}

}  // namespace headrace
