#include "render.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "buffer.h"
#include "color.h"
#include "crc32c.h"
#include "orient.h"
#include "output_elements.h"
#include "pixels.h"
#include "resize.h"

namespace headrace {
namespace {

constexpr size_t kKeptBytes = 64 << 20;

// What a thread keeps from one job to the next, so that nothing is allocated once it is warm.
struct Workspace {
  JpegDecoder decoder;
  Resizer resizer;
  Buffer<uint8_t> decoded, upright, resized;
};

// Opens the picture, and checks that the box lies in it.
Status open_picture(const RenderJob& job, Workspace& work) {
  int32_t width = job.width, height = job.height;
  if (width == 0) {
    // Checked here rather than when it is read, so that the decoder finds the bytes in the cache.
    if (job.checksum && crc32c(0, job.image.data, job.image.size) != *job.checksum)
      return Status::changed;
    const Status opened = work.decoder.open(job.image);
    if (opened != Status::ok) return opened;
    width = work.decoder.width();
    height = work.decoder.height();
    if (job.size && (job.size[0] != height || job.size[1] != width)) return Status::other_size;
  }
  if (swaps_sides(job.orientation)) std::swap(width, height);
  return job.box.lies_in(width, height) ? Status::ok : Status::bad_box;
}

// Finds or decodes the pixels under `box` of the stored picture.
Status load_stored(const RenderJob& job, const Box& box, Workspace& work, Source& pixels) {
  if (job.width == 0) {
    pixels.planar = Planar::reserve(work.decoded, box.width, box.height, work.decoder.channels());
    return work.decoder.decode(box, job.seek, pixels.planar);
  }
  pixels.planar = {nullptr, box.width, box.height, 3};
  pixels.stride = size_t(job.width) * 3;
  pixels.rgb = job.image.data + size_t(box.top) * pixels.stride + size_t(box.left) * 3;
  return Status::ok;
}

// Finds or decodes the pixels under `box` of the upright picture.
Status load_box(const RenderJob& job, const Box& box, Workspace& work, Source& pixels) {
  if (job.orientation == 1) return load_stored(job, box, work, pixels);
  const int32_t width = job.width ? job.width : work.decoder.width();
  const int32_t height = job.width ? job.height : work.decoder.height();
  Source stored;
  const Box part = find_stored(box, job.orientation, width, height);
  const Status status = load_stored(job, part, work, stored);
  if (status != Status::ok) return status;
  pixels.planar = Planar::reserve(work.upright, box.width, box.height, stored.planar.channels);
  turn_upright(stored, job.orientation, pixels.planar);
  return Status::ok;
}

// Returns the part of a line of `full` pixels that `count` pixels from `begin` on show.
Range visible(int32_t begin, int32_t count, int32_t full) {
  const int64_t end = std::min<int64_t>(int64_t(begin) + count, full);
  const int32_t from = std::max(begin, 0);
  return {from, std::max(from, int32_t(end))};
}

void fill_slot(const Target& target, uint8_t* out) {
  const uint8_t* fill = target.fill;
  if (fill[0] == fill[1] && fill[1] == fill[2]) {
    std::memset(out, fill[0], target.pixels() * 3);
    return;
  }
  for (size_t i = 0; i < target.pixels(); ++i, out += 3) std::memcpy(out, fill, 3);
}

// Fills `out` with what the viewport shows, and decodes only the pixels that this takes.
Status render_viewport(const RenderJob& job, const Target& target, Workspace& work, uint8_t* out) {
  const Viewport& view = job.viewport;
  const Extent full =
      view.width > 0 ? Extent{view.width, view.height} : Extent{target.width, target.height};
  const Range columns = visible(view.left, target.width, full.width);
  const Range rows = visible(view.top, target.height, full.height);
  const auto stride = ptrdiff_t(target.width) * 3;
  if (columns.size() < target.width || rows.size() < target.height) fill_slot(target, out);
  if (columns.size() == 0 || rows.size() == 0) return Status::ok;

  const Box& box = job.box;
  Box part =
      work.resizer.prepare({box.width, box.height}, full, columns, rows, job.filter, job.flip);
  part.left += box.left;
  part.top += box.top;
  Source pixels;
  const Status loaded = load_box(job, part, work, pixels);
  if (loaded != Status::ok) return loaded;
  const int32_t left = columns.begin - view.left, top = rows.begin - view.top;
  const int32_t x = job.flip ? target.width - left - columns.size() : left;
  const int32_t y = job.flip_rows ? target.height - 1 - top : top;
  work.resizer.resize(pixels, out + y * stride + ptrdiff_t(x) * 3,
                      job.flip_rows ? -stride : stride);
  return Status::ok;
}

Status render_job(const RenderJob& job, const Target& target, Workspace& work, uint8_t* slot) {
  const Status opened = open_picture(job, work);
  if (opened != Status::ok) return opened;
  const size_t count = target.pixels();
  uint8_t* resized = target.table ? work.resized.reserve(count * 3) : slot;
  const Status rendered = render_viewport(job, target, work, resized);
  if (rendered != Status::ok) return rendered;
  if (job.jitter) jitter_color(resized, count, job.jitter, job.order);
  if (job.lighting) add_offset(resized, count, job.lighting);
  if (target.table) look_up(resized, count, target.table, target.element_size, target.planar, slot);
  return Status::ok;
}

// Returns the numbers of the jobs, the largest first: so all threads finish at about the same time.
std::vector<uint32_t> sort_by_work(const std::vector<RenderJob>& jobs) {
  const auto area = [&](uint32_t i) { return int64_t(jobs[i].box.width) * jobs[i].box.height; };
  std::vector<uint32_t> order(jobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return area(a) > area(b); });
  return order;
}

// Renders the job whose turn it is.
struct RenderTurn {
  const RenderRequest& request;
  std::vector<uint32_t> order = sort_by_work(request.jobs);

  void operator()(size_t turn) const {
    static thread_local Workspace work;
    const Target& target = request.target;
    const size_t i = order[turn], size = target.slot_size();
    uint8_t* slot = target.out + i * size;
    target.status[i] = render_job(request.jobs[i], target, work, slot);
    if (target.status[i] != Status::ok) std::memset(slot, 0, size);
    work.decoded.trim(kKeptBytes);  // frees the memory of a giant picture
    work.upright.trim(kKeptBytes);
    work.resized.trim(kKeptBytes);
  }
};

}  // namespace

void render(const RenderRequest& request, int threads) {
  run_parallel(request.jobs.size(), threads, RenderTurn{request});
}

std::unique_ptr<Job> begin_render(const RenderRequest& request, std::shared_ptr<Crew> crew) {
  return std::make_unique<Job>(std::move(crew), request.jobs.size(), RenderTurn{request});
}

}  // namespace headrace
