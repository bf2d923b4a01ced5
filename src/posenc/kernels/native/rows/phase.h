// Exact phases, as `_core/phase.py` has them: the same integers and the same polynomials.
#pragma once

#include "numbers.h"

namespace posenc::POSENC_ISA {

constexpr int64_t BLOCK = 64;  // pairs at a time; the arrays between the loops stay in the cache

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

// Cosine and sine of a phase.
inline void evaluate(uint64_t turn, float* cos, float* sin) {
    // The quadrant is in the two upper bits, and its signs are bits of sines and cosines.
    const uint32_t eighth = static_cast<uint32_t>(turn >> 32) + 0x20000000U;
    const bool swapped = (eighth & 0x40000000U) != 0;
    // Four times the residual: the same digits.
    const float u = to_float(static_cast<int64_t>(turn << 2)) * 0x1p-63F;
    const float z = u * u;
    const float s = u * SIN[0] + u * (SIN[1] + z * (SIN[2] + z * (SIN[3] + z * SIN[4])));
    const float c = 1.0F + z * (COS[0] + z * (COS[1] + z * (COS[2] + z * COS[3])));
    *cos = signed_by(eighth + 0x40000000U, swapped ? s : c);
    *sin = signed_by(eighth, swapped ? c : s);
}

inline bool is_simple(const PhaseMatrix& phases) {
    return phases.axes == 1 && phases.origin == nullptr;
}

// One axis and no origin: from positions to sines without a stop in memory.
inline void cos_sin_row(const uint64_t* step, uint64_t position, int64_t n, float* cos,
                        float* sin) {
    POSENC_SIMD
    for (int64_t j = 0; j < n; ++j) {
        evaluate(position * step[j], cos + j, sin + j);
    }
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
    alignas(64) uint64_t turn[BLOCK];
    const bool simple = is_simple(phases);
    for (int64_t r = 0; r < rows; ++r) {
        if (simple) {
            const uint64_t position = static_cast<uint64_t>(positions[r]);
            const int64_t at = r * phases.pairs;
            cos_sin_row(phases.step, position, phases.pairs, cos + at, sin + at);
            continue;
        }
        for (int64_t j = 0; j < phases.pairs; j += BLOCK) {
            const int64_t n = phases.pairs - j < BLOCK ? phases.pairs - j : BLOCK;
            const int64_t at = r * phases.pairs + j;
            turns(phases, positions + r * phases.axes, j, n, turn);
            POSENC_SIMD
            for (int64_t i = 0; i < n; ++i) {
                evaluate(turn[i], cos + at + i, sin + at + i);
            }
        }
    }
    const int64_t count = rows * phases.pairs;
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
