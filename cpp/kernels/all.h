// Defines HEADRACE_KERNELS, the table of all kernels, for the target of the file that includes
// this: kernels_portable.cpp or kernels_fast.cpp.
#pragma once

#include "../kernels.h"
#include "bands.h"
#include "blur.h"
#include "color.h"
#include "crc32.h"
#include "crc32c.h"
#include "entropy.h"
#include "hue.h"
#include "idct.h"
#include "interleave.h"
#include "levels.h"
#include "noise.h"
#include "resize.h"
#include "reverse.h"
#include "smooth.h"
#include "unfilter.h"
#include "upsample.h"
#include "warp.h"
#include "ycc.h"

namespace headrace {

const Kernels HEADRACE_KERNELS = {
    decode_spans,
    unstuff,
    decode_dc,
    decode_band,
    refine_band,
    inverse_dct,
    upsample_h2,
    upsample_v2,
    upsample_h2v2,
    convert_ycc,
    {{columns_near<1, 1>, columns_near<1, 2>, columns_near<1, 3>},
     {columns_near<2, 1>, columns_near<2, 2>, columns_near<2, 3>}},
    columns_far,
    {resample_rows<0>, resample_rows<1>, resample_rows<2>, resample_rows<3>},
    blend,
    make_grey,
    interleave,
    deinterleave,
    update_crc32c,
    update_crc32,
    unfilter,
    map_levels,
    mask_levels,
    solarize_from,
    add_up_to,
    find_levels,
    turn_hue,
    smooth_row,
    reverse_row,
    {warp_row<Nearest>, warp_row<Bilinear>, warp_row<Bicubic>},
    warp_fixed,
    draw_noise,
    make_normals,
    sum_line,
    add_line,
    move_sums,
    weigh_box,
    weigh_lines,
    widen_levels,
    round_levels};

}  // namespace headrace
