// Decodes arbitrary bytes: nothing may be read or written out of bounds. A seek table that
// build_seek() made, decoding once more and decoding the whole picture must never change a pixel of
// the box. Neither must recoding, nor decoding the views of a picture at once. Input: 4 bytes for
// the box, 2 for the length of the seek table (without its checksum, which is put right, so that
// the entries are reached), the table, the JPEG.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../cpp/crc32c.h"
#include "../cpp/interleave.h"
#include "../cpp/jpeg.h"
#include "../cpp/jpeg_headers.h"
#include "../cpp/jpeg_recode.h"
#include "../cpp/kernels.h"
#include "../cpp/render.h"
#include "../cpp/sharing.h"

using headrace::Box;
using headrace::Bytes;
using headrace::Status;

namespace {

constexpr int64_t kMaxPixels = 1 << 20;  // more only takes longer

std::vector<uint8_t> sign(Bytes table, Bytes jpeg) {
  headrace::HeaderParser parser;
  headrace::Headers headers;
  std::vector<uint8_t> seek(table.data, table.data + table.size);
  if (parser.open(jpeg, headers) != Status::ok) return seek;
  uint32_t crc = headrace::crc32c(0, jpeg.data, headers.scan.data);
  crc = headrace::crc32c(crc, table.data, table.size);
  for (int shift = 0; shift < 32; shift += 8) seek.push_back(uint8_t(crc >> shift));
  return seek;
}

Status decode(Bytes jpeg, Box box, const std::vector<uint8_t>& seek, std::vector<uint8_t>& out) {
  static headrace::JpegDecoder decoder;  // used again and again, as a thread does
  const Status opened = decoder.open(jpeg);
  if (opened != Status::ok) return opened;
  headrace::Planar planar{nullptr, box.width, box.height, decoder.channels()};
  std::vector<uint8_t> lines(planar.stride() * size_t(box.height));  // exact: ASan guards its end
  planar.data = lines.data();
  const Status decoded = decoder.decode(box, {seek.data(), seek.size()}, planar);
  out.assign(size_t(box.width) * size_t(box.height) * 3, 0);
  headrace::interleave(planar, out.data(), size_t(box.width) * 3);
  return decoded;
}

// Renders three views, one of them outside of the picture. Returns their pixels and states.
std::vector<uint8_t> render_views(Bytes jpeg, Box box, const std::vector<uint8_t>& seek,
                                  headrace::Sharing sharing) {
  constexpr size_t kViews = 3;
  headrace::RenderRequest request;
  request.pictures.resize(1);
  request.pictures[0].image = jpeg;
  request.pictures[0].seek = {seek.data(), seek.size()};
  request.pictures[0].orientation = uint8_t(1 + box.left % 8);
  request.targets.resize(kViews);
  request.views.resize(kViews);
  const Box corner{0, 0, 1 + box.height / 2, 1 + box.width / 2}, outside{-1, 0, 1, 1};
  std::vector<uint8_t> out;
  out.resize(kViews * (sizeof(Status) + 40 * 30 * 3));
  Status states[kViews];
  uint8_t* slot = out.data();
  for (size_t i = 0; i < kViews; ++i) {
    headrace::Target& target = request.targets[i];
    target.width = i == 1 ? 1 + box.width % 40 : 40;
    target.height = i == 1 ? 1 + box.height % 30 : 30;
    target.filter = i == 1 ? headrace::Filter::bicubic : headrace::Filter::bilinear;
    target.out = slot;
    target.status = states + i;
    slot += target.slot_size();
    request.views[i].box = i == 0 ? box : i == 1 ? corner : outside;
    request.views[i].flip = box.top % 2 == int32_t(i);
  }
  headrace::force_sharing(sharing);
  headrace::render(request, 1);
  for (const Status& status : states) *slot++ = uint8_t(status);
  return out;
}

// Returns the pixels of `box` in those of a picture of `width` pixels a row.
std::vector<uint8_t> crop(const std::vector<uint8_t>& picture, int32_t width, Box box) {
  std::vector<uint8_t> out;
  for (int32_t y = box.top; y < box.top + box.height; ++y) {
    const auto from = picture.begin() + (ptrdiff_t(y) * width + box.left) * 3;
    out.insert(out.end(), from, from + ptrdiff_t(box.width) * 3);
  }
  return out;
}

int32_t scale(uint8_t fraction, int32_t size) { return int32_t(int64_t(fraction) * size / 256); }

void check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 6) return 0;
  const size_t table_size = size_t(data[4] | data[5] << 8);
  if (table_size > size - 6) return 0;
  const Bytes table{data + 6, table_size};
  // A copy of its own, so that ASan sees reads beyond its end.
  const std::vector<uint8_t> copy(data + 6 + table_size, data + size);
  const Bytes jpeg{copy.data(), copy.size()};

  headrace::JpegDecoder probe;
  std::vector<uint8_t> built;
  const Status build_status = headrace::build_seek(jpeg, built);
  static headrace::Recoder recoder;
  std::vector<uint8_t> recoded;
  const Status recode_status = recoder.recode(jpeg, recoded);
  if (recode_status == Status::ok) {  // again: nothing is left of the first time
    std::vector<uint8_t> again;
    check(recoder.recode(jpeg, again) == Status::ok && again == recoded);
  }
  if (probe.open(jpeg) != Status::ok) return 0;
  if (int64_t(probe.width()) * probe.height() > kMaxPixels) return 0;
  const int32_t left = scale(data[0], probe.width()), top = scale(data[1], probe.height());
  const Box box{left, top, 1 + scale(data[2], probe.width() - left),
                1 + scale(data[3], probe.height() - top)};

  std::vector<uint8_t> plain, other;
  const Status status = decode(jpeg, box, {}, plain);
  if (status == Status::ok && build_status == Status::ok) {
    check(decode(jpeg, box, built, other) == Status::ok);
    check(plain == other);
  }
  if (status == Status::ok) {
    headrace::force_portable(true);
    check(decode(jpeg, box, {}, other) == Status::ok);
    headrace::force_portable(false);
    check(plain == other);
  }
  const Box whole{0, 0, probe.width(), probe.height()};
  const Status whole_status = decode(jpeg, whole, {}, other);
  if (status == Status::ok && whole_status == Status::ok)
    check(plain == crop(other, probe.width(), box));
  if (recode_status == Status::ok) {
    check(whole_status == Status::ok);
    std::vector<uint8_t> rewritten;
    check(decode({recoded.data(), recoded.size()}, whole, {}, rewritten) == Status::ok);
    check(rewritten == other);
  }
  for (const std::vector<uint8_t>& seek : {std::vector<uint8_t>(), built})
    check(render_views(jpeg, box, seek, headrace::Sharing::never) ==
          render_views(jpeg, box, seek, headrace::Sharing::always));
  decode(jpeg, box, sign(table, jpeg), other);
  check(decode(jpeg, box, {}, other) == status);  // nothing is left of what failed meanwhile
  check(status != Status::ok || plain == other);
  return 0;
}
