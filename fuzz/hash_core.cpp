// Prints a hash of everything that the kernels compute from fixed inputs. The hashes must not
// depend on the CPU, the compiler or the kernels chosen: a test compares them across targets.
// Usage: hash_core CORPUS [portable]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../cpp/color.h"
#include "../cpp/crc32c.h"
#include "../cpp/interleave.h"
#include "../cpp/jpeg.h"
#include "../cpp/jpeg_recode.h"
#include "../cpp/kernels.h"
#include "../cpp/labels.h"
#include "../cpp/maps.h"
#include "../cpp/output_elements.h"
#include "../cpp/program.h"
#include "../cpp/resize.h"

namespace {

using namespace headrace;
using Input = std::vector<uint8_t>;

// FNV-1a, 64 bits.
class Hash {
 public:
  void add(const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i)
      state_ = (state_ ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001B3;
  }
  void add(const Input& bytes) { add(bytes.data(), bytes.size()); }
  void print(const std::string& name) const {
    std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(state_));
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325;
};

uint32_t random_state = 1;

uint32_t draw(uint32_t limit) {
  random_state = random_state * 1664525 + 1013904223;
  return uint32_t(uint64_t(random_state) * limit >> 32);
}

// Noise, or only black and white, which drives sums to their limits.
Input draw_bytes(size_t size, bool extreme = false) {
  Input bytes(size);
  for (uint8_t& byte : bytes) byte = uint8_t(extreme ? 255 * draw(2) : draw(256));
  return bytes;
}

void hash_decoded(const Input& jpeg, Box box, const Input& seek, Hash& hash) {
  static JpegDecoder decoder;
  Status status = decoder.open({jpeg.data(), jpeg.size()});
  if (status == Status::ok) {
    if (box.width == 0) box = {0, 0, decoder.width(), decoder.height()};
    Buffer<uint8_t> memory;
    const auto planar = Planar::reserve(memory, box.width, box.height, decoder.channels());
    status = decoder.decode(box, {seek.data(), seek.size()}, planar);
    Input out(size_t(box.width) * size_t(box.height) * 3);
    if (status == Status::ok) interleave(planar, out.data(), size_t(box.width) * 3);
    hash.add(out);
  }
  hash.add(&status, sizeof status);
}

// The same picture with 16-bit quantisation tables, whose products wrap and saturate.
Input make_extreme(Input jpeg, uint32_t limit) {
  const uint8_t scan[] = {0xFF, 0xDA};
  Input tables;
  for (uint8_t slot = 0; slot < 4; ++slot) {
    const uint8_t head[] = {0xFF, 0xDB, 0, 131, uint8_t(0x10 | slot)};
    tables.insert(tables.end(), std::begin(head), std::end(head));
    for (int i = 0; i < 64; ++i) {
      const uint32_t factor = 1 + draw(limit);
      tables.push_back(uint8_t(factor >> 8));
      tables.push_back(uint8_t(factor));
    }
  }
  const auto at = std::search(jpeg.begin(), jpeg.end(), std::begin(scan), std::end(scan));
  jpeg.insert(at, tables.begin(), tables.end());
  return jpeg;
}

void hash_jpeg(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  Input jpeg{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t table = size_t(jpeg[4] | jpeg[5] << 8);  // framed as fuzz_jpeg.cpp reads it
  jpeg.erase(jpeg.begin(), jpeg.begin() + 6 + long(table));
  Hash hash;
  Input seek;
  const Status status = build_seek({jpeg.data(), jpeg.size()}, seek);
  hash.add(&status, sizeof status);
  hash.add(seek);
  for (const Input& used : {Input(), seek}) {
    hash_decoded(jpeg, {0, 0, 0, 0}, used, hash);
    for (const Box box : {Box{0, 0, 1, 1}, Box{3, 5, 9, 7}, Box{11, 2, 6, 10}, Box{5, 9, 12, 3}})
      hash_decoded(jpeg, box, used, hash);
  }
  for (const uint32_t limit : {255u, 1000u, 9000u, 65535u})
    hash_decoded(make_extreme(jpeg, limit), {0, 0, 0, 0}, {}, hash);
  static Recoder recoder;
  Input recoded;
  if (recoder.recode({jpeg.data(), jpeg.size()}, recoded) == Status::ok) hash.add(recoded);
  hash.print("jpeg-" + path.filename().string());
}

Input resize(const Input& pixels, Extent in, Extent out, Range columns, Range rows, Filter filter,
             bool flip, bool planar) {
  static Resizer resizer;
  static Buffer<uint8_t> memory;
  Input result(size_t(columns.size()) * size_t(rows.size()) * 3);
  const Box box = resizer.prepare(in, {out, columns, rows}, filter, flip);
  const size_t stride = size_t(in.width) * 3;
  const uint8_t* rgb = pixels.data() + size_t(box.top) * stride + size_t(box.left) * 3;
  Source source{{nullptr, box.width, box.height, 3}, rgb, stride};
  if (planar) {
    source = {Planar::reserve(memory, box.width, box.height, 3)};
    deinterleave(rgb, stride, source.planar);
  }
  resizer.resize(source, result.data(), size_t(columns.size()) * 3);
  return result;
}

void hash_resizes() {
  const Extent sizes[] = {{1, 1},    {7, 3},    {31, 64},  {33, 40}, {97, 150},
                          {224, 60}, {40, 224}, {500, 12}, {9, 700}};
  for (const Filter filter : {Filter::bilinear, Filter::bicubic}) {
    Hash hash;
    for (const Extent in : sizes)
      for (const Extent out : sizes)
        for (const bool flip : {false, true}) {
          const Input pixels =
              draw_bytes(size_t(in.width) * size_t(in.height) * 3, in.width % 2 == 0);
          const Range columns{0, out.width}, rows{0, out.height};
          hash.add(resize(pixels, in, out, columns, rows, filter, flip, flip));
          const Range inner{out.width / 3, out.width - out.width / 4};
          hash.add(
              resize(pixels, in, out, inner, {out.height / 2, out.height}, filter, flip, !flip));
        }
    hash.print(filter == Filter::bilinear ? "resize-bilinear" : "resize-bicubic");
  }
}

void hash_colors() {
  Hash jitter, lighting, elements;
  const Input table = draw_bytes(3 * 256 * 4);
  for (const size_t count : {1, 2, 5, 10, 11, 21, 32, 33, 1024, 1025, 4100})
    for (const float factor : {-0.3f, 0.0f, 0.37f, 1.0f, 1.61f, 3e38f}) {
      Input pixels = draw_bytes(count * 3, factor > 1);
      const float factors[3] = {factor, 1.9f - factor, 0.5f * factor};
      const uint8_t order[3] = {uint8_t(count % 3), uint8_t((count + 1) % 3),
                                uint8_t((count + 2) % 3)};
      jitter_color(pixels.data(), count, factors, order);
      jitter.add(pixels);
      add_offset(pixels.data(), count, factors);
      lighting.add(pixels);
      for (const size_t size : {1, 2, 4})
        for (const bool planar : {false, true}) {
          Input out(count * 3 * size);
          look_up(pixels.data(), count, table.data(), size, planar, out.data());
          elements.add(out);
        }
    }
  jitter.print("jitter");
  lighting.print("lighting");
  elements.print("elements");
}

void hash_interleaving() {
  Hash hash;
  Buffer<uint8_t> memory;
  for (int32_t width = 1; width < 140; ++width) {
    const size_t stride = size_t(width) * 3;
    const Input pixels = draw_bytes(stride * 2);
    for (const int32_t channels : {1, 3}) {
      const auto planar = Planar::reserve(memory, width, 2, channels);
      if (channels == 3) deinterleave(pixels.data(), stride, planar);
      for (int32_t i = 0; i < 2 * channels; ++i)
        for (int32_t x = 0; x < width; ++x)
          if (channels == 1) planar.row(i)[x] = pixels[size_t(x + i)];
      for (int32_t i = 0; i < 2 * channels; ++i)
        hash.add(planar.data + size_t(i) * planar.line(), size_t(width));
      Input out(stride * 2);
      interleave(planar, out.data(), stride);
      hash.add(out);
    }
  }
  hash.print("interleave");
}

void hash_checksums() {
  Hash hash;
  const Input bytes = draw_bytes(40000);
  for (size_t size = 0; size < bytes.size() - 8; size += 1 + size / 16) {
    const uint32_t crc = crc32c(uint32_t(size), bytes.data() + size % 8, size);
    hash.add(&crc, sizeof crc);
  }
  hash.print("crc32c");
}

void hash_filters() {
  Hash hash;
  for (const size_t size : {1, 2, 3, 4, 6, 8})
    for (int filter = 0; filter < 5; ++filter)
      for (size_t pixels = 1; pixels < 80; pixels += 1 + pixels / 9) {
        const size_t bytes = size * pixels;
        Input in = draw_bytes(bytes, pixels % 2 == 0);
        if (pixels % 5 == 0) std::fill(in.begin() + long(bytes / 8), in.end() - 1, uint8_t(0));
        Input above = draw_bytes(bytes, pixels % 3 == 0), out(bytes + kRowPadding);
        above.resize(bytes + kRowPadding);
        kernels().unfilter(filter, in.data(), above.data(), out.data(), bytes, size);
        hash.add(out.data(), bytes);
      }
  hash.print("unfilter");
}

void hash_chunks() {
  Hash hash;
  const Input bytes = draw_bytes(9000);
  for (size_t size = 0; size < bytes.size() - 8; size += 1 + size / 16) {
    const uint32_t crc = kernels().update_crc32(uint32_t(size), bytes.data() + size % 8, size);
    hash.add(&crc, sizeof crc);
  }
  hash.print("crc32");
}

// Every rule for the nearest pixel, and maps between all sizes.
void hash_labels_and_maps() {
  Hash labels, maps;
  std::vector<float> map(size_t(60) * 97 * 3), out(size_t(131) * 131 * 3);
  for (float& value : map) value = float(draw(100000)) / 7 - 5000;
  const float factors[3] = {1.0f, -0.3f, 1.7f};
  for (const int32_t full : {1, 2, 17, 60, 61, 97, 130})
    for (const bool flip : {false, true}) {
      const Axis rows{60, full, -3, flip}, columns{97, full + 1, 2, !flip};
      for (const Nearest rule : {Nearest::floor, Nearest::exact, Nearest::exact_small}) {
        std::vector<int32_t> nearest;
        find_nearest(columns, full, rule, nearest);
        labels.add(nearest.data(), nearest.size() * sizeof(int32_t));
      }
      for (const size_t channels : {1, 2, 3})
        for (const bool nearest : {false, true}) {
          render_map(map.data(), channels, {rows, columns, factors, 7.5f, nearest}, out.data(), 131,
                     131);
          maps.add(out.data(), size_t(131) * 131 * channels * sizeof(float));
        }
    }
  labels.print("labels");
  maps.print("maps");
}

// Parameters of an operation, about as they should be.
void draw_parameters(Op op, double* p) {
  const auto real = [](double least, double most) {
    return least + (most - least) * (draw(1 << 20) / double(1 << 20));
  };
  std::fill_n(p, kParameters, 0.0);
  p[0] = op == Op::hue ? real(-0.5, 0.5) : real(0, 3);
  if (op == Op::affine || op == Op::perspective) {
    const double matrix[] = {real(-1, 1), real(-1, 1), real(-30, 30),     real(-1, 1),
                             real(-1, 1), real(0, 30), real(-0.01, 0.01), real(-0.01, 0.01)};
    const int count = op == Op::affine ? 6 : 8, filters[] = {0, 2, 3};
    std::copy_n(matrix, count, p);
    if (draw(3) == 0) p[1] = p[3] = 0;
    p[count] = filters[draw(3)];
    for (int c = 1; c <= 3; ++c) p[count + c] = draw(256);
  }
  if (op == Op::posterize || op == Op::solarize || op == Op::solarize_add)
    p[0] = draw(op == Op::posterize ? 9 : 200), p[1] = op == Op::solarize_add ? draw(257) : 0;
  if (op == Op::gaussian_blur && draw(2)) p[0] = real(0, 20);
  if (op == Op::torch_blur) p[0] = real(0.1, 3), p[1] = draw(8) * 2 + 1;
  if (op == Op::lighting)
    for (int c = 0; c < 3; ++c) p[c] = real(-90, 90);
  if (op >= Op::erase)
    for (int i = 0; i < 7; ++i) p[i] = draw(30);
}

void hash_program(const char* name, Op first, Op last) {
  Hash hash;
  ProgramMemory memory;
  for (auto op = uint8_t(first); op <= uint8_t(last); ++op)
    for (int round = 0; round < 40; ++round) {
      const auto width = int32_t(1 + draw(50)), height = int32_t(1 + draw(50));
      Input pixels = draw_bytes(size_t(width) * size_t(height) * 3, round % 4 == 0);
      double params[kParameters];
      draw_parameters(Op(op), params);
      run_program({&op, params, 1}, {pixels.data(), width, height}, memory);
      hash.add(pixels);
      std::vector<float> floats(pixels.size());
      const auto element = Element(1 + round % 3);
      finish_program({&op, params, 1}, {floats.data(), width, height, element, round % 2 == 0});
      hash.add(floats.data(), floats.size() * sizeof(float));
    }
  hash.print(name);
}

void hash_programs() {
  hash_program("program-colors", Op::brightness, Op::grayscale);
  hash_program("program-levels", Op::invert, Op::equalize);
  hash_program("program-warps", Op::affine, Op::perspective);
  hash_program("program-blurs", Op::gaussian_blur, Op::torch_blur);
  hash_program("program-moves", Op::flip, Op::lighting);
  hash_program("program-erasing", Op::erase, Op::erase_noise);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs("usage: hash_core CORPUS [portable]\n", stderr), 2;
  force_portable(argc > 2 && std::strcmp(argv[2], "portable") == 0);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    random_state = 1;  // so that a new file changes no other hash
    hash_jpeg(path);
  }
  random_state = 1;
  hash_resizes();
  hash_colors();
  hash_interleaving();
  hash_checksums();
  hash_filters();
  hash_chunks();
  hash_labels_and_maps();
  hash_programs();
}
