// Rows of queries and keys, turned.
#pragma once

#include "numbers.h"

namespace posenc::POSENC_ISA {

// In the loops below a step reads and writes the channels of its own pair only, so that y may be x.

inline void turn_half(const float* x, float* y, const float* cos, const float* sin, int64_t n) {
    POSENC_SIMD
    for (int64_t j = 0; j < n; ++j) {
        const float a = x[j];
        const float b = x[j + n];
        y[j] = a * cos[j] - b * sin[j];
        y[j + n] = b * cos[j] + a * sin[j];
    }
}

inline void turn_half(const uint16_t* x, uint16_t* y, const float* cos, const float* sin,
                      int64_t n) {
    POSENC_SIMD
    for (int64_t j = 0; j < n; ++j) {
        const float a = widen(x[j]);
        const float b = widen(x[j + n]);
        y[j] = static_cast<uint16_t>(bfloat16_bits(a * cos[j] - b * sin[j]));
        y[j + n] = static_cast<uint16_t>(bfloat16_bits(b * cos[j] + a * sin[j]));
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

// A pair of bfloat16 is a word of 32 bits: no element changes its lane.
inline void turn_interleaved(const uint16_t* x, uint16_t* y, const float* cos, const float* sin,
                             int64_t n) {
    const char* from = reinterpret_cast<const char*>(x);
    char* to = reinterpret_cast<char*>(y);
    POSENC_SIMD
    for (int64_t j = 0; j < n; ++j) {
        uint32_t pair;
        __builtin_memcpy(&pair, from + 4 * j, 4);
        const float a = bits<float>(pair << 16);
        const float b = bits<float>(pair & 0xFFFF0000U);
        pair = bfloat16_bits(a * cos[j] - b * sin[j]) | bfloat16_bits(b * cos[j] + a * sin[j]) << 16;
        __builtin_memcpy(to + 4 * j, &pair, 4);
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

template <class Element>
inline void turn_row(const Turning& turning, const Element* x, Element* y, const float* cos,
                     const float* sin) {
    for (int64_t i = 0; i < turning.blocks.count; ++i) {
        const Block block = turning.blocks.first[i];
        const int64_t at = 2 * block.pair;
        if (turning.source == Order::half) {
            turn_half(x + at, y + at, cos + block.pair, sin + block.pair, block.pairs);
        } else {
            turn_interleaved(x + at, y + at, cos + block.pair, sin + block.pair, block.pairs);
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

template <class Element>
inline void turn_direct(const Turning& turning, const Run& run) {
    for (int64_t r = 0; r < run.rows; ++r) {
        const char* x = run.x + r * run.x_row;
        char* y = run.y + r * run.y_row;
        turn_row(turning, reinterpret_cast<const Element*>(x) + turning.begin,
                 reinterpret_cast<Element*>(y) + turning.begin, run.cos + r * run.angles,
                 run.sin + r * run.angles);
        if (turning.copy_rest) {
            copy_rest(turning, x, y);
        }
    }
}

// Any strides, alignment and orders: by way of two rows of float32.
template <Number number>
inline void turn_general(const Turning& turning, const Run& run, float* scratch) {
    const int64_t width = 2 * turning.pairs;
    float* to = scratch + width;
    for (int64_t r = 0; r < run.rows; ++r) {
        const char* x = run.x + r * run.x_row;
        char* y = run.y + r * run.y_row;
        const float* cos = run.cos + r * run.angles;
        const float* sin = run.sin + r * run.angles;
        load_row<number>(x + turning.begin * turning.x_stride, turning.x_stride, width, scratch);
        if (turning.source == turning.target) {
            turn_row(turning, scratch, to, cos, sin);
        } else {
            for (int64_t i = 0; i < turning.blocks.count; ++i) {
                const Block block = turning.blocks.first[i];
                const int64_t at = 2 * block.pair;
                turn_reordered(turning.source, scratch + at, to + at, cos + block.pair,
                               sin + block.pair, block.pairs);
            }
        }
        store_row<number>(to, y + turning.begin * turning.y_stride, turning.y_stride, width);
        if (turning.copy_rest) {
            copy_rest(turning, x, y);
        }
    }
}

inline void turn(const Turning& turning, const Run& run, float* scratch) {
    const int64_t size = size_of(turning.number);
    const bool direct = turning.aligned && turning.x_stride == size && turning.y_stride == size &&
                        turning.source == turning.target;
    switch (turning.number) {
        case Number::float32:
            return direct ? turn_direct<float>(turning, run)
                          : turn_general<Number::float32>(turning, run, scratch);
        case Number::bfloat16:
            return direct ? turn_direct<uint16_t>(turning, run)
                          : turn_general<Number::bfloat16>(turning, run, scratch);
        case Number::float16:
            return turn_general<Number::float16>(turning, run, scratch);
    }
}

}  // namespace posenc::POSENC_ISA
