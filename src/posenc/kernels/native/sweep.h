// The walk over the tokens of arrays that share positions.
//
// What is computed from a position (a row of cosines and sines, a row of a table) is computed for
// some tokens at a time into scratch memory that stays in the cache, and then serves every array
// and every axis along which positions do not vary, such as heads. So there is no table in memory,
// and no position is computed twice.
#pragma once

#include <cstdint>
#include <optional>

#include "arrays.h"
#include "layout.h"
#include "team.h"

namespace posenc {

constexpr int MAX_ARRAYS = 16;

// The positions of tokens: a walk over the axes along which they vary, the sequence last.
struct Positions {
    const char* data = nullptr;  // null: they count up from `first`
    bool wide = true;            // int64, else int32
    bool counted = false;        // along the sequence each is the one before plus one
    int64_t first = 0;
    int64_t axes = 1;
    int64_t axis_stride = 0;
    int varying = 0;
    int64_t size[MAX_RANK] = {};
    int64_t stride[MAX_RANK] = {};
    int axis_from_end[MAX_RANK] = {};  // which axis of an array, counted from its last; <= 0: first

    int64_t tokens() const { return size[varying - 1]; }
    int64_t outer() const;  // rows of tokens

    // Positions of tokens [begin, begin + count) of a row: (count, axes).
    void read(int64_t row, int64_t begin, int64_t count, int64_t* to) const;
};

// Read `positions` as those of the tokens of arrays whose leading shape (all axes but the last) is
// that of `like`; `holder` keeps them.
class PositionsOf {
public:
    PositionsOf(nb::handle positions, const Layout& like, int seq_dim, int64_t axes,
                const char* who);

    const Positions& operator*() const { return positions_; }
    const Positions* operator->() const { return &positions_; }

    // Raise unless an array of this layout has tokens at these positions.
    void check(const Layout& layout, int seq_dim, const char* who) const;

private:
    void read_array(const Layout& from, const Layout& like, int place, const char* who);

    Positions positions_;
    std::optional<Array> held_;
    bool leading_ = false;
    int rank_ = 0;
    int64_t lead_[MAX_RANK] = {};
};

// One array in the walk, apart from its channels. Strides are in bytes; x may be null.
struct Operand {
    const char* x = nullptr;
    char* y = nullptr;
    int64_t x_step[MAX_RANK] = {}, y_step[MAX_RANK] = {};  // along the axes that vary
    int free = 0;                                          // the other axes
    int64_t size[MAX_RANK] = {};
    int64_t x_free[MAX_RANK] = {}, y_free[MAX_RANK] = {};
    int64_t copies = 1;  // product of the sizes of the other axes
    bool tokens_inside = true;  // neighbours in memory are tokens, not entries of the last other axis

    Operand(const Layout* x, const Layout& y, const Positions& positions);
};

// Rows of one operand at neighbouring places: `index` is the first token among those at hand.
struct Rows {
    const char* x;
    char* y;
    int64_t x_row, y_row;
    int64_t count;
    const char* x_next;  // the rows after these, where they are known
    const char* y_next;
    int64_t index;
    int64_t next;  // 1: each row is the next token; 0: all are at one
};

void walk_rows(const Operand& operand, const Positions& positions, int64_t row, int64_t begin,
               int64_t count, int64_t copy_begin, int64_t copy_end,
               void (*visit)(void*, const Rows&), void* context);

// What stays in the second cache: 64 KiB. Sums take more, as their runs are better long than near.
constexpr int64_t SCRATCH_FLOATS = 1 << 14;
constexpr int64_t SCRATCH_OF_SUMS = 1 << 16;

// How the work is cut.
struct Cut {
    int64_t chunk;   // tokens at a time
    int64_t chunks;  // of a row of tokens
    int64_t parts;   // of the other axes
    int threads;
};

Cut cut(const Positions& positions, const Operand* operands, int count, int64_t floats_per_token,
        int64_t bytes, int64_t sines, int threads, int64_t scratch_floats = SCRATCH_FLOATS);

// Whether a result had better go past the caches: a call that moves so many bytes leaves nothing of
// them there for long. Not where the system has yet to hand out the memory, page by page, as it
// leaves each page in the caches, emptied.
bool goes_past_caches(const Layout& result, int64_t bytes);

// The number of bytes from which that holds, that of the largest cache by default; returns the last.
int64_t set_past_caches(int64_t bytes);

// Rows that went past the caches are to be seen by whoever hears that they are written.
void finish_rows();

// Scratch memory of the calling thread, kept for its next call.
float* scratch(int64_t floats);

// `Body` has `floats_per_token`, `extra_floats`, and
//     prepare(positions, count, scratch)          what rows need, for tokens at hand
//     rows(operand, Rows, positions, count, scratch)   use it, for one operand
template <class Body>
void sweep(const Positions& positions, const Operand* operands, int count, const Body& body,
           const Cut& cut) {
    const int64_t items = positions.outer() * cut.chunks * cut.parts;
    const int64_t floats = cut.chunk * body.floats_per_token + body.extra_floats;
    // int64 in units of float, to a full cache line
    const int64_t integers = (2 * cut.chunk * positions.axes + 15) / 16 * 16;
    auto item = [&](int64_t i) {
        const int64_t part = i % cut.parts;
        const int64_t begin = i / cut.parts % cut.chunks * cut.chunk;
        const int64_t row = i / cut.parts / cut.chunks;
        const int64_t left = positions.tokens() - begin;
        const int64_t n = left < cut.chunk ? left : cut.chunk;
        float* memory = scratch(integers + floats);
        int64_t* where = reinterpret_cast<int64_t*>(memory);
        memory += integers;
        positions.read(row, begin, n, where);
        body.prepare(where, n, memory);
        for (int o = 0; o < count; ++o) {
            const int64_t copies = operands[o].copies;
            auto visit = [&](const Rows& rows) { body.rows(o, rows, where, n, memory); };
            walk_rows(
                operands[o], positions, row, begin, n, copies * part / cut.parts,
                copies * (part + 1) / cut.parts,
                [](void* context, const Rows& rows) {
                    (*static_cast<decltype(visit)*>(context))(rows);
                },
                &visit);
        }
        finish_rows();
    };
    share(cut.threads, items, item);
}

}  // namespace posenc
