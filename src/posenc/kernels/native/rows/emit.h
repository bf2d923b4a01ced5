// Rows of tables, laid out, written, or added to embeddings.
#pragma once

#include <type_traits>

#include "ahead.h"
#include "narrow.h"
#include "past.h"
#include "phase.h"

namespace posenc::POSENC_ISA {

inline void scale_row(float factor, int64_t n, float* to) {
    POSENC_SIMD
    for (int64_t i = 0; i < n; ++i) {
        to[i] *= factor;
    }
}

inline void put(const float* from, int64_t n, float* to) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
}

// One row: (pairs) cosines and sines -> (dim). Columns beyond dim are not written.
inline void lay_out_row(const TableLayout& layout, const float* cos, const float* sin, float* to) {
    int64_t at = 0;
    const auto room = [&](int64_t n) { return n < layout.dim - at ? n : layout.dim - at; };
    for (int64_t i = 0; i < layout.blocks.count && at < layout.dim; ++i) {
        const Block block = layout.blocks.first[i];
        const float* c = cos + block.pair;
        const float* s = sin + block.pair;
        if (layout.order == Columns::interleaved) {
            const int64_t whole = room(2 * block.pairs) / 2;
            float* row = to + at;
            POSENC_SIMD
            for (int64_t j = 0; j < whole; ++j) {
                row[2 * j] = s[j];
                row[2 * j + 1] = c[j];
            }
            at += 2 * whole;
            if (whole < block.pairs && at < layout.dim) {
                to[at++] = s[whole];
            }
            continue;
        }
        const bool sine_first = layout.order == Columns::sin_cos;
        const bool lone = !sine_first && layout.lone_sine && 2 * block.pairs > layout.dim;
        const int64_t first = room(lone ? block.pairs - 1 : block.pairs);
        put(sine_first ? s : c, first, to + at);
        at += first;
        const int64_t second = room(block.pairs);
        put(sine_first ? c : s, second, to + at);
        at += second;
    }
    for (; at < layout.dim; ++at) {
        to[at] = 0.0F;
    }
}

inline void lay_out(const TableLayout& layout, int64_t pairs, const float* cos, const float* sin,
                    int64_t rows, float* to) {
    for (int64_t r = 0; r < rows; ++r) {
        lay_out_row(layout, cos + r * pairs, sin + r * pairs, to + r * layout.dim);
    }
    if (layout.factor != 1.0F) {
        scale_row(layout.factor, rows * layout.dim, to);
    }
}

// One row after the other, each at the place that `place` makes of its memory.
template <class Place>
inline void write_rows_at(const PhaseMatrix& phases, const int64_t* positions, int64_t rows, char* y,
                          int64_t y_row, Place place) {
    each_block(phases, positions, rows,
               [&](int64_t r, int64_t begin, int64_t n, const uint64_t* turn, bool) {
                   sines(turn, n, begin, place(reinterpret_cast<float*>(y + r * y_row)));
               });
}

// Rows of float32, straight from positions to where they are to stand, for layouts without blocks,
// cuts and padding.
inline void write_rows(const TableLayout& layout, const PhaseMatrix& phases,
                       const int64_t* positions, int64_t rows, char* y, int64_t y_row) {
    const int64_t pairs = phases.pairs;
    if (is_narrow(pairs)) {
        write_narrow_rows(layout, phases, positions, rows, y, y_row);
    } else if (layout.order == Columns::sin_cos) {
        write_rows_at(phases, positions, rows, y, y_row,
                      [=](float* to) { return Apart{to + pairs, to}; });
    } else if (layout.order == Columns::cos_sin) {
        write_rows_at(phases, positions, rows, y, y_row,
                      [=](float* to) { return Apart{to, to + pairs}; });
    } else {
        write_rows_at(phases, positions, rows, y, y_row, [](float* to) { return Beside{to}; });
    }
    for (int64_t r = 0; layout.factor != 1.0F && r < rows; ++r) {
        scale_row(layout.factor, layout.dim, reinterpret_cast<float*>(y + r * y_row));
    }
}

inline bool can_write_rows(const TableLayout& layout, const PhaseMatrix& phases) {
    return is_simple(phases) && phases.pairs > 0 && layout.blocks.count == 1 &&
           layout.dim == 2 * phases.pairs;
}

template <class Element>
inline void add_row(const Element* x, Element* y, float scale, const float* from, int64_t n) {
    int64_t whole = 0;
#if defined(__F16C__)
    if constexpr (std::is_same_v<Element, Half>) {
        for (; whole + LANES <= n; whole += LANES) {
            put(floats(x + whole) * scale + floats(from + whole), y + whole);
        }
    }
#endif
    POSENC_SIMD
    for (int64_t i = whole; i < n; ++i) {
        y[i] = narrowed<Element>(widen(x[i]) * scale + from[i]);
    }
}

// Any strides and alignment: some elements at a time by way of float32.
template <Number number>
inline void add_strided(const Emission& emission, const char* x, char* y, const float* from) {
    constexpr int64_t some = 256;
    float wide[some];
    for (int64_t i = 0; i < emission.width; i += some) {
        const int64_t n = emission.width - i < some ? emission.width - i : some;
        load_row<number>(x + i * emission.x_stride, emission.x_stride, n, wide);
        add_row(wide, wide, emission.scale, from + i, n);
        store_row<number>(wide, y + i * emission.y_stride, emission.y_stride, n);
    }
}

template <Number number>
inline void emit_rows(const Emission& emission, const char* x, int64_t x_row, char* y,
                      int64_t y_row, int64_t rows, const float* from, int64_t next,
                      float* scratch) {
    using Element = ElementOf<number>;
    const bool direct = emission.aligned && emission.x_stride == size_of(number) &&
                        emission.y_stride == size_of(number);
    const int64_t width = x == nullptr ? 0 : emission.width * size_of(number);
    // Whole lines are written, which need not be read first: y is not fetched.
    const Ahead x_ahead(x, x_row, rows, nullptr, width);
    const Row place(emission.past, scratch, emission.width * size_of(number));
    for (int64_t r = 0; r < rows; ++r) {
        char* to = place.made_at(y + r * y_row);
        const float* row = from + r * next;
        x_ahead.fetch(r);
        if (x == nullptr) {
            store_row<number>(row, to, emission.y_stride, emission.width);
        } else if (direct) {
            add_row(reinterpret_cast<const Element*>(x + r * x_row),
                    reinterpret_cast<Element*>(to), emission.scale, row, emission.width);
        } else {
            add_strided<number>(emission, x + r * x_row, to, row);
        }
        place.put(y + r * y_row);
    }
}

// Short rows that lie behind each other everywhere are parts of one that is longer.
template <Number number>
inline void emit_by(const Emission& emission, const char* x, int64_t x_row, char* y, int64_t y_row,
                    int64_t rows, const float* from, int64_t next, float* scratch) {
    constexpr int64_t LONG = 256;
    const int64_t bytes = emission.width * size_of(number);
    const bool alone = x == nullptr;
    const bool joined = !emission.past && emission.width < LONG / 2 && next == emission.width &&
                        emission.y_stride == size_of(number) && y_row == bytes &&
                        (alone || (emission.x_stride == size_of(number) && x_row == bytes));
    const int64_t some = joined ? LONG / emission.width : rows;
    Emission part = emission;
    for (int64_t r = 0; joined && r < rows; r += some) {
        const int64_t count = rows - r < some ? rows - r : some;
        part.width = count * emission.width;
        emit_rows<number>(part, alone ? x : x + r * bytes, count * bytes, y + r * bytes,
                          count * bytes, 1, from + r * next, part.width, scratch);
    }
    if (!joined) {
        emit_rows<number>(emission, x, x_row, y, y_row, rows, from, next, scratch);
    }
}

inline void emit(const Emission& emission, const char* x, int64_t x_row, char* y, int64_t y_row,
                 int64_t rows, const float* from, int64_t next, float* scratch) {
    switch (emission.number) {
        case Number::float32:
            return emit_by<Number::float32>(emission, x, x_row, y, y_row, rows, from, next,
                                             scratch);
        case Number::bfloat16:
            return emit_by<Number::bfloat16>(emission, x, x_row, y, y_row, rows, from, next,
                                              scratch);
        case Number::float16:
            return emit_by<Number::float16>(emission, x, x_row, y, y_row, rows, from, next,
                                             scratch);
    }
}

}  // namespace posenc::POSENC_ISA
