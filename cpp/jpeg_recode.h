// Rewrites JPEGs of other kinds as baseline, without loss.
#pragma once

#include <cstdint>
#include <vector>

#include "buffer.h"
#include "jpeg_arithmetic.h"
#include "jpeg_blocks.h"
#include "jpeg_progressive.h"
#include "jpeg_scan.h"

namespace headrace {

// Keeps its scratch memory; use one instance per thread.
class Recoder {
 public:
  Recoder() = default;
  Recoder(const Recoder&) = delete;  // its members point to each other
  Recoder& operator=(const Recoder&) = delete;

  // Replaces `out` by a baseline file of one scan with the same quantised coefficients and
  // application segments. It is read back and compared. Unsupported are baseline files of one
  // scan, files that baseline cannot express, and files that are damaged or odd in a way that a
  // decoder might judge otherwise when they are rewritten.
  Status recode(Bytes jpeg, std::vector<uint8_t>& out);

 private:
  Status read_blocks(Bytes jpeg);
  Status reserve();
  Status read_scans(Bytes jpeg);
  template <typename Visit>
  Status visit_scan(Bytes jpeg, const Headers& headers, Visit visit);
  bool has_blocks(Bytes recoded);
  void clear();

  HeaderParser parser_;
  Headers headers_;
  BlockPlanes planes_;
  ProgressiveDecoder progressive_;
  ArithmeticDecoder arithmetic_;
  ScanDecoder scan_;
  Buffer<int16_t> coefficients_;  // of all blocks, unless they are those of progressive_
  size_t used_ = 0;
  Buffer<int16_t> row_;  // of a scan, in the order in which its blocks are coded
};

}  // namespace headrace
