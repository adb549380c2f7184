// Baseline JPEG: encoded bytes in, the pixels of a box out, bit-identical to libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pixels.h"
#include "status.h"

namespace headrace {

// Where the time went, summed up over all pictures decoded while measuring.
struct JpegStages {
  int64_t entropy_ns = 0;  // bits to coefficients
  int64_t pixels_ns = 0;   // inverse DCT, upsampling and colour
};

// Decodes one picture after another. Keeps its scratch memory, so that nothing is allocated once it
// is warm; one instance per thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Parses the headers. `jpeg` must stay valid until the last decode of it.
  Status open(Bytes jpeg);
  int32_t width() const;
  int32_t height() const;
  int32_t channels() const;  // three, or one if it is grey

  // Writes the pixels of `box` to `out`, which has its size and that many channels. `seek` may be
  // empty; a table that does not fit the picture is ignored.
  Status decode(Box box, Bytes seek, const Planar& out);

  // From now on adds the time of each stage to `stages`; null, the default, measures nothing.
  void measure(JpegStages* stages);

 private:
  struct State;
  State* state_;
};

// One pass over the entropy-coded data: the seek table of `jpeg`, in `seek` (emptied first).
Status build_seek(Bytes jpeg, std::vector<uint8_t>& seek);

}  // namespace headrace
