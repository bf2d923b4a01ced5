// Biases on attention scores: (heads, q, k), from positions of queries and keys.
#include <algorithm>
#include <cstring>

#include "plans.h"
#include "sweep.h"

namespace posenc {

namespace {

constexpr int64_t SOME = 4096;  // keys at a time, so that what heads share stays in the cache
constexpr int64_t ROWS = 16;    // at a time
constexpr int64_t WORTH_A_THREAD = 1 << 19;

std::vector<int64_t> positions_of(nb::handle object, int64_t count, const char* who) {
    const Array array(object, Access::read, who);
    if (array->element != Element::int64 && array->element != Element::int32) {
        refuse_type(who, "int64 or int32", name_of(array->element));
    }
    if (array->rank != 1 || array->size[0] != count) {
        refuse(who, "shape (" + std::to_string(count) + ",)", shape_text(array.layout()));
    }
    std::vector<int64_t> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
        const char* from = array->data + i * array->stride[0];
        int32_t narrow;
        if (array->element == Element::int64) {
            std::memcpy(&values[i], from, 8);
        } else {
            std::memcpy(&narrow, from, 4);
            values[i] = narrow;
        }
    }
    return values;
}

// Distances that do not fit their integers are for the reference, which has the words for them.
void must_be_near(const std::vector<int64_t>& q, const std::vector<int64_t>& k, const char* who) {
    if (q.empty() || k.empty()) {
        return;
    }
    const auto [q_low, q_high] = std::minmax_element(q.begin(), q.end());
    const auto [k_low, k_high] = std::minmax_element(k.begin(), k.end());
    int64_t far;
    if (__builtin_sub_overflow(*k_high, *q_low, &far) || __builtin_sub_overflow(*q_high, *k_low, &far)) {
        refuse(who, "queries and keys less than 2**63 apart", "others");
    }
}

bool count_up(const std::vector<int64_t>& n) {
    for (size_t i = 1; i < n.size(); ++i) {
        if (n[i - 1] == INT64_MAX || n[i] != n[i - 1] + 1) {
            return false;
        }
    }
    return true;
}

// n - m, which may wrap.
int64_t difference(int64_t n, int64_t m) {
    return static_cast<int64_t>(static_cast<uint64_t>(n) - static_cast<uint64_t>(m));
}

float float_at(const Layout& layout, int64_t offset) {
    float value;
    std::memcpy(&value, layout.data + offset, 4);
    return value;
}

void must_be_float32(const Layout& layout, const char* who) {
    if (layout.element != Element::float32) {
        refuse_type(who, "float32", name_of(layout.element));
    }
}

struct Target {
    Target(const Layout& layout, const char* who) : y(layout), number(number_of(layout, who)) {
        if (layout.rank != 3) {
            refuse(who, "a result of shape (heads, q, k)", shape_text(layout));
        }
        check_distinct(layout, who);
    }

    // Call shared(m, begin, count, index) for pieces of rows, then row(h, …, index, to) for the same
    // piece of every head.
    template <class Shared, class Row>
    void by_query(int asked, const Shared& shared, const Row& row) const {
        const int64_t pieces = (y.size[2] + SOME - 1) / SOME;
        auto item = [&](int64_t i) {
            float* memory = scratch(2 * SOME);
            int32_t* index = reinterpret_cast<int32_t*>(memory + SOME);
            const int64_t m = i / pieces;
            const int64_t begin = i % pieces * SOME;
            const int64_t count = std::min(SOME, y.size[2] - begin);
            shared(m, begin, count, index);
            for (int64_t h = 0; h < y.size[0]; ++h) {
                put(h, m, begin, count, memory,
                    [&](float* to) { row(h, m, begin, count, index, to); });
            }
        };
        const nb::gil_scoped_release others_may_run;
        share(threads(asked), y.size[1] * pieces, item);
    }

    // Call row(h, m, begin, count, to) in the order of memory, where heads share nothing.
    template <class Row>
    void by_head(int asked, const Row& row) const {
        const int64_t groups = (y.size[1] + ROWS - 1) / ROWS;
        auto item = [&](int64_t i) {
            float* memory = scratch(SOME);
            const int64_t h = i / groups;
            const int64_t first = i % groups * ROWS;
            for (int64_t m = first; m < std::min(first + ROWS, y.size[1]); ++m) {
                for (int64_t begin = 0; begin < y.size[2]; begin += SOME) {
                    const int64_t count = std::min(SOME, y.size[2] - begin);
                    put(h, m, begin, count, memory,
                        [&](float* to) { row(h, m, begin, count, to); });
                }
            }
        };
        const nb::gil_scoped_release others_may_run;
        share(threads(asked), y.size[0] * groups, item);
    }

private:
    int threads(int asked) const {
        const int64_t bytes = y.size[0] * y.size[1] * y.size[2] * size_of(number);
        const int64_t most = asked > 0 ? asked : default_threads();
        return static_cast<int>(std::max<int64_t>(1, std::min(most, bytes / WORTH_A_THREAD)));
    }

    // Let `write` fill the place of some entries, or memory that is then copied there.
    template <class Write>
    void put(int64_t h, int64_t m, int64_t begin, int64_t count, float* memory,
             const Write& write) const {
        char* to = y.data + h * y.stride[0] + m * y.stride[1] + begin * y.stride[2];
        if (number == Number::float32 && y.stride[2] == 4 && y.aligned()) {
            write(reinterpret_cast<float*>(to));
            return;
        }
        write(memory);
        const Emission emission = {number, count, 0, y.stride[2], true, 1.0F};
        kernels().emit(emission, nullptr, 0, to, 0, 1, memory, 0, nullptr);
    }

    Layout y;
    Number number;
};

constexpr int64_t LONGEST_WINDOW = 1 << 14;

// The biases of each head at distances -reach to reach; beyond them nothing changes.
class Window {
public:
    Window(const std::vector<int32_t>& limits, bool both, int32_t side, int64_t reach,
           const std::vector<float>& values, int64_t heads)
        : reach_(reach), width_(2 * reach + 1) {
        std::vector<int64_t> rel(static_cast<size_t>(width_));
        std::vector<int32_t> bucket(rel.size());
        for (int64_t i = 0; i < width_; ++i) {
            rel[static_cast<size_t>(i)] = i - reach;
        }
        kernels().buckets(limits.data(), static_cast<int64_t>(limits.size()), both, side, 0,
                          rel.data(), width_, bucket.data());
        biases_.resize(static_cast<size_t>(heads * width_));
        const int64_t rows = static_cast<int64_t>(values.size()) / std::max<int64_t>(heads, 1);
        for (int64_t h = 0; h < heads; ++h) {
            kernels().gather(values.data() + h * rows, bucket.data(), width_,
                             biases_.data() + h * width_);
        }
    }

    // The biases of a head at distances first, first + 1, …
    void write(int64_t head, int64_t first, int64_t count, float* to) const {
        const float* from = biases_.data() + head * width_;
        // How many lie before the window, and how many of the rest within it.
        const int64_t before =
            first >= -reach_ ? 0 : (first < -reach_ - count ? count : -reach_ - first);
        const int64_t start = before > 0 ? -reach_ : first;
        const int64_t within =
            start > reach_ ? 0 : std::min(count - before, reach_ - start + 1);
        kernels().fill(from[0], before, to);
        if (within > 0) {
            std::copy(from + start + reach_, from + start + reach_ + within, to + before);
        }
        kernels().fill(from[width_ - 1], count - before - within, to + before + within);
    }

private:
    int64_t reach_, width_;
    std::vector<float> biases_;
};

}  // namespace

void check_near(nb::object q_positions, nb::object k_positions, nb::object rows,
                std::pair<int64_t, int64_t> ends, bool backward) {
    const char* who = "check_near";
    std::vector<int64_t> sides[2];
    const nb::object given[] = {q_positions, k_positions};
    for (int side = 0; side < 2; ++side) {
        const Array array(given[side], Access::read, who);
        const int64_t count = array->rank == 1 ? array->size[0] : -1;
        sides[side] = positions_of(given[side], count, who);
    }
    const auto& [q, k] = sides;
    must_be_near(q, k, who);
    if (rows.is_none()) {
        return;
    }
    const auto [first, last] = ends;
    if (first > 0 || last < 0) {
        refuse(who, "ends around 0", std::to_string(first) + " and " + std::to_string(last));
    }
    const Array to(rows, Access::write, who);
    const int64_t queries = static_cast<int64_t>(q.size());
    const int64_t keys = static_cast<int64_t>(k.size());
    if (to->element != Element::int64) {
        refuse_type(who, "int64", name_of(to->element));
    }
    if (to->rank != 3 || to->size[0] != 1 || to->size[1] != queries || to->size[2] != keys) {
        refuse(who, "rows of shape (1, q, k)", shape_text(to.layout()));
    }
    check_distinct(to.layout(), who);
    for (int64_t m = 0; m < queries; ++m) {
        char* row = to->data + m * to->stride[1];
        for (int64_t n = 0; n < keys; ++n) {
            const int64_t apart = backward ? difference(q[m], k[n]) : difference(k[n], q[m]);
            const int64_t place = std::clamp(apart, first, last) - first;
            std::memcpy(row + n * to->stride[2], &place, 8);
        }
    }
}

void alibi(nb::object result, nb::object q_positions, nb::object k_positions, nb::object slopes,
           const std::string& form, int threads) {
    const char* who = "alibi";
    const Array to(result, Access::write, who);
    const Target target(to.layout(), who);
    const std::vector<int64_t> q = positions_of(q_positions, to->size[1], "alibi: q_positions");
    const std::vector<int64_t> k = positions_of(k_positions, to->size[2], "alibi: k_positions");
    must_be_near(q, k, who);
    const auto rule = static_cast<Distances>(
        choice(form, {"symmetric", "causal", "key_only"}, "alibi: form"));
    const Array factors(slopes, Access::read, "alibi: slopes");
    must_be_float32(factors.layout(), "alibi: slopes");
    if (factors->rank != 1 || factors->size[0] != to->size[0]) {
        refuse("alibi: slopes", "one for each of " + std::to_string(to->size[0]) + " heads",
               shape_text(factors.layout()));
    }
    if (overlap(to.layout(), factors.layout())) {
        refuse("alibi: slopes", "memory apart from the result", "an overlap");
    }
    std::vector<float> slope;
    for (int64_t h = 0; h < to->size[0]; ++h) {
        slope.push_back(float_at(factors.layout(), h * factors->stride[0]));
    }
    const bool neighbours = count_up(k);
    target.by_head(
        threads, [&](int64_t h, int64_t m, int64_t begin, int64_t count, float* row) {
            const int64_t from = rule == Distances::key_only ? 0 : q[m];
            const int64_t first = difference(k[begin], from);
            if (neighbours && first > -(1LL << 30) && first < 1LL << 30) {
                kernels().near_distances(rule, slope[h], static_cast<int32_t>(first), count, row);
            } else {
                kernels().distances(rule, slope[h], q[m], k.data() + begin, count, row);
            }
        });
}

void buckets(nb::object result, nb::object q_positions, nb::object k_positions,
             nb::object thresholds, nb::object weight, const std::string& direction, int threads) {
    const char* who = "buckets";
    const Array to(result, Access::write, who);
    const Target target(to.layout(), who);
    const std::vector<int64_t> q = positions_of(q_positions, to->size[1], "buckets: q_positions");
    const std::vector<int64_t> k = positions_of(k_positions, to->size[2], "buckets: k_positions");
    must_be_near(q, k, who);
    const bool both =
        choice(direction, {"bidirectional", "causal"}, "buckets: direction") == 0;
    const Array rising(thresholds, Access::read, "buckets: thresholds");
    const int64_t size = rising->rank == 1 ? rising->size[0] : 0;
    if (rising->element != Element::int32 || size < 1 || size > 1 << 20 || (size & (size + 1)) != 0) {
        refuse("buckets: thresholds", "int32 of shape (2**s - 1,)",
               std::string(name_of(rising->element)) + " of " + shape_text(rising.layout()));
    }
    std::vector<int32_t> limits(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
        std::memcpy(&limits[i], rising->data + i * rising->stride[0], 4);
    }
    const Array table(weight, Access::read, "buckets: weight");
    must_be_float32(table.layout(), "buckets: weight");
    if (table->rank != 2 || table->size[1] != to->size[0] || table->size[0] < 1 ||
        (both && table->size[0] % 2 != 0)) {
        refuse("buckets: weight",
               "shape (buckets, " + std::to_string(to->size[0]) + "), an even number if bidirectional",
               shape_text(table.layout()));
    }
    // Every bucket that can come out must be a row of the weights: thresholds that a distance can
    // reach are one fewer.
    const int64_t side = both ? table->size[0] / 2 : table->size[0];
    const int64_t reached =
        std::count_if(limits.begin(), limits.end(), [](int32_t t) { return t != INT32_MAX; });
    if (!std::is_sorted(limits.begin(), limits.end()) || reached >= side) {
        refuse("buckets: thresholds",
               "at most " + std::to_string(side - 1) + " rising ones below 2**31 - 1",
               std::to_string(reached));
    }
    if (overlap(to.layout(), table.layout()) || overlap(to.layout(), rising.layout())) {
        refuse(who, "memory apart from the result", "an overlap");
    }
    const int64_t rows = table->size[0];
    std::vector<float> values(static_cast<size_t>(rows * to->size[0]));
    for (int64_t h = 0; h < to->size[0]; ++h) {
        for (int64_t b = 0; b < rows; ++b) {
            values[h * rows + b] =
                float_at(table.layout(), b * table->stride[0] + h * table->stride[1]);
        }
    }
    // Where keys count up, every row of a head is a window of one sequence of numbers, which is
    // constant beyond the last threshold on both sides.
    const int64_t reach = reached == 0 ? 1 : limits[static_cast<size_t>(reached - 1)];
    if (count_up(k) && reach <= LONGEST_WINDOW) {
        const Window window(limits, both, static_cast<int32_t>(side), reach, values, to->size[0]);
        target.by_head(
            threads, [&](int64_t h, int64_t m, int64_t begin, int64_t count, float* row) {
                window.write(h, difference(k[begin], q[m]), count, row);
            });
        return;
    }
    target.by_query(
        threads,
        [&](int64_t m, int64_t begin, int64_t count, int32_t* index) {
            kernels().buckets(limits.data(), size, both, static_cast<int32_t>(side), q[m],
                              k.data() + begin, count, index);
        },
        [&](int64_t h, int64_t, int64_t, int64_t count, const int32_t* index, float* row) {
            kernels().gather(values.data() + h * rows, index, count, row);
        });
}

}  // namespace posenc
