// Biases on attention scores: (heads, q, k), from positions of queries and keys.
#include <algorithm>
#include <cstring>

#include "plans.h"
#include "sweep.h"

namespace posenc {

namespace {

constexpr int64_t SOME = 1024;  // keys at a time, so that what heads share stays in the cache
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

    // Call row(h, m, begin, count, to) for pieces of rows, all heads of a piece in turn.
    template <class Shared, class Row>
    void fill(int asked, const Shared& shared, const Row& row) const {
        const int64_t heads = y.size[0];
        const int64_t pieces = (y.size[2] + SOME - 1) / SOME;
        const int64_t bytes = heads * y.size[1] * y.size[2] * size_of(number);
        const int64_t most = asked > 0 ? asked : default_threads();
        const int threads = static_cast<int>(
            std::max<int64_t>(1, std::min(most, bytes / WORTH_A_THREAD)));
        auto item = [&](int64_t i) {
            float* memory = scratch(2 * SOME);
            int32_t* index = reinterpret_cast<int32_t*>(memory + SOME);
            const int64_t m = i / pieces;
            const int64_t begin = i % pieces * SOME;
            const int64_t count = std::min(SOME, y.size[2] - begin);
            shared(m, begin, count, index);
            const Emission emission = {number, count, 0, y.stride[2], true, 1.0F};
            char* to = y.data + m * y.stride[1] + begin * y.stride[2];
            for (int64_t h = 0; h < heads; ++h) {
                row(h, m, begin, count, index, memory);
                kernels().emit(emission, nullptr, 0, to + h * y.stride[0], 0, 1, memory, 0);
            }
        };
        const nb::gil_scoped_release others_may_run;
        share(threads, y.size[1] * pieces, item);
    }

    Layout y;
    Number number;
};

}  // namespace

void alibi(nb::object result, nb::object q_positions, nb::object k_positions, nb::object slopes,
           const std::string& form, int threads) {
    const char* who = "alibi";
    const Array to(result, Access::write, who);
    const Target target(to.layout(), who);
    const std::vector<int64_t> q = positions_of(q_positions, to->size[1], "alibi: q_positions");
    const std::vector<int64_t> k = positions_of(k_positions, to->size[2], "alibi: k_positions");
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
    target.fill(
        threads, [](int64_t, int64_t, int64_t, int32_t*) {},
        [&](int64_t h, int64_t m, int64_t begin, int64_t count, const int32_t*, float* row) {
            kernels().distances(rule, slope[h], q[m], k.data() + begin, count, row);
        });
}

void buckets(nb::object result, nb::object q_positions, nb::object k_positions,
             nb::object thresholds, nb::object weight, const std::string& direction, int threads) {
    const char* who = "buckets";
    const Array to(result, Access::write, who);
    const Target target(to.layout(), who);
    const std::vector<int64_t> q = positions_of(q_positions, to->size[1], "buckets: q_positions");
    const std::vector<int64_t> k = positions_of(k_positions, to->size[2], "buckets: k_positions");
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
    target.fill(
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
