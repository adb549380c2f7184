#include "render.h"

#include <cstring>
#include <new>
#include <vector>

#include "pixels.h"
#include "pool.h"
#include "resize.h"

namespace penstock {
namespace {

// What a thread keeps from one sample to the next, so that nothing is allocated once it is warm.
struct Workspace {
  JpegDecoder decoder;
  Resizer resizer;
  std::vector<uint8_t> decoded, resized;
};

uint8_t* reserve(std::vector<uint8_t>& memory, size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

bool contains(int32_t width, int32_t height, const Box& box) {
  return box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
         box.width <= width - box.left && box.height <= height - box.top;
}

// The pixels under the box: in place if they are decoded already.
Status load_box(const Sample& sample, Workspace& work, Pixels& pixels) {
  const Box& box = sample.box;
  if (sample.width > 0) {
    if (!contains(sample.width, sample.height, box)) return Status::bad_box;
    const size_t stride = size_t(sample.width) * 3;
    pixels = {sample.image.data + size_t(box.top) * stride + size_t(box.left) * 3, box.width,
              box.height, stride};
    return Status::ok;
  }
  const Status opened = work.decoder.open(sample.image);
  if (opened != Status::ok) return opened;
  if (!contains(work.decoder.width(), work.decoder.height(), box)) return Status::bad_box;
  const size_t stride = size_t(box.width) * 3;
  uint8_t* decoded = reserve(work.decoded, stride * size_t(box.height));
  pixels = {decoded, box.width, box.height, stride};
  return work.decoder.decode(box, sample.seek, decoded, stride);
}

Status render_sample(const Sample& sample, const Format& format, Workspace& work, uint8_t* out) {
  Pixels pixels;
  const Status loaded = load_box(sample, work, pixels);
  if (loaded != Status::ok) return loaded;
  const size_t count = size_t(format.width) * size_t(format.height);
  uint8_t* resized = format.table ? reserve(work.resized, count * 3) : out;
  work.resizer.resize(pixels, format.filter, sample.flip,
                      {resized, format.width, format.height, size_t(format.width) * 3});
  if (sample.jitter) jitter_color(resized, count, sample.jitter, sample.order);
  if (sample.lighting) add_offset(resized, count, sample.lighting);
  if (format.table) look_up(resized, count, format.table, format.element_size, format.planar, out);
  return Status::ok;
}

}  // namespace

void render_batch(const Sample* samples, size_t count, const Format& format, int threads,
                  uint8_t* out, Status* status) {
  const size_t size = size_t(format.width) * size_t(format.height) * 3 * format.element_size;
  run_parallel(count, threads, [&](size_t i) {
    static thread_local Workspace work;
    uint8_t* slot = out + i * size;
    try {
      status[i] = render_sample(samples[i], format, work, slot);
    } catch (const std::bad_alloc&) {
      status[i] = Status::too_large;
    }
    if (status[i] != Status::ok) std::memset(slot, 0, size);
  });
}

}  // namespace penstock
