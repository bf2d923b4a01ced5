// Rows of few pairs: some together, as a row of its own would leave most lanes empty.
#pragma once

#include "phase.h"

namespace posenc::POSENC_ISA {

#if defined(__F16C__)

// A register of columns from one of cosines and one of sines; lanes from LANES on are of sines.
inline Floats chosen(Floats cos, Floats sin, const int32_t* lane) {
#if defined(__AVX512F__)
    return _mm512_permutex2var_ps(cos, _mm512_loadu_si512(lane), sin);
#else
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(cos, at), _mm256_permutevar8x32_ps(sin, at),
                            _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));
#endif
}

constexpr int64_t SPARE = LANES;
#else
constexpr int64_t SPARE = 0;
#endif

// Columns of some rows, found among BLOCK cosines and the BLOCK sines behind them.
class Found {
public:
    alignas(64) float numbers[2 * BLOCK + SPARE];

    Found(const TableLayout& layout, int64_t pairs, bool beside, int64_t count) : count_(count) {
        const int64_t dim = 2 * pairs;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t column = i % dim;
            const bool first = beside ? column % 2 == 0 : column < pairs;
            const bool sine = first == (layout.order != Columns::cos_sin);
            const int64_t pair = beside ? column / 2 : column % pairs;
            index_[i] = static_cast<int32_t>((sine ? BLOCK : 0) + i / dim * pairs + pair);
        }
#if defined(__F16C__)
        // Those of a kind stand in the order of the columns, so a register of each kind has them.
        for (int64_t i = 0; i < count; ++i) {
            int32_t* from = from_[i / LANES];
            const int64_t kind = index_[i] / BLOCK;
            if (i % LANES == 0) {
                from[0] = from[1] = -1;
            }
            from[kind] = from[kind] < 0 ? index_[i] : from[kind];
            lane_[i] = index_[i] - from[kind] + static_cast<int32_t>(kind * LANES);
        }
#endif
    }

    // The columns [begin, end).
    void put_some(int64_t begin, int64_t end, float* to) const {
        POSENC_SIMD
        for (int64_t i = begin; i < end; ++i) {
            to[i - begin] = numbers[index_[i]];
        }
    }

    // All columns, where `room` numbers may be written over.
    void put_all(int64_t room, float* to) const {
        int64_t i = 0;
#if defined(__F16C__)
        for (; i < count_ && i + LANES <= room; i += LANES) {
            const int32_t* from = from_[i / LANES];
            put(chosen(floats(numbers + (from[0] < 0 ? 0 : from[0])),
                       floats(numbers + (from[1] < 0 ? 0 : from[1])), lane_ + i),
                to + i);
        }
#else
        static_cast<void>(room);
#endif
        if (i < count_) {
            put_some(i, count_, to + i);
        }
    }

private:
    int64_t count_;
    int32_t index_[2 * BLOCK];
#if defined(__F16C__)
    int32_t lane_[2 * BLOCK] = {};
    int32_t from_[2 * BLOCK / LANES][2];
#endif
};

inline void write_narrow_rows(const TableLayout& layout, const PhaseMatrix& phases,
                              const int64_t* positions, int64_t rows, char* y, int64_t y_row) {
    const int64_t pairs = phases.pairs;
    const int64_t dim = 2 * pairs;
    const bool joined = y_row == 4 * dim;
    const bool beside = layout.order == Columns::interleaved ||
                        (layout.order == Columns::sin_cos && pairs == 1);
    const int64_t whole = BLOCK / pairs;
    Found found(layout, pairs, beside, whole * dim);
    each_narrow(phases, positions, rows, [&](int64_t r, int64_t count, const uint64_t* turn) {
        float* to = reinterpret_cast<float*>(y + r * y_row);
        const int64_t room = (rows - r) * dim;
        if (joined && beside) {
            // What is too much is written over by the rows after it.
            return sines(turn, room < 2 * BLOCK ? count * pairs : BLOCK, 0, Beside{to});
        }
        sines(turn, BLOCK, 0, Apart{found.numbers, found.numbers + BLOCK});
        if (joined && count == whole) {
            return found.put_all(room, to);
        }
        for (int64_t i = 0; i < count; ++i) {
            found.put_some(i * dim, (i + 1) * dim, reinterpret_cast<float*>(y + (r + i) * y_row));
        }
    });
}

}  // namespace posenc::POSENC_ISA
