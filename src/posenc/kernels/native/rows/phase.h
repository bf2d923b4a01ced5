// Exact phases, as `_core/numeric/phase.py` has them: the same integers and the same polynomials.
#pragma once

#include "numbers.h"

namespace posenc::POSENC_ISA {

constexpr int64_t BLOCK = 64;  // pairs at a time; the arrays between the loops stay in the cache

// Whether some rows are computed together, as one of so few pairs would leave lanes empty.
inline bool is_narrow(int64_t pairs) {
    return pairs > 0 && pairs < 32 && (pairs < 16 || pairs % 8 != 0);
}

constexpr float SIN[] = {0.7853981852531433F, -2.4273130172502988e-08F, -0.08074543476917805F,
                         0.0024900069643183295F, -3.59543992578884e-05F};
constexpr float COS[] = {-0.3084251357928012F, 0.015854327515167944F, -0.00032594163727223124F,
                         3.531154069761483e-06F};

// The phases of pairs [begin, begin + n) at one position, modulo a turn.
inline void turns(const PhaseMatrix& phases, const int64_t* position, int64_t begin, int64_t n,
                  uint64_t* turn) {
    const uint64_t* step = phases.step + begin;
    uint64_t p = static_cast<uint64_t>(position[0]);
    if (phases.origin == nullptr) {
        POSENC_SIMD
        for (int64_t j = 0; j < n; ++j) {
            turn[j] = p * step[j];
        }
    } else {
        const uint64_t* origin = phases.origin + begin;
        POSENC_SIMD
        for (int64_t j = 0; j < n; ++j) {
            turn[j] = origin[j] + p * step[j];
        }
    }
    for (int64_t a = 1; a < phases.axes; ++a) {
        step += phases.pairs;
        p = static_cast<uint64_t>(position[a]);
        POSENC_SIMD
        for (int64_t j = 0; j < n; ++j) {
            turn[j] += p * step[j];
        }
    }
}

// The nearest quadrant and what is left of the phase, its low 62 bits, signed.
inline int32_t quadrant(uint64_t turn) { return static_cast<int32_t>((turn + (1ULL << 61)) >> 62); }
inline int64_t residual(uint64_t turn) { return static_cast<int64_t>(turn << 2) >> 2; }

// Rounded to float32 once.
inline float to_float(int64_t x) {
#if defined(__AVX512DQ__) || defined(__aarch64__)
    return static_cast<float>(x);
#else
    // Where no instruction does that for a vector, float64 does: exactly, after its lowest bits
    // have been rounded to odd, which leaves the second rounding as it was. What fits keeps its
    // bits.
    const int32_t high = static_cast<int32_t>(x >> 32);
    const uint32_t low = static_cast<uint32_t>(x);
    const uint32_t odd = (low & ~0xFFFU) | ((low & 0xFFFU) != 0 ? 0x1000U : 0U);
    const uint32_t kept = static_cast<uint32_t>(high) + 128U < 256U ? low : odd;
    // The unsigned word as a signed one, as processors know it.
    const double below = static_cast<double>(static_cast<int32_t>(kept ^ 0x80000000U));
    return static_cast<float>(static_cast<double>(high) * 0x1p32 + (below + 0x1p31));
#endif
}

inline float signed_by(uint32_t word, float x) {
    return bits<float>(bits<uint32_t>(x) ^ (word & 0x80000000U));
}

// What sine and cosine are made from, for some pairs.
//
// One pair after the other is a chain of twenty operations, and a processor looks ahead at no more
// than a few such chains. So the pairs go through the first half of it together, and then through
// the second: neighbouring operations do not wait for each other, which takes a quarter off the time.
struct Digits {
    // The quadrant is in the two upper bits, and its signs are bits of sines and cosines.
    alignas(64) uint32_t eighth[BLOCK];
    alignas(64) float u[BLOCK];

    POSENC_ALWAYS_INLINE void read(const uint64_t* turn, int64_t n) {
        POSENC_SIMD
        for (int64_t j = 0; j < n; ++j) {
            eighth[j] = static_cast<uint32_t>(turn[j] >> 32) + 0x20000000U;
            // Four times the residual: the same digits.
            u[j] = to_float(static_cast<int64_t>(turn[j] << 2)) * 0x1p-63F;
        }
    }

    POSENC_ALWAYS_INLINE void sine(int64_t j, float* cos, float* sin) const {
        const float x = u[j];
        const float z = x * x;
        const float s = x * SIN[0] + x * (SIN[1] + z * (SIN[2] + z * (SIN[3] + z * SIN[4])));
        const float c = 1.0F + z * (COS[0] + z * (COS[1] + z * (COS[2] + z * COS[3])));
        const bool swapped = (eighth[j] & 0x40000000U) != 0;
        *cos = signed_by(eighth[j] + 0x40000000U, swapped ? s : c);
        *sin = signed_by(eighth[j], swapped ? c : s);
    }
};

// Cosines and sines to rows of their own.
struct Apart {
    float* cos;
    float* sin;

    POSENC_ALWAYS_INLINE void write(const Digits& digits, int64_t begin, int64_t n) const {
        float* c = cos + begin;
        float* s = sin + begin;
        POSENC_SIMD
        for (int64_t j = 0; j < n; ++j) {
            digits.sine(j, c + j, s + j);
        }
    }
};

// A sine and its cosine side by side.
struct Beside {
    float* to;

    POSENC_ALWAYS_INLINE void write(const Digits& digits, int64_t begin, int64_t n) const {
        float* row = to + 2 * begin;
        POSENC_SIMD
        for (int64_t j = 0; j < n; ++j) {
            digits.sine(j, row + 2 * j + 1, row + 2 * j);
        }
    }
};

// Cosines and sines of at most a block of phases, from the pair `begin` on.
template <class Place>
POSENC_ALWAYS_INLINE void sines(const uint64_t* turn, int64_t n, int64_t begin, Place place) {
    Digits digits;
    // A whole block becomes code without a loop.
    if (n == BLOCK) {
        digits.read(turn, BLOCK);
        place.write(digits, begin, BLOCK);
    } else {
        digits.read(turn, n);
        place.write(digits, begin, n);
    }
}

// Whether a row is as far from the one before as that is from the one before it.
inline bool goes_on(const int64_t* position, int64_t axes) {
    for (int64_t a = 0; a < axes; ++a) {
        const uint64_t one = static_cast<uint64_t>(position[a]) - static_cast<uint64_t>(position[a - axes]);
        const uint64_t last = static_cast<uint64_t>(position[a - axes]) -
                              static_cast<uint64_t>(position[a - 2 * axes]);
        if (one != last) {
            return false;
        }
    }
    return true;
}

inline bool is_repeated(const int64_t* position, int64_t axes) {
    for (int64_t a = 0; a < axes; ++a) {
        if (position[a] != position[a - axes]) {
            return false;
        }
    }
    return true;
}

// The phases of rows, for blocks of pairs: visit(row, begin, n, turn, whether they are those of the
// row before). Where positions go on by the same step, so do phases, by a sum in place of products.
template <class Visit>
POSENC_ALWAYS_INLINE void each_block(const PhaseMatrix& phases, const int64_t* positions,
                                     int64_t rows, Visit visit) {
    alignas(64) uint64_t turn[BLOCK] = {};
    alignas(64) uint64_t further[BLOCK] = {};
    for (int64_t begin = 0; begin < phases.pairs; begin += BLOCK) {
        const int64_t n = phases.pairs - begin < BLOCK ? phases.pairs - begin : BLOCK;
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t* position = positions + r * phases.axes;
            const bool again = r > 0 && is_repeated(position, phases.axes);
            if (!again && r > 1 && goes_on(position, phases.axes)) {
                POSENC_SIMD
                for (int64_t j = 0; j < BLOCK; ++j) {
                    turn[j] += further[j];
                }
            } else if (!again) {
                POSENC_SIMD
                for (int64_t j = 0; j < n; ++j) {
                    further[j] = turn[j];
                }
                turns(phases, position, begin, n, turn);
                POSENC_SIMD
                for (int64_t j = 0; j < n; ++j) {
                    further[j] = turn[j] - further[j];
                }
            }
            visit(r, begin, n, static_cast<const uint64_t*>(turn), again);
        }
    }
}

// The phases of rows of few pairs on one axis, some rows together: visit(row, count, turn). Rows that
// are all as far from those before them go on by a sum, as above.
template <class Visit>
POSENC_ALWAYS_INLINE void each_narrow(const PhaseMatrix& phases, const int64_t* positions,
                                      int64_t rows, Visit visit) {
    alignas(64) uint64_t turn[BLOCK] = {};
    alignas(64) uint64_t further[BLOCK] = {};
    uint64_t step = 0;  // of positions, from some rows to the next ones
    const int64_t pairs = phases.pairs;
    const int64_t some = BLOCK / pairs;
    for (int64_t r = 0; r < rows; r += some) {
        const int64_t count = rows - r < some ? rows - r : some;
        bool goes_on = r > 0 && step != 0 && pairs > 1;
        if (goes_on) {
            const int64_t* here = positions + r;
            const int64_t* before = here - some;
            uint64_t others = 0;
            _Pragma("omp simd reduction(|:others)")
            for (int64_t i = 0; i < count; ++i) {
                others |= static_cast<uint64_t>(here[i]) - static_cast<uint64_t>(before[i]) - step;
            }
            goes_on = others == 0;
        }
        if (goes_on) {
            POSENC_SIMD
            for (int64_t j = 0; j < BLOCK; ++j) {
                turn[j] += further[j];
            }
        } else if (pairs == 1) {
            POSENC_SIMD
            for (int64_t i = 0; i < count; ++i) {
                turn[i] = static_cast<uint64_t>(positions[r + i]) * phases.step[0];
            }
        } else {
            step = r == 0 ? 0 : static_cast<uint64_t>(positions[r]) - static_cast<uint64_t>(positions[r - some]);
            for (int64_t i = 0; i < count; ++i) {
                const uint64_t position = static_cast<uint64_t>(positions[r + i]);
                for (int64_t j = 0; j < pairs; ++j) {
                    turn[i * pairs + j] = position * phases.step[j];
                    further[i * pairs + j] = step * phases.step[j];
                }
            }
        }
        visit(r, count, static_cast<const uint64_t*>(turn));
    }
}

inline bool is_simple(const PhaseMatrix& phases) {
    return phases.axes == 1 && phases.origin == nullptr;
}

inline void apply(Factor factor, int64_t n, float* x) {
    const float m = factor.value;
    if (factor.divide) {
        POSENC_SIMD
        for (int64_t j = 0; j < n; ++j) {
            x[j] /= m;
        }
    } else {
        POSENC_SIMD
        for (int64_t j = 0; j < n; ++j) {
            x[j] *= m;
        }
    }
}

inline void cos_sin(const PhaseMatrix& phases, const int64_t* positions, int64_t rows, int sign,
                    Factor factor, float* cos, float* sin) {
    const int64_t pairs = phases.pairs;
    if (is_simple(phases) && is_narrow(pairs)) {
        each_narrow(phases, positions, rows, [=](int64_t r, int64_t some, const uint64_t* turn) {
            // What is too much is written over by the rows after it.
            const int64_t n = (rows - r) * pairs < BLOCK ? some * pairs : BLOCK;
            sines(turn, n, 0, Apart{cos + r * pairs, sin + r * pairs});
        });
    } else {
        each_block(phases, positions, rows, [=](int64_t r, int64_t begin, int64_t n,
                                                const uint64_t* turn, bool again) {
            float* c = cos + r * pairs;
            float* s = sin + r * pairs;
            if (!again) {
                return sines(turn, n, begin, Apart{c, s});
            }
            POSENC_SIMD
            for (int64_t j = begin; j < begin + n; ++j) {  // keys that moved together
                c[j] = c[j - pairs];
                s[j] = s[j - pairs];
            }
        });
    }
    const int64_t count = rows * pairs;
    if (sign < 0) {
        POSENC_SIMD
        for (int64_t j = 0; j < count; ++j) {
            sin[j] = -sin[j];
        }
    }
    if (factor.value != 1.0F) {
        apply(factor, count, cos);
        apply(factor, count, sin);
    }
}

inline void integers(const PhaseMatrix& phases, const int64_t* positions, int64_t rows,
                     int64_t* quadrants, int64_t* residuals) {
    uint64_t turn[BLOCK];
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t j = 0; j < phases.pairs; j += BLOCK) {
            const int64_t n = phases.pairs - j < BLOCK ? phases.pairs - j : BLOCK;
            const int64_t at = r * phases.pairs + j;
            turns(phases, positions + r * phases.axes, j, n, turn);
            for (int64_t i = 0; i < n; ++i) {
                quadrants[at + i] = quadrant(turn[i]) & 3;
                residuals[at + i] = residual(turn[i]);
            }
        }
    }
}

}  // namespace posenc::POSENC_ISA
