// Numbers in memory and the float32 in which all arithmetic is done.
//
// Everything here is compiled once for each instruction set, and so stands in a namespace of its
// own: an inline function of one name, compiled twice, would be linked once, with instructions that
// the processor may not have. For the same reason nothing of the standard library is called.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "../rows.h"

#define POSENC_SIMD _Pragma("omp simd")
// For what must become part of its caller, so that a count known there makes loops of known length.
#define POSENC_ALWAYS_INLINE [[gnu::always_inline]] inline

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Words of two numbers are taken apart as little-endian processors store them."
#endif

namespace posenc::POSENC_ISA {

template <class To, class From>
inline To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

// A bfloat16 is the upper half of a float32.
inline float widen(uint16_t x) { return bits<float>(static_cast<uint32_t>(x) << 16); }

// To nearest, ties to even; the bfloat16 is the upper half of what is returned. What is rounded is
// finite or came from a bfloat16, so that the lower half of a NaN is empty and the sum leaves its
// upper half alone.
inline uint32_t rounded(float x) {
    const uint32_t u = bits<uint32_t>(x);
    return u + 0x7FFFU + ((u >> 16) & 1U);
}

inline uint16_t narrow(float x) { return static_cast<uint16_t>(rounded(x) >> 16); }

// Two bfloat16 side by side, as a word: no element changes its lane.
inline float first_of(uint32_t two) { return bits<float>(two << 16); }
inline float second_of(uint32_t two) { return bits<float>(two & 0xFFFF0000U); }
inline uint32_t both(float first, float second) {
    return rounded(first) >> 16 | (rounded(second) & 0xFFFF0000U);
}

inline float half_to_float(uint16_t x) {
    const uint32_t sign = static_cast<uint32_t>(x & 0x8000U) << 16;
    const uint32_t rest = x & 0x7FFFU;
    if (rest >= 0x7C00U) {
        return bits<float>(sign | 0x7F800000U | (rest & 0x3FFU) << 13);
    }
    // Exponent and fraction moved into place are 2**-112 of the value, subnormal numbers included.
    const float size = bits<float>(rest << 13) * 0x1p112F;
    return bits<float>(sign | bits<uint32_t>(size));
}

inline uint16_t float_to_half(float x) {
    const uint32_t u = bits<uint32_t>(x);
    const uint16_t sign = static_cast<uint16_t>(u >> 16 & 0x8000U);
    const uint32_t size = u & 0x7FFFFFFFU;
    if (size > 0x7F800000U) {
        return sign | 0x7E00U;
    }
    if (size >= 0x477FF000U) {  // half a unit above 65504, and all beyond
        return sign | 0x7C00U;
    }
    if (size < 0x38800000U) {  // below 2**-14: the sum puts the last kept bit at the unit of 0.5
        const float sum = bits<float>(size) + 0.5F;
        return sign | static_cast<uint16_t>(bits<uint32_t>(sum) - 0x3F000000U);
    }
    const uint32_t rounded = size + 0xFFFU + (size >> 13 & 1U);
    return sign | static_cast<uint16_t>((rounded - 0x38000000U) >> 13);
}

template <Number number>
inline float load(const char* from) {
    if constexpr (number == Number::float32) {
        float x;
        __builtin_memcpy(&x, from, 4);
        return x;
    } else {
        uint16_t x;
        __builtin_memcpy(&x, from, 2);
        return number == Number::bfloat16 ? widen(x) : half_to_float(x);
    }
}

template <Number number>
inline void store(char* to, float x) {
    if constexpr (number == Number::float32) {
        __builtin_memcpy(to, &x, 4);
    } else {
        const uint16_t u = number == Number::bfloat16 ? narrow(x) : float_to_half(x);
        __builtin_memcpy(to, &u, 2);
    }
}

// n elements, `stride` bytes apart, to or from neighbouring floats.
template <Number number>
inline void load_row(const char* from, int64_t stride, int64_t n, float* to) {
    if (stride != size_of(number)) {
        for (int64_t i = 0; i < n; ++i) {
            to[i] = load<number>(from + i * stride);
        }
        return;
    }
    int64_t i = 0;
#if defined(__F16C__)
    if constexpr (number == Number::float16) {
        for (; i + 8 <= n; i += 8) {
            const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i));
            _mm256_storeu_ps(to + i, _mm256_cvtph_ps(x));
        }
    }
#endif
    POSENC_SIMD
    for (int64_t k = i; k < n; ++k) {
        to[k] = load<number>(from + k * size_of(number));
    }
}

template <Number number>
inline void store_row(const float* from, char* to, int64_t stride, int64_t n) {
    if (stride != size_of(number)) {
        for (int64_t i = 0; i < n; ++i) {
            store<number>(to + i * stride, from[i]);
        }
        return;
    }
    int64_t i = 0;
#if defined(__F16C__)
    if constexpr (number == Number::float16) {
        for (; i + 8 <= n; i += 8) {
            const __m128i y = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i), y);
        }
    }
#endif
    POSENC_SIMD
    for (int64_t k = i; k < n; ++k) {
        store<number>(to + k * size_of(number), from[k]);
    }
}

}  // namespace posenc::POSENC_ISA
