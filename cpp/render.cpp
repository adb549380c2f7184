#include "render.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "buffer.h"
#include "color.h"
#include "crc32c.h"
#include "elements.h"
#include "pixels.h"
#include "resize.h"

namespace headrace {
namespace {

constexpr size_t kKeptBytes = 64 << 20;

// What a thread keeps from one sample to the next, so that nothing is allocated once it is warm.
struct Workspace {
  JpegDecoder decoder;
  Resizer resizer;
  Buffer<uint8_t> decoded, resized;
};

// Opens the picture, and checks that the box lies in it.
Status open_picture(const Sample& sample, Workspace& work) {
  int32_t width = sample.width, height = sample.height;
  if (width == 0) {
    // Here and not when it was read, since then the decoder finds it in the cache.
    if (sample.checksum && crc32c(0, sample.image.data, sample.image.size) != *sample.checksum)
      return Status::changed;
    const Status opened = work.decoder.open(sample.image);
    if (opened != Status::ok) return opened;
    width = work.decoder.width();
    height = work.decoder.height();
  }
  return sample.box.lies_in(width, height) ? Status::ok : Status::bad_box;
}

// The pixels under the box.
Status load_box(const Sample& sample, const Box& box, Workspace& work, Source& pixels) {
  if (sample.width == 0) {
    pixels.planar = Planar::reserve(work.decoded, box.width, box.height, work.decoder.channels());
    return work.decoder.decode(box, sample.seek, pixels.planar);
  }
  pixels.planar = {nullptr, box.width, box.height, 3};
  pixels.stride = size_t(sample.width) * 3;
  pixels.rgb = sample.image.data + size_t(box.top) * pixels.stride + size_t(box.left) * 3;
  return Status::ok;
}

// The part of a line of `full` pixels that `count` pixels from `begin` on show.
Range visible(int32_t begin, int32_t count, int32_t full) {
  const int64_t end = std::min<int64_t>(int64_t(begin) + count, full);
  const int32_t from = std::max(begin, 0);
  return {from, std::max(from, int32_t(end))};
}

// Fills `out` with the window of the picture; decodes only what that takes.
Status render_window(const Sample& sample, const Format& format, Workspace& work, uint8_t* out) {
  const Window& window = sample.window;
  const Extent full =
      window.width > 0 ? Extent{window.width, window.height} : Extent{format.width, format.height};
  const Range columns = visible(window.left, format.width, full.width);
  const Range rows = visible(window.top, format.height, full.height);
  const size_t stride = size_t(format.width) * 3;
  if (columns.size() < format.width || rows.size() < format.height)
    std::memset(out, 0, stride * size_t(format.height));
  if (columns.size() == 0 || rows.size() == 0) return Status::ok;

  const Box& box = sample.box;
  Box part = work.resizer.prepare({box.width, box.height}, full, columns, rows, format.filter,
                                  sample.flip);
  part.left += box.left;
  part.top += box.top;
  Source pixels;
  const Status loaded = load_box(sample, part, work, pixels);
  if (loaded != Status::ok) return loaded;
  const int32_t left = columns.begin - window.left, top = rows.begin - window.top;
  const int32_t x = sample.flip ? format.width - left - columns.size() : left;
  work.resizer.resize(pixels, out + size_t(top) * stride + size_t(x) * 3, stride);
  return Status::ok;
}

Status render_sample(const Sample& sample, const Format& format, Workspace& work, uint8_t* out) {
  const Status opened = open_picture(sample, work);
  if (opened != Status::ok) return opened;
  const size_t count = size_t(format.width) * size_t(format.height);
  uint8_t* resized = format.table ? work.resized.reserve(count * 3) : out;
  const Status rendered = render_window(sample, format, work, resized);
  if (rendered != Status::ok) return rendered;
  if (sample.jitter) jitter_color(resized, count, sample.jitter, sample.order);
  if (sample.lighting) add_offset(resized, count, sample.lighting);
  if (format.table) look_up(resized, count, format.table, format.element_size, format.planar, out);
  return Status::ok;
}

// The largest first: then all threads come to their end at about the same time.
std::vector<uint32_t> sort_by_work(const Sample* samples, size_t count) {
  const auto area = [&](uint32_t i) {
    return int64_t(samples[i].box.width) * samples[i].box.height;
  };
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return area(a) > area(b); });
  return order;
}

// What is to be done for each sample of a batch, in turn.
struct RenderTurn {
  const Sample* samples;
  std::vector<uint32_t> order;
  Format format;
  uint8_t* out;
  Status* status;

  void operator()(size_t turn) const {
    static thread_local Workspace work;
    const size_t size = size_t(format.width) * size_t(format.height) * 3 * format.element_size;
    const size_t i = order[turn];
    uint8_t* slot = out + i * size;
    status[i] = render_sample(samples[i], format, work, slot);
    if (status[i] != Status::ok) std::memset(slot, 0, size);
    work.decoded.trim(kKeptBytes);  // a giant's memory is given back
    work.resized.trim(kKeptBytes);
  }
};

}  // namespace

void render_batch(const Sample* samples, size_t count, const Format& format, int threads,
                  uint8_t* out, Status* status) {
  run_parallel(count, threads,
               RenderTurn{samples, sort_by_work(samples, count), format, out, status});
}

std::unique_ptr<Job> begin_batch(const Sample* samples, size_t count, const Format& format,
                                 std::shared_ptr<Crew> crew, uint8_t* out, Status* status) {
  return std::make_unique<Job>(
      std::move(crew), count,
      RenderTurn{samples, sort_by_work(samples, count), format, out, status});
}

}  // namespace headrace
