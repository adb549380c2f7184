// The entropy-coded data of one scan, without stuffed zeros and restart markers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "pixels.h"
#include "status.h"

namespace headrace {

class ScanStream {
 public:
  struct Segment {  // between two restart markers: offsets in data()
    size_t begin, end;
  };

  // Reads from `start` to the first marker behind which there is no data of the scan: `intervals`
  // is the number of restart intervals that the scan should have.
  void read(Bytes jpeg, size_t start, int64_t intervals);

  // kSpanPadding zeros follow the last segment.
  const uint8_t* data() const { return memory_.data(); }
  const std::vector<Segment>& segments() const { return segments_; }
  // Returns where the scan ends in the file: at a marker, or at the end.
  size_t end() const { return end_; }
  // Returns the verdict on a scan that needs more data than there are.
  Status lack_of_data() const { return marker_found_ ? Status::corrupt : Status::truncated; }

  // Returns memory for other uses; read() overwrites it.
  uint8_t* reserve(size_t size) { return memory_.reserve(size); }
  // Frees the memory of a giant.
  void trim();

 private:
  Buffer<uint8_t> memory_;
  std::vector<Segment> segments_;
  size_t end_ = 0;
  bool marker_found_ = false;
};

}  // namespace headrace
