#include "sharing.h"

#include <algorithm>
#include <atomic>

namespace headrace {
namespace {

std::atomic<Sharing> forced{Sharing::rule};

// Measured by benchmarks/render_views.py. The data takes about this share of the time of a pixel,
constexpr double kDataShare = 0.6;
// and blocks that a part has at its edges, as well as seeking, about so many pixels on each axis.
constexpr double kEdge = 24;

}  // namespace

void force_sharing(Sharing sharing) { forced = sharing; }

Box unite(const Box& a, const Box& b) {
  const int32_t left = std::min(a.left, b.left), top = std::min(a.top, b.top);
  const int32_t right = std::max(a.left + a.width, b.left + b.width);
  const int32_t bottom = std::max(a.top + a.height, b.top + b.height);
  return {left, top, right - left, bottom - top};
}

double DecodeCost::of(const Box& part) const {
  const double own = (part.width + kEdge) * (part.height + kEdge);
  if (seeks && one_scan) return own;
  const double rows = one_scan ? part.top + part.height : height;
  return (1 - kDataShare) * own + kDataShare * width * rows;
}

bool should_share(const DecodeCost& cost, const std::vector<Box>& parts, const Box& all) {
  const Sharing sharing = forced;
  if (sharing != Sharing::rule) return sharing == Sharing::always;
  double each = 0;
  for (const Box& part : parts) each += cost.of(part);
  return cost.of(all) < each;
}

}  // namespace headrace
