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
#include "sharing.h"

namespace headrace {
namespace {

constexpr size_t kKeptBytes = 64 << 20;

// What a thread keeps from one picture to the next, so that nothing is allocated once it is warm.
struct Workspace {
  JpegDecoder decoder;
  Resizer resizer;
  Buffer<uint8_t> decoded, upright, resized;
  std::vector<Box> parts;
  ProgramMemory program;
};

// Pixels that several views have in common, and where they lie in the upright picture.
struct Common {
  Box box{};
  Source pixels;

  Source cut(const Box& part) const {
    return {pixels.planar.cut({part.left - box.left, part.top - box.top, part.width, part.height})};
  }
};

Status open_picture(const Picture& picture, Workspace& work) {
  if (picture.width != 0) return Status::ok;
  // Checked here rather than when it is read, so that the decoder finds the bytes in the cache.
  if (picture.checksum && crc32c(0, picture.image.data, picture.image.size) != *picture.checksum)
    return Status::changed;
  const Status opened = work.decoder.open(picture.image);
  if (opened != Status::ok) return opened;
  const int32_t *size = picture.size, width = work.decoder.width(), height = work.decoder.height();
  return size && (size[0] != height || size[1] != width) ? Status::other_size : Status::ok;
}

Extent find_stored_size(const Picture& picture, const Workspace& work) {
  if (picture.width != 0) return {picture.width, picture.height};
  return {work.decoder.width(), work.decoder.height()};
}

bool lies_in(const Box& box, const Picture& picture, const Workspace& work) {
  Extent size = find_stored_size(picture, work);
  if (swaps_sides(picture.orientation)) std::swap(size.width, size.height);
  return box.lies_in(size.width, size.height);
}

// Finds or decodes the pixels under `box` of the stored picture.
Status load_stored(const Picture& picture, const Box& box, Workspace& work, Source& pixels) {
  if (picture.width == 0) {
    pixels.planar = Planar::reserve(work.decoded, box.width, box.height, work.decoder.channels());
    return work.decoder.decode(box, picture.seek, pixels.planar);
  }
  pixels.planar = {nullptr, box.width, box.height, 3};
  pixels.stride = size_t(picture.width) * 3;
  pixels.rgb = picture.image.data + size_t(box.top) * pixels.stride + size_t(box.left) * 3;
  return Status::ok;
}

// Finds or decodes the pixels under `box` of the upright picture.
Status load_box(const Picture& picture, const Box& box, Workspace& work, Source& pixels) {
  if (picture.orientation == 1) return load_stored(picture, box, work, pixels);
  const Extent size = find_stored_size(picture, work);
  Source stored;
  const Box part = find_stored(box, picture.orientation, size.width, size.height);
  const Status status = load_stored(picture, part, work, stored);
  if (status != Status::ok) return status;
  pixels.planar = Planar::reserve(work.upright, box.width, box.height, stored.planar.channels);
  turn_upright(stored, picture.orientation, pixels.planar);
  return Status::ok;
}

// Returns the part of a line of `full` pixels that `count` pixels from `begin` on show.
Range visible(int32_t begin, int32_t count, int32_t full) {
  const int64_t end = std::min<int64_t>(int64_t(begin) + count, full);
  const int32_t from = std::max(begin, 0);
  return {from, std::max(from, int32_t(end))};
}

Shown find_shown(const Viewport& viewport, const Target& target) {
  const Extent full = viewport.width > 0 ? Extent{viewport.width, viewport.height}
                                         : Extent{target.width, target.height};
  return {full, visible(viewport.left, target.width, full.width),
          visible(viewport.top, target.height, full.height)};
}

void fill_slot(const Target& target, uint8_t* out) {
  const uint8_t* fill = target.fill;
  if (fill[0] == fill[1] && fill[1] == fill[2]) {
    std::memset(out, fill[0], target.pixels() * 3);
    return;
  }
  for (size_t i = 0; i < target.pixels(); ++i, out += 3) std::memcpy(out, fill, 3);
}

// Renders the views of a picture that is open.
class ViewRenderer {
 public:
  ViewRenderer(const RenderRequest& request, size_t picture, Workspace& work)
      : request_(request), picture_(request.pictures[picture]), number_(picture), work_(work) {}

  // Returns why the picture does not decode. Views whose boxes lie outside of it have a status.
  Status run() {
    has_common_ = request_.targets.size() > 1 && load_common();
    for (size_t i = 0; i < request_.targets.size(); ++i) {
      const Target& target = request_.targets[i];
      const View& view = request_.view(number_, i);
      Status& status = target.status[number_];
      status = Status::bad_box;
      if (!lies_in(view.box, picture_, work_)) continue;
      status = render_view(view, target, target.slot(number_));
      if (status != Status::ok) return status;
    }
    return Status::ok;
  }

 private:
  // Decodes what all views need, if this pays off. If it fails, views are decoded one by one, so
  // that damage where no view looks changes nothing.
  bool load_common() {
    if (picture_.width != 0 || !find_parts()) return false;
    common_.box = work_.parts[0];
    for (const Box& part : work_.parts) common_.box = unite(common_.box, part);
    const Extent size = find_stored_size(picture_, work_);
    const auto as_stored = [&](const Box& box) {
      return find_stored(box, picture_.orientation, size.width, size.height);
    };
    for (Box& part : work_.parts) part = as_stored(part);
    const JpegDecoder& decoder = work_.decoder;
    const DecodeCost cost{size.width, size.height, picture_.seek.size > 0, decoder.one_scan()};
    return should_share(cost, work_.parts, as_stored(common_.box)) &&
           load_box(picture_, common_.box, work_, common_.pixels) == Status::ok;
  }

  // Finds the parts of the upright picture that views need. Returns true if there are several.
  bool find_parts() {
    work_.parts.clear();
    for (size_t i = 0; i < request_.targets.size(); ++i) {
      const View& view = request_.view(number_, i);
      const Target& target = request_.targets[i];
      const Shown shown = find_shown(view.viewport, target);
      if (shown.empty() || !lies_in(view.box, picture_, work_)) continue;
      const Extent in{view.box.width, view.box.height};
      Box part = Resizer::find_sources(in, shown, target.filter);
      part.left += view.box.left;
      part.top += view.box.top;
      work_.parts.push_back(part);
    }
    return work_.parts.size() > 1;
  }

  Status render_view(const View& view, const Target& target, uint8_t* slot) {
    const size_t count = target.pixels();
    uint8_t* resized = target.table ? work_.resized.reserve(count * 3) : slot;
    const Status rendered = render_viewport(view, target, resized);
    if (rendered != Status::ok) return rendered;
    if (view.jitter) jitter_color(resized, count, view.jitter, view.order);
    if (view.lighting) add_offset(resized, count, view.lighting);
    const bool runs = view.program.count > 0;
    if (runs) run_program(view.program, {resized, target.width, target.height}, work_.program);
    if (target.table)
      look_up(resized, count, target.table, target.element_size, target.planar, slot);
    if (runs)
      finish_program(view.program,
                     {slot, target.width, target.height, target.element, target.planar});
    return Status::ok;
  }

  // Fills `out` with what the viewport shows, and decodes only the pixels that this takes.
  Status render_viewport(const View& view, const Target& target, uint8_t* out) {
    const Shown shown = find_shown(view.viewport, target);
    const Range columns = shown.columns, rows = shown.rows;
    if (columns.size() < target.width || rows.size() < target.height) fill_slot(target, out);
    if (shown.empty()) return Status::ok;
    const Box& box = view.box;
    Box part = work_.resizer.prepare({box.width, box.height}, shown, target.filter, view.flip);
    part.left += box.left;
    part.top += box.top;
    Source pixels;
    if (has_common_) {
      pixels = common_.cut(part);
    } else if (const Status status = load_box(picture_, part, work_, pixels);
               status != Status::ok) {
      return status;
    }
    const int32_t left = columns.begin - view.viewport.left, top = rows.begin - view.viewport.top;
    const int32_t x = view.flip ? target.width - left - columns.size() : left;
    const int32_t y = view.flip_rows ? target.height - 1 - top : top;
    const auto stride = ptrdiff_t(target.width) * 3;
    work_.resizer.resize(pixels, out + y * stride + ptrdiff_t(x) * 3,
                         view.flip_rows ? -stride : stride);
    return Status::ok;
  }

  const RenderRequest& request_;
  const Picture& picture_;
  const size_t number_;
  Workspace& work_;
  Common common_;
  bool has_common_ = false;
};

// Renders all views of a picture. Those that fail are zero.
void render_picture(const RenderRequest& request, size_t picture, Workspace& work) {
  Status status = open_picture(request.pictures[picture], work);
  if (status == Status::ok) status = ViewRenderer(request, picture, work).run();
  for (const Target& target : request.targets) {
    Status& of_view = target.status[picture];
    if (status != Status::ok) of_view = status;
    if (of_view != Status::ok) std::memset(target.slot(picture), 0, target.slot_size());
  }
}

// Returns the numbers of the pictures, those with the most pixels to decode first: so all threads
// finish at about the same time.
std::vector<uint32_t> sort_by_work(const RenderRequest& request) {
  std::vector<int64_t> areas(request.pictures.size(), 0);
  for (size_t i = 0; i < request.views.size(); ++i) {
    const Box& box = request.views[i].box;
    areas[i / request.targets.size()] += int64_t(box.width) * box.height;
  }
  std::vector<uint32_t> order(areas.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return areas[a] > areas[b]; });
  return order;
}

// Renders the picture whose turn it is.
struct RenderTurn {
  const RenderRequest& request;
  std::vector<uint32_t> order = sort_by_work(request);

  void operator()(size_t turn) const {
    static thread_local Workspace work;
    render_picture(request, order[turn], work);
    work.decoded.trim(kKeptBytes);  // frees the memory of a giant picture
    work.upright.trim(kKeptBytes);
    work.resized.trim(kKeptBytes);
    work.program.trim(kKeptBytes);
  }
};

}  // namespace

void render(const RenderRequest& request, int threads) {
  run_parallel(request.pictures.size(), threads, RenderTurn{request});
}

std::unique_ptr<Job> begin_render(const RenderRequest& request, std::shared_ptr<Crew> crew) {
  return std::make_unique<Job>(std::move(crew), request.pictures.size(), RenderTurn{request});
}

}  // namespace headrace
