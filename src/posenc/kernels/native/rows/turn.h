// Rows of queries and keys, turned.
#pragma once

#include "ahead.h"
#include "numbers.h"
#include "past.h"

namespace posenc::POSENC_ISA {

// In the loops below a step reads and writes the channels of its own pair only, so that y may be x.

template <class Element>
POSENC_ALWAYS_INLINE void turn_half(const Element* x, Element* y, const float* cos,
                                    const float* sin, int64_t n) {
    int64_t whole = 0;
#if defined(__F16C__)
    if constexpr (std::is_same_v<Element, Half>) {
        for (; whole + LANES <= n; whole += LANES) {
            const Floats a = floats(x + whole);
            const Floats b = floats(x + whole + n);
            const Floats c = floats(cos + whole);
            const Floats s = floats(sin + whole);
            put(a * c - b * s, y + whole);
            put(b * c + a * s, y + whole + n);
        }
    }
#endif
    POSENC_SIMD
    for (int64_t j = whole; j < n; ++j) {
        const float a = widen(x[j]);
        const float b = widen(x[j + n]);
        y[j] = narrowed<Element>(a * cos[j] - b * sin[j]);
        y[j + n] = narrowed<Element>(b * cos[j] + a * sin[j]);
    }
}

inline uint32_t load_two(const uint16_t* from) {
    uint32_t two;
    __builtin_memcpy(&two, from, 4);
    return two;
}

inline void store_two(uint16_t* to, uint32_t two) { __builtin_memcpy(to, &two, 4); }

// The same for an even n, where cosines and sines of the even pairs stand before those of the odd.
POSENC_ALWAYS_INLINE void turn_by_two(const uint16_t* x, uint16_t* y, const float* cos, const float* sin,
                             int64_t n) {
    const int64_t m = n / 2;
    POSENC_SIMD
    for (int64_t j = 0; j < m; ++j) {
        const uint32_t a = load_two(x + 2 * j);
        const uint32_t b = load_two(x + n + 2 * j);
        const float a0 = first_of(a);
        const float a1 = second_of(a);
        const float b0 = first_of(b);
        const float b1 = second_of(b);
        const float c0 = cos[j];
        const float c1 = cos[j + m];
        const float s0 = sin[j];
        const float s1 = sin[j + m];
        store_two(y + 2 * j, both(a0 * c0 - b0 * s0, a1 * c1 - b1 * s1));
        store_two(y + n + 2 * j, both(b0 * c0 + a0 * s0, b1 * c1 + a1 * s1));
    }
}

inline void turn_interleaved(const float* x, float* y, const float* cos, const float* sin,
                             int64_t n) {
    POSENC_SIMD
    for (int64_t j = 0; j < n; ++j) {
        const float a = x[2 * j];
        const float b = x[2 * j + 1];
        y[2 * j] = a * cos[j] - b * sin[j];
        y[2 * j + 1] = b * cos[j] + a * sin[j];
    }
}

inline void turn_interleaved(const uint16_t* x, uint16_t* y, const float* cos, const float* sin,
                             int64_t n) {
    POSENC_SIMD
    for (int64_t j = 0; j < n; ++j) {
        const uint32_t pair = load_two(x + 2 * j);
        const float a = first_of(pair);
        const float b = second_of(pair);
        store_two(y + 2 * j, both(a * cos[j] - b * sin[j], b * cos[j] + a * sin[j]));
    }
}

#if defined(__F16C__)

// LANES pairs of float16 that stand side by side, as words: the first and the second of each.
struct Pairs {
    Packed first, second;
};

#if defined(__AVX512F__)
inline Pairs pairs_at(const Half* from) {
    const __m512i words = _mm512_loadu_si512(from);
    const __m512i upper = _mm512_maskz_srli_epi32(0xFFFF, words, 16);
    return {_mm512_maskz_cvtepi32_epi16(0xFFFF, words), _mm512_maskz_cvtepi32_epi16(0xFFFF, upper)};
}

inline void put_pairs(Packed first, Packed second, Half* to) {
    const __m512i lower = _mm512_maskz_cvtepu16_epi32(0xFFFF, first);
    const __m512i upper = _mm512_maskz_cvtepu16_epi32(0xFFFF, second);
    _mm512_storeu_si512(to, _mm512_or_si512(lower, _mm512_maskz_slli_epi32(0xFFFF, upper, 16)));
}
#else
inline Pairs pairs_at(const Half* from) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i first = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF));
    const __m256i mixed = _mm256_packus_epi32(first, _mm256_srli_epi32(words, 16));
    const __m256i apart = _mm256_permute4x64_epi64(mixed, 0xD8);
    return {_mm256_castsi256_si128(apart), _mm256_extracti128_si256(apart, 1)};
}

inline void put_pairs(Packed first, Packed second, Half* to) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi16(first, second));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm_unpackhi_epi16(first, second));
}
#endif

#endif

inline void turn_interleaved(const Half* x, Half* y, const float* cos, const float* sin,
                             int64_t n) {
    int64_t whole = 0;
#if defined(__F16C__)
    for (; whole + LANES <= n; whole += LANES) {
        const Pairs words = pairs_at(x + 2 * whole);
        const Floats a = unpacked(words.first);
        const Floats b = unpacked(words.second);
        const Floats c = floats(cos + whole);
        const Floats s = floats(sin + whole);
        put_pairs(packed(a * c - b * s), packed(b * c + a * s), y + 2 * whole);
    }
#endif
    POSENC_SIMD
    for (int64_t j = whole; j < n; ++j) {
        const float a = widen(x[2 * j]);
        const float b = widen(x[2 * j + 1]);
        y[2 * j] = to_half(a * cos[j] - b * sin[j]);
        y[2 * j + 1] = to_half(b * cos[j] + a * sin[j]);
    }
}

// From one order to the other; y is not x.
inline void turn_reordered(Order source, const float* x, float* y, const float* cos,
                           const float* sin, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        const float a = source == Order::half ? x[j] : x[2 * j];
        const float b = source == Order::half ? x[j + n] : x[2 * j + 1];
        const float first = a * cos[j] - b * sin[j];
        const float second = b * cos[j] + a * sin[j];
        if (source == Order::half) {
            y[2 * j] = first;
            y[2 * j + 1] = second;
        } else {
            y[j] = first;
            y[j + n] = second;
        }
    }
}

inline void copy(const char* x, int64_t x_stride, char* y, int64_t y_stride, int64_t size,
                 int64_t n) {
    if (x_stride == size && y_stride == size) {
        __builtin_memcpy(y, x, static_cast<std::size_t>(n * size));
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        __builtin_memcpy(y + i * y_stride, x + i * x_stride, static_cast<std::size_t>(size));
    }
}

inline void copy_rest(const Turning& turning, const char* x, char* y) {
    const int64_t size = size_of(turning.number);
    const int64_t end = turning.begin + 2 * turning.pairs;
    copy(x, turning.x_stride, y, turning.y_stride, size, turning.begin);
    copy(x + end * turning.x_stride, turning.x_stride, y + end * turning.y_stride,
         turning.y_stride, size, turning.channels - end);
}

// The rows of a run, one block of channels. It stays a function of its own, so that what is the same
// for all rows stays in registers.
template <class Element, class Pairs>
[[gnu::noinline]] void turn_rows(const Turning& turning, const Run& run, Block block, bool fetch,
                                 float* scratch, Pairs pairs) {
    const int64_t width = fetch ? turning.channels * static_cast<int64_t>(sizeof(Element)) : 0;
    const Row place(turning.past, scratch, turning.channels * static_cast<int64_t>(sizeof(Element)));
    const int64_t away = run.x == run.y || place.past() ? 0 : width;
    const Ahead x_ahead(run.x, run.x_row, run.rows, run.x_next, width);
    const Ahead y_ahead(run.y, run.y_row, run.rows, run.y_next, away);
    const int64_t at = turning.begin + 2 * block.pair;
    for (int64_t r = 0; r < run.rows; ++r) {
        x_ahead.fetch(r);
        y_ahead.fetch(r);
        char* y = run.y + r * run.y_row;
        pairs(reinterpret_cast<const Element*>(run.x + r * run.x_row) + at,
              reinterpret_cast<Element*>(place.made_at(y)) + at,
              run.cos + r * run.angles + block.pair, run.sin + r * run.angles + block.pair,
              block.pairs);
        place.put(y);
    }
}

template <class Element>
inline void turn_block(const Turning& turning, const Run& run, Block block, bool fetch,
                       float* scratch) {
    using Row = const Element*;
    if constexpr (std::is_same_v<Element, uint16_t>) {
        if (turning.by_two) {
            return turn_rows<Element>(
                turning, run, block, fetch, scratch,
                [](Row x, Element* y, const float* cos, const float* sin, int64_t n) {
                    // Heads of 128 channels are code without a loop.
                    if (RECENT && n == 64) {
                        turn_by_two(x, y, cos, sin, 64);
                    } else {
                        turn_by_two(x, y, cos, sin, n);
                    }
                });
        }
    }
    if (turning.source == Order::half) {
        return turn_rows<Element>(
            turning, run, block, fetch, scratch,
            [](Row x, Element* y, const float* cos, const float* sin, int64_t n) {
                if (RECENT && n == 64) {
                    turn_half(x, y, cos, sin, 64);
                } else {
                    turn_half(x, y, cos, sin, n);
                }
            });
    }
    turn_rows<Element>(turning, run, block, fetch, scratch,
                       [](Row x, Element* y, const float* cos, const float* sin, int64_t n) {
                           turn_interleaved(x, y, cos, sin, n);
                       });
}

template <class Element>
inline void turn_direct(const Turning& turning, const Run& run, float* scratch) {
    for (int64_t i = 0; i < turning.blocks.count; ++i) {
        turn_block<Element>(turning, run, turning.blocks.first[i], turning.ahead && i == 0, scratch);
    }
    for (int64_t r = 0; turning.copy_rest && r < run.rows; ++r) {
        copy_rest(turning, run.x + r * run.x_row, run.y + r * run.y_row);
    }
}

// Any strides, alignment and orders: by way of two rows of float32.
template <Number number>
inline void turn_general(const Turning& turning, const Run& run, float* scratch) {
    const int64_t width = 2 * turning.pairs;
    float* to = scratch + width;
    // What was read has been turned by then.
    const Row place(turning.past, scratch, width * size_of(number));
    for (int64_t r = 0; r < run.rows; ++r) {
        const char* x = run.x + r * run.x_row;
        char* y = run.y + r * run.y_row;
        const float* cos = run.cos + r * run.angles;
        const float* sin = run.sin + r * run.angles;
        load_row<number>(x + turning.begin * turning.x_stride, turning.x_stride, width, scratch);
        for (int64_t i = 0; i < turning.blocks.count; ++i) {
            const Block block = turning.blocks.first[i];
            const int64_t at = 2 * block.pair;
            const float* c = cos + block.pair;
            const float* s = sin + block.pair;
            if (turning.source != turning.target) {
                turn_reordered(turning.source, scratch + at, to + at, c, s, block.pairs);
            } else if (turning.source == Order::half) {
                turn_half(scratch + at, to + at, c, s, block.pairs);
            } else {
                turn_interleaved(scratch + at, to + at, c, s, block.pairs);
            }
        }
        store_row<number>(to, place.made_at(y + turning.begin * turning.y_stride), turning.y_stride,
                          width);
        place.put(y);
        if (turning.copy_rest) {
            copy_rest(turning, x, y);
        }
    }
}

template <Number number>
inline void turn_by(const Turning& turning, const Run& run, float* scratch) {
    if (turning.direct()) {
        turn_direct<ElementOf<number>>(turning, run, scratch);
    } else {
        turn_general<number>(turning, run, scratch);
    }
}

inline void turn(const Turning& turning, const Run& run, float* scratch) {
    switch (turning.number) {
        case Number::float32:
            return turn_by<Number::float32>(turning, run, scratch);
        case Number::bfloat16:
            return turn_by<Number::bfloat16>(turning, run, scratch);
        case Number::float16:
            return turn_by<Number::float16>(turning, run, scratch);
    }
}

}  // namespace posenc::POSENC_ISA
