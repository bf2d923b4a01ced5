// Compiled once for each instruction set; POSENC_ISA is its name.
#include "emit.h"
#include "phase.h"
#include "scores.h"
#include "turn.h"

#define POSENC_TEXT_(x) #x
#define POSENC_TEXT(x) POSENC_TEXT_(x)

namespace posenc::POSENC_ISA {

extern const Kernels table;
const Kernels table = {POSENC_TEXT(POSENC_ISA), integers, cos_sin,   turn,      lay_out,
                       write_rows,              can_write_rows, emit, distances,
                       near_distances,          buckets,        fill,
                       gather};

}  // namespace posenc::POSENC_ISA
