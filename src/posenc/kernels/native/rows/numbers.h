// Numbers in memory and the float32 in which all arithmetic is done.
//
// Everything here is compiled once for each instruction set, and so stands in a namespace of its
// own: an inline function of one name, compiled twice, would be linked once, with instructions that
// the processor may not have. For the same reason nothing of the standard library is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

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

// Processors that are still bought: what gains time for space is for them alone.
#if defined(__AVX2__) || !defined(__x86_64__)
inline constexpr bool RECENT = true;
#else
inline constexpr bool RECENT = false;
#endif

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

// A float16 in memory; a bfloat16 is a bare word.
enum class Half : uint16_t {};

#if defined(__F16C__)

inline float widen(Half x) { return _cvtsh_ss(static_cast<uint16_t>(x)); }

inline Half to_half(float x) {
    return static_cast<Half>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
}

// As many float16 as fill a register once they are float32.
#if defined(__AVX512F__)
using Floats = __m512;
using Packed = __m256i;
inline Floats floats(const float* from) { return _mm512_loadu_ps(from); }
inline void put(Floats x, float* to) { _mm512_storeu_ps(to, x); }
// With a mask of all, as GCC 12 warns of its own header where there is none.
inline Floats unpacked(Packed x) { return _mm512_maskz_cvtph_ps(0xFFFF, x); }
inline Packed packed(Floats x) {
    return _mm512_maskz_cvtps_ph(0xFFFF, x, _MM_FROUND_TO_NEAREST_INT);
}
#else
using Floats = __m256;
using Packed = __m128i;
inline Floats floats(const float* from) { return _mm256_loadu_ps(from); }
inline void put(Floats x, float* to) { _mm256_storeu_ps(to, x); }
inline Floats unpacked(Packed x) { return _mm256_cvtph_ps(x); }
inline Packed packed(Floats x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
#endif

constexpr int64_t LANES = sizeof(Floats) / sizeof(float);

inline Floats floats(const Half* from) {
    Packed x;
    __builtin_memcpy(&x, from, sizeof(x));
    return unpacked(x);
}

inline void put(Floats x, Half* to) {
    const Packed y = packed(x);
    __builtin_memcpy(to, &y, sizeof(y));
}

#else

// Without branches, so that loops of them become vector instructions.
inline float widen(Half x) {
    const uint32_t word = static_cast<uint16_t>(x);
    const uint32_t sign = (word & 0x8000U) << 16;
    const uint32_t rest = word & 0x7FFFU;
    // Exponent and fraction moved into place are 2**-112 of the value, subnormal numbers included;
    // an exponent of ones, of infinities and NaN, becomes one again.
    const uint32_t size = bits<uint32_t>(bits<float>(rest << 13) * 0x1p112F);
    return bits<float>(sign | size | (rest >= 0x7C00U ? 0x7F800000U : 0U));
}

inline Half to_half(float x) {
    const uint32_t u = bits<uint32_t>(x);
    const int32_t size = static_cast<int32_t>(u & 0x7FFFFFFFU);
    // Below 2**-14 the sum puts the last kept bit at the unit of 0.5.
    const int32_t small = bits<int32_t>(bits<float>(size) + 0.5F) - 0x3F000000;
    const int32_t usual = (size + 0xFFF + (size >> 13 & 1) - 0x38000000) >> 13;
    int32_t half = size < 0x38800000 ? small : usual;
    half = size >= 0x477FF000 ? 0x7C00 : half;  // half a unit above 65504, and all beyond
    half = size > 0x7F800000 ? 0x7E00 : half;
    return static_cast<Half>((u >> 16 & 0x8000U) | static_cast<uint32_t>(half));
}

#endif

inline float widen(float x) { return x; }

// A float32 as an element of an array.
template <class Element>
inline Element narrowed(float x) {
    if constexpr (sizeof(Element) == 4) {
        return x;
    } else if constexpr (std::is_same_v<Element, Half>) {
        return to_half(x);
    } else {
        return narrow(x);
    }
}

template <Number number>
using ElementOf = std::conditional_t<
    number == Number::float32, float, std::conditional_t<number == Number::float16, Half, uint16_t>>;

template <Number number>
inline float load(const char* from) {
    ElementOf<number> x;
    __builtin_memcpy(&x, from, sizeof(x));
    return widen(x);
}

template <Number number>
inline void store(char* to, float x) {
    const auto y = narrowed<ElementOf<number>>(x);
    __builtin_memcpy(to, &y, sizeof(y));
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
        for (; i + LANES <= n; i += LANES) {
            put(floats(reinterpret_cast<const Half*>(from) + i), to + i);
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
        for (; i + LANES <= n; i += LANES) {
            put(floats(from + i), reinterpret_cast<Half*>(to) + i);
        }
    }
#endif
    POSENC_SIMD
    for (int64_t k = i; k < n; ++k) {
        store<number>(to + k * size_of(number), from[k]);
    }
}

}  // namespace posenc::POSENC_ISA
