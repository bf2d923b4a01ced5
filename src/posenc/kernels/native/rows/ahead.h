// Fetching rows before they are needed.
#pragma once

#include <cstdint>

#include "numbers.h"

namespace posenc::POSENC_ISA {

// Processors fetch ahead by themselves, but only after some rows of a run, and not past its end:
// runs of a few pages, one for each head, are too short for that. Fetching by hand takes a third
// off the time of a rotation in place.
class Ahead {
public:
    // Rows of `width` bytes, and where the run after them begins (null: unknown).
    Ahead(const char* x, int64_t x_row, int64_t rows, const char* x_next, int64_t width)
        : row_(x_row), rows_(rows), width_(width) {
        distance_ = width > 0 ? (BYTES + width - 1) / width : 0;
        // As numbers: a fetch may go past the end, where no pointer may.
        here_ = reinterpret_cast<uintptr_t>(x);
        next_ = x_next == nullptr ? here_ + static_cast<uintptr_t>(rows * x_row)
                                  : reinterpret_cast<uintptr_t>(x_next);
    }

    // Called, it would be taken for a function without an effect, and left out.
    POSENC_ALWAYS_INLINE void fetch(int64_t r) const {
        if constexpr (!RECENT) {
            return;
        }
        const int64_t later = r + distance_;
        const uintptr_t at = later < rows_ ? here_ + static_cast<uintptr_t>(later * row_)
                                           : next_ + static_cast<uintptr_t>((later - rows_) * row_);
        for (int64_t line = 0; line < width_; line += 64) {
            __builtin_prefetch(reinterpret_cast<const char*>(at + static_cast<uintptr_t>(line)), 1);
        }
    }

private:
    static constexpr int64_t BYTES = 8192;

    uintptr_t here_, next_;
    int64_t row_, rows_, width_, distance_;
};

}  // namespace posenc::POSENC_ISA
