// The inner loops, which exist once for each instruction set, and what they are told.
#pragma once

#include <cstdint>

namespace posenc {

enum class Number : int { float32, bfloat16, float16 };

constexpr int64_t size_of(Number number) { return number == Number::float32 ? 4 : 2; }

enum class Order : int { half, interleaved };

// Where the columns of a table stand.
enum class Columns : int { interleaved, sin_cos, cos_sin };

enum class Distances : int { symmetric, causal, key_only };

// A factor on cosines and sines; 1 leaves their bits alone.
struct Factor {
    float value = 1.0F;
    bool divide = false;
};

// phase[p, j] = origin[j] + sum over axes of position[p, a] * step[a, j], 2**64 to the turn.
struct PhaseMatrix {
    const uint64_t* step;    // (axes, pairs)
    const uint64_t* origin;  // (pairs), or null
    int64_t axes;
    int64_t pairs;
};

// Pairs that stand together: `pairs` of them from `pair` on, in the channels from `2 * pair` on.
struct Block {
    int64_t pair;
    int64_t pairs;
};

struct Blocks {
    const Block* first;
    int64_t count;
};

// How the channels of a row of queries or keys turn. Strides are in bytes.
struct Turning {
    Number number;
    Order source, target;
    Blocks blocks;
    int64_t pairs;
    int64_t channels;
    int64_t begin;  // the first channel that turns
    int64_t x_stride, y_stride;
    bool aligned;    // every element stands at a multiple of its size
    bool copy_rest;  // the channels that do not turn go to y
    // Cosines and sines of the even pairs of a block stand before those of the odd ones.
    bool by_two = false;
    bool ahead = true;  // rows are fetched before they are needed: not where caches hold them all
    bool past = false;  // rows go past the caches; needs whole rows of neighbouring elements

    bool direct() const {
        return aligned && x_stride == size_of(number) && y_stride == x_stride && source == target;
    }
};

// Rows x[r] -> y[r] of one run, and the sines and cosines of its first; the next ones stand
// `angles` floats further, 0 where all rows are at one position.
struct Run {
    const char* x;
    char* y;
    int64_t x_row, y_row;  // bytes
    int64_t rows;
    const char* x_next;  // where the run after this one begins, or null
    const char* y_next;
    const float* cos;
    const float* sin;
    int64_t angles;
};

// Rows of float32 in scratch memory that are written out, or added to x first.
struct Emission {
    Number number;
    int64_t width;
    int64_t x_stride, y_stride;  // bytes from channel to channel
    bool aligned;
    float scale;  // on x
    bool past = false;  // rows go past the caches; needs neighbouring elements
};

struct TableLayout {
    Columns order;
    Blocks blocks;
    int64_t dim;
    bool lone_sine;
    float factor;
};

struct Kernels {
    const char* name;

    // positions (rows, axes) -> quadrants 0 to 3 and residuals (rows, pairs).
    void (*integers)(const PhaseMatrix&, const int64_t* positions, int64_t rows, int64_t* quadrant,
                     int64_t* residual);

    // positions (rows, axes) -> cosines and sines (rows, pairs); the sign is that of the angle.
    void (*cos_sin)(const PhaseMatrix&, const int64_t* positions, int64_t rows, int sign, Factor,
                    float* cos, float* sin);

    // `scratch` holds 2 * channels floats.
    void (*turn)(const Turning&, const Run&, float* scratch);

    // cosines and sines (rows, pairs) -> rows (rows, dim).
    void (*lay_out)(const TableLayout&, int64_t pairs, const float* cos, const float* sin,
                    int64_t rows, float* to);

    // Rows of float32 straight to their places, where `can_write_rows`.
    void (*write_rows)(const TableLayout&, const PhaseMatrix&, const int64_t* positions,
                       int64_t rows, char* y, int64_t y_row);
    bool (*can_write_rows)(const TableLayout&, const PhaseMatrix&);

    // y[r] = from[r], or x[r] * scale + from[r] where x is given; `next` floats from row to row.
    // `scratch` holds a row of floats where rows go past the caches.
    void (*emit)(const Emission&, const char* x, int64_t x_row, char* y, int64_t y_row,
                 int64_t rows, const float* from, int64_t next, float* scratch);

    // to[i] = slope * -|n[i] - m| and its kin.
    void (*distances)(Distances, float slope, int64_t m, const int64_t* n, int64_t count,
                      float* to);

    // The same where n[i] - m = first + i, below 2**31 in size.
    void (*near_distances)(Distances, float slope, int32_t first, int64_t count, float* to);

    // to[i] = the bucket of n[i] - m.
    void (*buckets)(const int32_t* thresholds, int64_t size, bool both, int32_t side, int64_t m,
                    const int64_t* n, int64_t count, int32_t* to);

    void (*fill)(float value, int64_t count, float* to);

    // to[i] = values[index[i]].
    void (*gather)(const float* values, const int32_t* index, int64_t count, float* to);
};

// The best of what this processor runs, unless another was chosen.
const Kernels& kernels();

}  // namespace posenc
