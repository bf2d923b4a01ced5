// Rows of biases on attention scores.
#pragma once

#include "phase.h"

namespace posenc::POSENC_ISA {

constexpr int64_t FARTHEST = 2147483646;  // below the filling of thresholds, as in `rank`

inline int64_t difference(int64_t n, int64_t m) {
    return static_cast<int64_t>(static_cast<uint64_t>(n) - static_cast<uint64_t>(m));
}

inline void distances(Distances form, float slope, int64_t m, const int64_t* n, int64_t count,
                      float* to) {
    if (form == Distances::key_only) {
        POSENC_SIMD
        for (int64_t i = 0; i < count; ++i) {
            to[i] = slope * to_float(n[i]);
        }
        return;
    }
    const float later = form == Distances::symmetric ? -1.0F : 0.0F;
    POSENC_SIMD
    for (int64_t i = 0; i < count; ++i) {
        const float rel = to_float(difference(n[i], m));
        // Positive zero for a zero distance, whichever side it is counted to.
        to[i] = slope * (rel > 0 ? rel * later + 0.0F : rel);
    }
}

// The same for neighbours: n[i] - m = first + i, all of them integers of 31 bits.
inline void near_distances(Distances form, float slope, int32_t first, int64_t count, float* to) {
    const float later = form == Distances::symmetric ? -1.0F : 0.0F;
    const float after = form == Distances::key_only ? 1.0F : later;
    POSENC_SIMD
    for (int64_t i = 0; i < count; ++i) {
        const float rel = static_cast<float>(first + static_cast<int32_t>(i));
        to[i] = slope * (rel > 0 ? rel * after + 0.0F : rel);
    }
}

// How many of 2**s - 1 rising thresholds are at most the distance, by s halvings.
inline void buckets(const int32_t* thresholds, int64_t size, bool both, int32_t side, int64_t m,
                    const int64_t* n, int64_t count, int32_t* to) {
    int32_t far[BLOCK];
    for (int64_t begin = 0; begin < count; begin += BLOCK) {
        const int64_t some = count - begin < BLOCK ? count - begin : BLOCK;
        int32_t* bucket = to + begin;
        POSENC_SIMD
        for (int64_t i = 0; i < some; ++i) {
            const int64_t rel = difference(n[begin + i], m);
            const int64_t near = rel < -FARTHEST ? -FARTHEST : rel;
            const int64_t past = near < 0 ? -near : (both ? near : 0);
            far[i] = static_cast<int32_t>(past > FARTHEST ? FARTHEST : past);
            bucket[i] = 0;
        }
        for (int64_t step = (size + 1) / 2; step > 0; step /= 2) {
            const int32_t move = static_cast<int32_t>(step);
            POSENC_SIMD
            for (int64_t i = 0; i < some; ++i) {
                bucket[i] += thresholds[bucket[i] + move - 1] <= far[i] ? move : 0;
            }
        }
        if (both) {
            POSENC_SIMD
            for (int64_t i = 0; i < some; ++i) {
                bucket[i] += difference(n[begin + i], m) > 0 ? side : 0;
            }
        }
    }
}

inline void fill(float value, int64_t count, float* to) {
    POSENC_SIMD
    for (int64_t i = 0; i < count; ++i) {
        to[i] = value;
    }
}

inline void gather(const float* values, const int32_t* index, int64_t count, float* to) {
    POSENC_SIMD
    for (int64_t i = 0; i < count; ++i) {
        to[i] = values[index[i]];
    }
}

}  // namespace posenc::POSENC_ISA
