#include "png.h"

#include <algorithm>
#include <cstring>

#include "interleave.h"
#include "kernels.h"

namespace headrace {
namespace {

constexpr uint8_t kSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
constexpr size_t kMaxRowBytes = size_t(64) << 20;  // a longer row is for Pillow
constexpr size_t kMaxSmallText = 1000;             // inflates to less than Pillow's 1 MiB
constexpr size_t kMaxTexts = 1 << 20;              // of Pillow's 64 MiB
constexpr size_t kMaxRatio = 1032;                 // of inflated to deflated bytes

uint32_t read_u32(const uint8_t* data) {
  return uint32_t(data[0]) << 24 | uint32_t(data[1]) << 16 | uint32_t(data[2]) << 8 | data[3];
}

constexpr uint32_t name_of(const char (&name)[5]) {
  return uint32_t(name[0]) << 24 | uint32_t(name[1]) << 16 | uint32_t(name[2]) << 8 |
         uint32_t(name[3]);
}

// Checks the two bytes that begin zlib's format: deflate, a window of at most 32 KiB, no
// dictionary. Libraries differ in how much of it they check.
bool is_zlib_header(uint32_t header) {
  return (header >> 8 & 15) == 8 && header >> 12 <= 7 && (header & 0x20) == 0 && header % 31 == 0;
}

bool is_name(const uint8_t* name) {
  return std::all_of(name, name + 4,
                     [](uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

bool is_supported(const PngHeader& header) {
  const int depth = header.depth;
  switch (header.color) {
    case 0:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

}  // namespace

// Reads the chunks of a file in their order.
class PngDecoder::Walk {
 public:
  Walk(Bytes png, PngDecoder& decoder) : png_(png), decoder_(decoder) {}

  // Returns whether the file has nothing that Pillow should decide on.
  bool run() {
    if (png_.size < sizeof kSignature || std::memcmp(png_.data, kSignature, sizeof kSignature) != 0)
      return false;
    at_ = sizeof kSignature;
    if (!next() || name_ != name_of("IHDR") || !read_header()) return false;
    while (next()) {
      if (name_ == name_of("IEND"))
        return is_zlib_header(zlib_header_) &&
               (decoder_.palette_size_ > 0) == header().is_palette();
      if (!take_chunk()) return false;
    }
    return false;
  }

 private:
  PngHeader& header() { return decoder_.header_; }

  // Finds the next chunk. Pillow checks no checksum behind the image data. It does not check that
  // of the data either: but a file with a wrong one is damaged, perhaps below the box.
  bool next() {
    if (png_.size - at_ < 12) return false;
    const uint8_t* chunk = png_.data + at_;
    const size_t size = read_u32(chunk);
    if (size > png_.size - at_ - 12 || !is_name(chunk + 4)) return false;
    name_ = read_u32(chunk + 4);
    body_ = {chunk + 8, size};
    at_ += 12 + size;
    if (ended_) return true;
    const uint32_t crc = ~kernels().update_crc32(~uint32_t(0), chunk + 4, size + 4);
    return crc == read_u32(chunk + 8 + size);
  }

  bool read_header() {
    const uint8_t* body = body_.data;
    if (body_.size != 13 || body[10] != 0 || body[11] != 0 || body[12] > 1) return false;
    const uint32_t width = read_u32(body), height = read_u32(body + 4);
    if (width == 0 || height == 0 || width > INT32_MAX || height > INT32_MAX) return false;
    header() = {int32_t(width), int32_t(height), body[8], body[9], body[12] == 1};
    return is_supported(header()) && decoder_.row_bytes(int32_t(width)) <= kMaxRowBytes;
  }

  bool take_chunk() {
    if (name_ == name_of("IDAT")) return take_data();
    ended_ = !decoder_.data_.empty();
    switch (name_) {
      case name_of("PLTE"):
        return !ended_ && take_palette();
      case name_of("tRNS"):
        return !ended_ && is_transparency();
      case name_of("acTL"):
      case name_of("fcTL"):
      case name_of("fdAT"):
        return false;
      case name_of("gAMA"):
        return body_.size == 4;
      case name_of("cHRM"):
        return body_.size == 32;
      case name_of("sRGB"):
        return body_.size == 1;
      case name_of("pHYs"):
        return body_.size == 9;
      case name_of("iCCP"):
        return take_profile();
      case name_of("tEXt"):
      case name_of("iTXt"):
      case name_of("zTXt"):
        return take_text();
      default:
        return (name_ & 0x20000000) != 0;  // what is not ancillary is for Pillow
    }
  }

  bool take_data() {
    if (ended_) return false;  // another chunk lies between
    for (size_t i = 0; i < body_.size && zlib_bytes_ < 2; ++i, ++zlib_bytes_)
      zlib_header_ = zlib_header_ << 8 | body_.data[i];
    decoder_.data_.push_back({size_t(body_.data - png_.data), body_.size});
    return true;
  }

  bool take_palette() {
    if (!header().is_palette()) return true;  // only a suggestion
    if (decoder_.palette_size_ > 0 || body_.size == 0 || body_.size % 3 != 0 || body_.size > 768)
      return false;
    decoder_.palette_size_ = int32_t(body_.size / 3);
    for (size_t i = 0; i < body_.size / 3; ++i)
      std::memcpy(&decoder_.palette_[i], body_.data + 3 * i, 3);
    return true;
  }

  // Transparency changes no colour; but Pillow refuses one that is too short or too long.
  bool is_transparency() {
    if (has_transparency_) return false;
    has_transparency_ = true;
    if (header().is_palette()) return decoder_.palette_size_ > 0 && body_.size <= 256;
    return (header().color == 0 && body_.size == 2) || (header().color == 2 && body_.size == 6);
  }

  bool take_profile() {
    const auto* end = static_cast<const uint8_t*>(std::memchr(body_.data, 0, body_.size));
    if (end == nullptr || end + 2 > body_.data + body_.size || end[1] != 0) return false;
    const size_t size = size_t(body_.data + body_.size - end - 2);
    if (size <= kMaxSmallText) return true;
    if (decoder_.profile_.size > 0) return false;
    decoder_.profile_ = {size_t(end + 2 - png_.data), size};
    return true;
  }

  bool take_text() {
    texts_ += body_.size;
    if (texts_ > kMaxTexts) return false;
    if (name_ == name_of("tEXt")) return true;
    const auto* end = static_cast<const uint8_t*>(std::memchr(body_.data, 0, body_.size));
    if (end == nullptr || end + 2 > body_.data + body_.size) return false;
    if (name_ == name_of("iTXt") && end[1] == 0) return true;  // not deflated
    compressed_ += 1;
    return (name_ == name_of("iTXt") || end[1] == 0) && body_.size <= kMaxSmallText &&
           compressed_ < 32;
  }

  const Bytes png_;
  PngDecoder& decoder_;
  size_t at_ = 0;
  uint32_t name_ = 0;
  Bytes body_;
  bool ended_ = false;  // behind the image data
  bool has_transparency_ = false;
  uint32_t zlib_header_ = 0;
  int zlib_bytes_ = 0;
  size_t texts_ = 0, compressed_ = 0;
};

Status PngDecoder::open(Bytes png) {
  data_.clear();
  profile_ = {};
  palette_size_ = 0;
  if (!Walk(png, *this).run()) return Status::unsupported;
  size_t size = 0;
  for (const PngSpan& span : data_) size += span.size;
  // Memory is reserved only for an image that the data may hold.
  const uint64_t least = uint64_t(row_bytes(header_.width)) * uint64_t(header_.height);
  return least / kMaxRatio <= size ? Status::ok : Status::unsupported;
}

size_t PngDecoder::row_bytes(int32_t width) const {
  return (size_t(width) * size_t(header_.channels()) * header_.depth + 7) / 8;
}

size_t PngDecoder::pixel_size() const {
  return pixels_ != PngPixels::labels ? 3 : header_.depth == 16 ? 2 : 1;
}

size_t PngDecoder::begin(Box box, PngPixels pixels) {
  box_ = box;
  pixels_ = pixels;
  plan_passes();
  const size_t padded = row_bytes(header_.width) + 2 * kRowPadding;
  uint8_t* rows = row_memory_.reserve(2 * padded);
  std::memset(rows, 0, 2 * padded);
  above_ = rows + kRowPadding;
  current_ = above_ + padded;
  carry_memory_.reserve(row_bytes(header_.width) + 1);
  bytes_memory_.reserve(size_t(header_.width) * 4 + kRowPadding);
  if (header_.interlaced) pass_memory_.reserve(size_t(header_.width) * 3);
  pass_ = 0;
  carried_ = 0;
  start_pass();
  return missing_;
}

void PngDecoder::plan_passes() {
  constexpr int32_t kAdam7[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                    {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  const auto count = [](int32_t size, int32_t first, int32_t step) {
    return int32_t((int64_t(size) - first + step - 1) / step);
  };
  passes_.clear();
  for (int i = 0; i < (header_.interlaced ? 7 : 1); ++i) {
    Pass pass{0, 0, 1, 1, header_.width, header_.height, 0};
    if (header_.interlaced) {
      const auto [left, top, right_step, down_step] = kAdam7[i];
      pass = {left,
              top,
              right_step,
              down_step,
              count(header_.width, left, right_step),
              count(header_.height, top, down_step),
              0};
    }
    pass.wanted = pass.height;
    if (pass.width > 0 && pass.height > 0) passes_.push_back(pass);
  }
  // Rows below the box are left out at the end, and passes that then have none.
  const int32_t bottom = box_.top + box_.height;
  const size_t all = passes_.size();
  while (passes_.back().top >= bottom) passes_.pop_back();
  Pass& last = passes_.back();
  last.wanted = count(bottom, last.top, last.down_step);
  reaches_end_ = passes_.size() == all && last.wanted == last.height;
  missing_ = 0;
  for (const Pass& pass : passes_) missing_ += size_t(pass.wanted) * (row_bytes(pass.width) + 1);
}

void PngDecoder::start_pass() {
  row_ = 0;
  if (pass_ < passes_.size()) std::memset(above_, 0, row_bytes(passes_[pass_].width));
}

Status PngDecoder::feed(Bytes inflated, uint8_t* out) {
  uint8_t* carry = carry_memory_.data();
  while (inflated.size > 0 && pass_ < passes_.size()) {
    const size_t line = row_bytes(passes_[pass_].width) + 1;
    const size_t taken = std::min(line - carried_, inflated.size);
    const uint8_t* row = inflated.data;
    if (taken < line) {
      std::memcpy(carry + carried_, inflated.data, taken);
      row = carry;
    }
    inflated = {inflated.data + taken, inflated.size - taken};
    missing_ -= taken;
    carried_ = (carried_ + taken) % line;
    if (carried_ > 0) break;
    const Status status = take_row(row, out);
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

// Decodes one row of a pass, and writes what of it lies in the box.
Status PngDecoder::take_row(const uint8_t* line, uint8_t* out) {
  const Pass& pass = passes_[pass_];
  if (line[0] > 4) return Status::corrupt;
  // The pixels of the box in this row: none is needed on their right.
  const auto place = [](int32_t x, int32_t first, int32_t step) {
    return int32_t(std::max<int64_t>(0, (int64_t(x) - first + step - 1) / step));
  };
  const int32_t first = place(box_.left, pass.left, pass.right_step);
  const int32_t end =
      std::min(pass.width, place(box_.left + box_.width, pass.left, pass.right_step));
  const size_t size = std::max(1, header_.channels() * header_.depth / 8);
  if (end > 0) kernels().unfilter(line[0], line + 1, above_, current_, row_bytes(end), size);
  const int64_t y = int64_t(pass.top) + int64_t(row_) * pass.down_step - box_.top;
  if (y >= 0 && y < box_.height && first < end) {
    const size_t pixel = pixel_size();
    uint8_t* to = out + size_t(y) * size_t(box_.width) * pixel;
    uint8_t* written = header_.interlaced ? pass_memory_.data() : to;
    if (!write_row(first, end - first, written)) return Status::corrupt;
    for (int32_t i = first; header_.interlaced && i < end; ++i) {
      const int32_t x = pass.left + i * pass.right_step - box_.left;
      std::memcpy(to + size_t(x) * pixel, written + size_t(i - first) * pixel, pixel);
    }
  }
  std::swap(above_, current_);
  if (++row_ == pass.wanted) {
    ++pass_;
    start_pass();
  }
  return Status::ok;
}

// Writes pixels of the current row. Returns false if an index lies outside the palette.
bool PngDecoder::write_row(int32_t first, int32_t count, uint8_t* out) {
  const size_t pixels = size_t(count);
  if (pixels_ == PngPixels::labels && header_.depth == 16) {
    const uint8_t* in = current_ + size_t(first) * 2;
    for (size_t i = 0; i < pixels; ++i) {
      const auto level = uint16_t(in[2 * i] << 8 | in[2 * i + 1]);
      std::memcpy(out + 2 * i, &level, 2);
    }
    return true;
  }
  const uint8_t* samples = make_bytes(first, count);
  if (pixels_ == PngPixels::labels) {
    std::memcpy(out, samples, pixels);
    return true;
  }
  if (header_.is_palette()) return write_palette(samples, count, out);
  switch (header_.color) {
    case 2:
      std::memcpy(out, samples, pixels * 3);
      break;
    case 6:  // four bytes at a time, of which the last is overwritten
      for (size_t i = 0; i + 1 < pixels; ++i) std::memcpy(out + 3 * i, samples + 4 * i, 4);
      std::memcpy(out + 3 * (pixels - 1), samples + 4 * (pixels - 1), 3);
      break;
    default:
      interleave({const_cast<uint8_t*>(samples), count, 1, 1}, out, 0);
  }
  return true;
}

bool PngDecoder::write_palette(const uint8_t* samples, int32_t count, uint8_t* out) const {
  const size_t pixels = size_t(count);
  if (*std::max_element(samples, samples + pixels) >= palette_size_) return false;
  for (size_t i = 0; i + 1 < pixels; ++i) std::memcpy(out + 3 * i, &palette_[samples[i]], 4);
  std::memcpy(out + 3 * (pixels - 1), &palette_[samples[pixels - 1]], 3);
  return true;
}

// Returns the samples of the current row, from pixel `first` on, as bytes: one of each channel, but
// the alpha of grey pixels is left out.
const uint8_t* PngDecoder::make_bytes(int32_t first, int32_t count) {
  const int depth = header_.depth, channels = header_.channels();
  const uint8_t* in = current_;
  uint8_t* out = bytes_memory_.data();
  if (depth < 8) {
    const int most = (1 << depth) - 1;
    const bool is_label = header_.is_palette() || (pixels_ == PngPixels::labels && depth == 1);
    const int factor = is_label ? 1 : 255 / most;
    for (int32_t i = 0; i < count; ++i) {
      const size_t bit = size_t(first + i) * size_t(depth);
      out[i] = uint8_t((in[bit / 8] >> (8 - depth - int(bit % 8)) & most) * factor);
    }
    return out;
  }
  const size_t samples = size_t(count) * size_t(channels);
  in += size_t(first) * size_t(channels * depth / 8);
  if (header_.is_deep_grey()) {
    for (size_t i = 0; i < samples; ++i) {
      const uint32_t level = uint32_t(in[2 * i]) << 8 | in[2 * i + 1];
      out[i] = uint8_t(pixels_ == PngPixels::scaled_rgb ? (level * 255 + 32767) / 65535
                                                        : std::min(level, 255u));
    }
    return out;
  }
  if (depth == 8 && channels != 2) return in;
  const size_t step = size_t(depth / 8) * (channels == 2 ? 2 : 1);
  const size_t wanted = channels == 2 ? size_t(count) : samples;
  for (size_t i = 0; i < wanted; ++i) out[i] = in[i * step];
  return out;
}

void PngDecoder::trim(size_t limit) {
  for (Buffer<uint8_t>* memory : {&carry_memory_, &row_memory_, &bytes_memory_, &pass_memory_})
    memory->trim(limit);
}

}  // namespace headrace
