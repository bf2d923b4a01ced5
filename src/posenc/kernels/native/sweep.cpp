#include "sweep.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <unistd.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(POSENC_X86)
#include <immintrin.h>
#endif

namespace posenc {

int64_t Positions::outer() const {
    int64_t rows = 1;
    for (int v = 0; v + 1 < varying; ++v) {
        rows *= size[v];
    }
    return rows;
}

void Positions::read(int64_t row, int64_t begin, int64_t count, int64_t* to) const {
    const uint64_t start = static_cast<uint64_t>(first);
    if (data == nullptr) {
        for (int64_t t = 0; t < count; ++t) {
            to[t] = static_cast<int64_t>(start + static_cast<uint64_t>(begin + t));
        }
        return;
    }
    const char* at = data;
    for (int v = varying - 1; v-- > 0; row /= size[v]) {
        at += row % size[v] * stride[v];
    }
    const auto integer = [&](const char* from) -> int64_t {
        if (wide) {
            int64_t value;
            std::memcpy(&value, from, 8);
            return value;
        }
        int32_t value;
        std::memcpy(&value, from, 4);
        return value;
    };
    const int64_t step = stride[varying - 1];
    for (int64_t t = 0; t < count; ++t) {
        for (int64_t a = 0; a < axes; ++a) {
            const int64_t token = begin + t;
            const char* from = at + a * axis_stride + (counted ? 0 : token * step);
            const uint64_t up = counted ? static_cast<uint64_t>(token) : 0;
            to[t * axes + a] = static_cast<int64_t>(static_cast<uint64_t>(integer(from)) + up);
        }
    }
}

PositionsOf::PositionsOf(nb::handle positions, const Layout& like, int seq_dim, int64_t axes,
                         const char* who) {
    rank_ = like.rank - 1;
    const int place = like.rank + seq_dim;
    if (seq_dim > -2 || place < 0) {
        refuse(std::string(who) + ": seq_dim", "an axis from -" + std::to_string(like.rank) + " to -2",
               std::to_string(seq_dim));
    }
    std::copy(like.size, like.size + rank_, lead_);
    positions_.axes = axes;
    if (is_integer(positions)) {
        if (axes != 1) {
            refuse(std::string(who) + ": positions",
                   "a trailing axis of " + std::to_string(axes) + " coordinates", "one number");
        }
        int overflow = 0;
        positions_.first = PyLong_AsLongLongAndOverflow(positions.ptr(), &overflow);
        if (overflow != 0) {
            refuse(std::string(who) + ": positions", "a position below 2**63 in size", "a larger one");
        }
        positions_.counted = true;
        positions_.varying = 1;
        positions_.size[0] = like.size[place];
        positions_.axis_from_end[0] = like.rank - 1 - place;
        return;
    }
    const std::string name = std::string(who) + ": positions";
    held_.emplace(positions, Access::read, name.c_str());
    read_array(held_->layout(), like, place, name.c_str());
}

void PositionsOf::read_array(const Layout& from, const Layout& like, int place, const char* who) {
    if (from.element != Element::int64 && from.element != Element::int32) {
        refuse_type(who, "int64 or int32", name_of(from.element));
    }
    Positions& p = positions_;
    p.data = from.data;
    p.wide = from.element == Element::int64;
    const bool trailing = p.axes > 1 || from.rank == rank_ + 1;
    const int shape = from.rank - (trailing ? 1 : 0);
    if (trailing && (from.rank == 0 || from.size[shape] != p.axes)) {
        refuse(who, "a trailing axis of " + std::to_string(p.axes) + " coordinates",
               shape_text(from));
    }
    p.axis_stride = trailing ? from.stride[shape] : 0;
    leading_ = trailing && shape == rank_;
    const auto vary = [&](int64_t size, int64_t stride, int axis) {
        p.size[p.varying] = size;
        p.stride[p.varying] = stride;
        p.axis_from_end[p.varying++] = axis;
    };
    const int64_t tokens = like.size[place];
    const auto along_sequence = [&](int axis) {
        p.counted = from.size[axis] == 1 && tokens != 1;
        vary(tokens, from.stride[axis], like.rank - 1 - place);
        return from.size[axis] == tokens || from.size[axis] == 1;
    };
    bool fits = false;
    if (leading_) {
        fits = true;
        for (int i = 0; i < rank_; ++i) {
            if (i != place && from.size[i] != 1) {
                fits = fits && from.size[i] == like.size[i];
                vary(like.size[i], from.stride[i], like.rank - 1 - i);
            }
        }
        fits = along_sequence(place) && fits;
    } else if (shape == 1) {
        fits = along_sequence(0);
    } else if (shape == 2 && place > 0) {
        fits = from.size[0] == 1 || from.size[0] == like.size[0];
        if (from.size[0] != 1) {
            vary(like.size[0], from.stride[0], 0);
        }
        fits = along_sequence(1) && fits;
    }
    if (!fits) {
        refuse(who,
               "(seq,), (batch, seq) or the shape of the arrays before their channels, and a "
               "trailing axis of coordinates",
               shape_text(from) + " beside arrays of " + shape_text(like));
    }
}

void PositionsOf::check(const Layout& layout, int seq_dim, const char* who) const {
    const int place = layout.rank + seq_dim;
    bool fits = place >= 0 && layout.size[place] == positions_.tokens();
    fits = fits && (!leading_ || layout.rank == rank_ + 1);
    for (int v = 0; fits && v + 1 < positions_.varying; ++v) {
        const int from_end = positions_.axis_from_end[v];
        const int axis = from_end <= 0 ? 0 : layout.rank - 1 - from_end;
        fits = axis >= 0 && axis != place && layout.size[axis] == positions_.size[v];
    }
    if (!fits) {
        refuse(who, "arrays of one length along the sequence, and of one batch where positions vary",
               shape_text(layout));
    }
}

Operand::Operand(const Layout* x_layout, const Layout& y_layout, const Positions& positions) {
    const int rank = y_layout.rank - 1;
    bool taken[MAX_RANK] = {};
    x = x_layout == nullptr ? nullptr : x_layout->data;
    y = y_layout.data;
    for (int v = 0; v < positions.varying; ++v) {
        const int from_end = positions.axis_from_end[v];
        const int axis = from_end <= 0 ? 0 : rank - from_end;
        taken[axis] = true;
        x_step[v] = x_layout == nullptr ? 0 : x_layout->stride[axis];
        y_step[v] = y_layout.stride[axis];
    }
    for (int i = 0; i < rank; ++i) {
        if (taken[i] || y_layout.size[i] == 1) {
            continue;
        }
        size[free] = y_layout.size[i];
        x_free[free] = x_layout == nullptr ? 0 : x_layout->stride[i];
        y_free[free] = y_layout.stride[i];
        copies *= size[free++];
    }
    const int64_t token = std::abs(y_step[positions.varying - 1]);
    tokens_inside = free == 0 || (positions.tokens() > 1 && token <= std::abs(y_free[free - 1]));
}

void walk_rows(const Operand& operand, const Positions& positions, int64_t row, int64_t begin,
               int64_t count, int64_t copy_begin, int64_t copy_end,
               void (*visit)(void*, const Rows&), void* context) {
    const int last = positions.varying - 1;
    const int64_t x_token = operand.x_step[last];
    const int64_t y_token = operand.y_step[last];
    int64_t x_at = begin * x_token;
    int64_t y_at = begin * y_token;
    for (int v = last; v-- > 0; row /= positions.size[v]) {
        x_at += row % positions.size[v] * operand.x_step[v];
        y_at += row % positions.size[v] * operand.y_step[v];
    }
    const int inner = operand.free - 1;
    const auto place = [&](int64_t copy, const int64_t* steps, int64_t at) {
        for (int f = inner; f >= 0; copy /= operand.size[f--]) {
            at += copy % operand.size[f] * steps[f];
        }
        return at;
    };
    const auto x = [&](int64_t at) { return operand.x == nullptr ? nullptr : operand.x + at; };
    int64_t x_next = place(copy_begin, operand.x_free, x_at);
    int64_t y_next = place(copy_begin, operand.y_free, y_at);
    for (int64_t copy = copy_begin; copy < copy_end;) {
        const int64_t x_here = x_next;
        const int64_t y_here = y_next;
        const int64_t until =
            operand.tokens_inside ? 1 : operand.size[inner] - copy % operand.size[inner];
        const int64_t run = std::min(until, copy_end - copy);
        copy += run;
        const bool more = copy < copy_end;
        x_next = more ? place(copy, operand.x_free, x_at) : 0;
        y_next = more ? place(copy, operand.y_free, y_at) : 0;
        if (operand.tokens_inside) {
            visit(context, {x(x_here), operand.y + y_here, x_token, y_token, count,
                            more ? x(x_next) : nullptr, more ? operand.y + y_next : nullptr, 0, 1});
            continue;
        }
        for (int64_t t = 0; t < count; ++t) {
            const bool last_token = t + 1 == count;
            const int64_t up = t + 1;
            visit(context, {x(x_here + t * x_token), operand.y + y_here + t * y_token,
                            operand.x_free[inner], operand.y_free[inner], run,
                            last_token ? nullptr : x(x_here + up * x_token),
                            last_token ? nullptr : operand.y + y_here + up * y_token, t, 0});
        }
    }
}

namespace {

// Less than this is done before a second thread would be awake: a megabyte in the cache takes two as
// long as one. In bytes moved; a sine costs as much as some of them.
constexpr int64_t WORTH_A_THREAD = 3 << 18;
constexpr int64_t BYTES_PER_SINE = 8;
constexpr int64_t ITEMS_PER_THREAD = 4;

}  // namespace

Cut cut(const Positions& positions, const Operand* operands, int count, int64_t floats_per_token,
        int64_t bytes, int64_t sines, int threads, int64_t scratch_floats) {
    const int64_t worth = (bytes + sines * BYTES_PER_SINE) / WORTH_A_THREAD;
    const int64_t most = threads > 0 ? threads : default_threads();
    Cut made{};
    made.threads = static_cast<int>(std::max<int64_t>(1, std::min(most, worth)));
    const int64_t tokens = positions.tokens();
    const int64_t wanted = made.threads == 1 ? 1 : made.threads * ITEMS_PER_THREAD;
    const int64_t rows = std::max<int64_t>(1, positions.outer());
    const int64_t each = (tokens * rows + wanted - 1) / wanted;
    made.chunk = scratch_floats / std::max<int64_t>(1, floats_per_token);
    made.chunk = std::clamp<int64_t>(std::min(made.chunk, each), 1, std::max<int64_t>(1, tokens));
    made.chunks = (tokens + made.chunk - 1) / made.chunk;
    int64_t copies = 1;
    for (int o = 0; o < count; ++o) {
        copies = std::max(copies, operands[o].copies);
    }
    const int64_t items = std::max<int64_t>(1, rows * made.chunks);
    made.parts = std::clamp<int64_t>((wanted + items - 1) / items, 1, copies);
    return made;
}

namespace {

int64_t largest_cache() {
#if defined(POSENC_X86) && defined(_SC_LEVEL3_CACHE_SIZE)
    const long known = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return known > 0 ? known : 1 << 25;
#elif defined(POSENC_X86)
    return 1 << 25;
#else
    return INT64_MAX;  // nothing here goes past the caches of other processors
#endif
}

// Judged by one page in the middle.
bool is_handed_out(const Layout& x) {
#if defined(__linux__)
    uintptr_t at = reinterpret_cast<uintptr_t>(x.data);
    for (int i = 0; i < x.rank; ++i) {
        at += static_cast<uintptr_t>(x.size[i] / 2 * x.stride[i]);
    }
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    unsigned char found = 0;
    return mincore(reinterpret_cast<void*>(at / page * page), 1, &found) == 0 && (found & 1) != 0;
#else
    return x.rank > 0;
#endif
}

std::atomic<int64_t>& past_caches() {
    static std::atomic<int64_t> bytes{largest_cache()};
    return bytes;
}

}  // namespace

bool goes_past_caches(const Layout& result, int64_t bytes) {
    return bytes >= past_caches().load(std::memory_order_relaxed) && is_handed_out(result);
}

int64_t set_past_caches(int64_t bytes) { return past_caches().exchange(bytes); }

void finish_rows() {
#if defined(POSENC_X86)
    _mm_sfence();
#endif
}

float* scratch(int64_t floats) {
    thread_local std::vector<float> memory;
    const size_t needed = static_cast<size_t>(floats) + 16;
    if (memory.size() < needed) {
        memory.resize(needed);
    }
    // To a cache line: rows of full vectors then never straddle two.
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory.data());
    return reinterpret_cast<float*>((at + 63) / 64 * 64);
}

}  // namespace posenc
