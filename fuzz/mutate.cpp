// Drives a fuzz target where libFuzzer is missing: mutates the files of a folder at random.
// Usage: mutate FOLDER SECONDS [SEED]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

std::vector<Input> load(const char* folder) {
  std::vector<Input> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  Input mutate(const std::vector<Input>& inputs) {
    Input input = inputs[below(inputs.size())];
    for (size_t n = 1 + below(6); n > 0 && !input.empty(); --n) change(input, inputs);
    return input;
  }

 private:
  size_t below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }

  void change(Input& input, const std::vector<Input>& inputs) {
    constexpr uint8_t kTelling[] = {0x00, 0xFF, 0x01, 0x7F, 0x80, 0xD0,
                                    0xD9, 0xDA, 0xC4, 0x11, 0x44};
    const size_t at = below(input.size());
    const size_t length = 1 + below(std::min<size_t>(16, input.size() - at));
    switch (below(6)) {
      case 0:
        input[at] ^= uint8_t(1 << below(8));
        break;
      case 1:
        input[at] = kTelling[below(std::size(kTelling))];
        break;
      case 2:
        input[at] = uint8_t(below(256));
        break;
      case 3:
        input.erase(input.begin() + long(at), input.begin() + long(at + length));
        break;
      case 4: {
        const Input piece(input.begin() + long(at), input.begin() + long(at + length));
        input.insert(input.begin() + long(below(input.size())), piece.begin(), piece.end());
        break;
      }
      default: {  // the head of one, the tail of another
        const Input& other = inputs[below(inputs.size())];
        const size_t from = std::min(at, other.size());
        input.resize(at);
        input.insert(input.end(), other.begin() + long(from), other.end());
      }
    }
  }

  std::mt19937 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("usage: mutate FOLDER SECONDS [SEED]\n", stderr), 2;
  const std::vector<Input> inputs = load(argv[1]);
  if (inputs.empty()) return std::fputs("mutate: the folder is empty\n", stderr), 2;
  const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[2]));
  Mutator mutator(argc > 3 ? uint32_t(std::atoi(argv[3])) : 1);
  for (const Input& input : inputs) LLVMFuzzerTestOneInput(input.data(), input.size());
  unsigned long runs = 0;
  for (; std::chrono::steady_clock::now() < stop; ++runs) {
    const Input input = mutator.mutate(inputs);
    // Kept for the report of a crash.
    std::ofstream("crash-input", std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()), long(input.size()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::remove("crash-input");
  std::printf("%lu inputs, no complaint\n", runs);
}
