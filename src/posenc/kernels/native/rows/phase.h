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

// The nearest quadrant; only its last two bits mean something.
inline int32_t quadrant(uint64_t turn) {
    return ((static_cast<int32_t>(turn >> 32) >> 29) + 1) >> 1;
}

// What is left of the phase: its low 62 bits, signed.
inline int64_t residual(uint64_t turn) { return static_cast<int64_t>(turn << 2) >> 2; }

// Rounded to float32 once.
inline float to_float(int64_t residual) {
#if defined(__AVX512DQ__) || defined(__aarch64__)
    return static_cast<float>(residual);
#else
    // Where no instruction does that for a vector, float64 does: exactly, after its lowest bits
    // have been rounded to odd, which leaves the second rounding as it was. Residuals that fit
    // keep their bits.
    const int32_t high = static_cast<int32_t>(residual >> 32);
    const uint32_t low = static_cast<uint32_t>(residual);
    const uint32_t odd = (low & ~0x3FFU) | (low & 0x200U) | ((low & 0x1FFU) != 0 ? 0x200U : 0U);
    const uint32_t kept = static_cast<uint32_t>(high + 16) < 32U ? low : odd;
    // The unsigned word as a signed one, as processors know it.
    const double below = static_cast<double>(static_cast<int32_t>(kept ^ 0x80000000U));
    return static_cast<float>(static_cast<double>(high) * 0x1p32 + (below + 0x1p31));
#endif
}

// Cosine and sine of the phases of n pairs.
inline void evaluate(const uint64_t* turn, int64_t n, float* cos, float* sin) {
    POSENC_SIMD
    for (int64_t j = 0; j < n; ++j) {
        const int32_t q = quadrant(turn[j]);
        const float u = to_float(residual(turn[j])) * 0x1p-61F;
        const float z = u * u;
        const float s =
            u * SIN[0] + u * (SIN[1] + z * (SIN[2] + z * (SIN[3] + z * SIN[4])));
        const float c = 1.0F + z * (COS[0] + z * (COS[1] + z * (COS[2] + z * COS[3])));
        const bool swapped = (q & 1) != 0;
        const float cos_sign = static_cast<float>(1 - ((q + 1) & 2));
        const float sin_sign = static_cast<float>(1 - (q & 2));
        cos[j] = (swapped ? s : c) * cos_sign;
        sin[j] = (swapped ? c : s) * sin_sign;
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
    uint64_t turn[BLOCK];
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t j = 0; j < phases.pairs; j += BLOCK) {
            const int64_t n = phases.pairs - j < BLOCK ? phases.pairs - j : BLOCK;
            const int64_t at = r * phases.pairs + j;
            turns(phases, positions + r * phases.axes, j, n, turn);
            evaluate(turn, n, cos + at, sin + at);
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
