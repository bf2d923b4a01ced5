#include <algorithm>

#include "plans.h"
#include "sweep.h"

namespace posenc {

namespace {

constexpr const char* WHO = "Rotation.turn";

// Of what is smaller than the second cache, most is there.
constexpr int64_t IN_NO_CACHE = 1 << 19;

struct TurnBody {
    PhaseMatrix matrix;
    int sign;
    Factor factor;
    const Turning* turnings;  // one for each array
    int64_t floats_per_token;
    int64_t extra_floats;

    void prepare(const int64_t* positions, int64_t count, float* memory) const {
        kernels().cos_sin(matrix, positions, count, sign, factor, memory,
                          memory + count * matrix.pairs);
    }

    void rows(int operand, const Rows& rows, const int64_t*, int64_t count, float* memory) const {
        const float* cos = memory + rows.index * matrix.pairs;
        const Run run = {rows.x,     rows.y,      rows.x_row,  rows.y_row,
                         rows.count, rows.x_next, rows.y_next, cos, cos + count * matrix.pairs, rows.next * matrix.pairs};
        kernels().turn(turnings[operand], run, memory + count * floats_per_token);
    }
};

}  // namespace

Rotation::Rotation(const Phases& phases, const std::string& source,
                   const std::string& target, const std::string& part,
                   const std::vector<int64_t>& blocks, int sign, double factor, bool divide)
    : phases_(phases),
      source_(static_cast<Order>(choice(source, {"half", "interleaved"}, "Rotation: source"))),
      target_(static_cast<Order>(choice(target, {"half", "interleaved"}, "Rotation: target"))),
      trailing_(choice(part, {"leading", "trailing"}, "Rotation: part") == 1),
      blocks_(blocks_of(blocks, phases_.pairs(), "Rotation")),
      sign_(sign),
      factor_{static_cast<float>(factor), divide} {
    if (sign != 1 && sign != -1) {
        refuse("Rotation: sign", "1 or -1", std::to_string(sign));
    }
    by_two_ = split(phases_);
}

// The same phases with the even pairs of each block before the odd ones, or none.
std::optional<Phases> Rotation::split(const Phases& phases) const {
    std::vector<int64_t> pairs;
    for (const Block& block : blocks_) {
        if (block.pairs % 2 != 0 || source_ != Order::half || target_ != Order::half) {
            return std::nullopt;
        }
        for (const int64_t odd : {0, 1}) {
            for (int64_t j = odd; j < block.pairs; j += 2) {
                pairs.push_back(block.pair + j);
            }
        }
    }
    return Phases(phases, pairs);
}

void Rotation::turn(nb::tuple arrays, nb::tuple results, nb::object positions, int seq_dim,
                    int threads) const {
    const int count = static_cast<int>(arrays.size());
    if (results.size() != arrays.size() || count < 1 || count > MAX_ARRAYS) {
        refuse(WHO, "one result for each of 1 to " + std::to_string(MAX_ARRAYS) + " arrays",
               std::to_string(results.size()) + " for " + std::to_string(count));
    }
    // In place, an array is asked about itself once.
    std::optional<Array> held[2 * MAX_ARRAYS];
    const Layout* x[MAX_ARRAYS] = {};
    const Layout* y[MAX_ARRAYS] = {};
    for (int i = 0; i < count; ++i) {
        const bool inplace = arrays[i].is(results[i]);
        held[2 * i].emplace(arrays[i], inplace ? Access::write : Access::read, WHO);
        x[i] = y[i] = &held[2 * i]->layout();
        if (!inplace) {
            held[2 * i + 1].emplace(results[i], Access::write, WHO);
            y[i] = &held[2 * i + 1]->layout();
        }
    }
    const int64_t pairs = phases_.pairs();
    for (int i = 0; i < count; ++i) {
        if (x[i]->element != x[0]->element) {
            refuse_type(WHO, std::string("arrays of one dtype, ") + name_of(x[0]->element),
                        name_of(x[i]->element));
        }
        if (x[i]->rank < 2 || x[i]->size[x[i]->rank - 1] < 2 * pairs) {
            refuse(WHO, "shape (..., seq, channels) with at least " + std::to_string(2 * pairs) +
                            " channels",
                   shape_text(*x[i]));
        }
        check_result(*x[i], *y[i], WHO);
        for (int j = 0; j < count; ++j) {
            if (j != i && (overlap(*y[i], *x[j]) || (j < i && overlap(*y[i], *y[j])))) {
                refuse(WHO, "arrays apart from each other", "a result that overlaps another array");
            }
        }
    }
    const Number number = number_of(*x[0], WHO);
    const PositionsOf where(positions, *x[0], seq_dim, phases_.axes(), WHO);
    Turning turnings[MAX_ARRAYS];
    int64_t bytes = 0;
    int64_t widest = 0;
    for (int i = 0; i < count; ++i) {
        where.check(*x[i], seq_dim, WHO);
        const int last = x[i]->rank - 1;
        const int64_t channels = x[i]->size[last];
        Turning& turning = turnings[i];
        turning.number = number;
        turning.source = source_;
        turning.target = target_;
        turning.blocks = {blocks_.data(), static_cast<int64_t>(blocks_.size())};
        turning.pairs = pairs;
        turning.channels = channels;
        turning.begin = trailing_ ? channels - 2 * pairs : 0;
        turning.x_stride = x[i]->stride[last];
        turning.y_stride = y[i]->stride[last];
        turning.aligned = x[i]->aligned() && y[i]->aligned();
        turning.copy_rest = channels > 2 * pairs && !x[i]->same_place(*y[i]);
        int64_t elements = 1;
        for (int a = 0; a <= last; ++a) {
            elements *= x[i]->size[a];
        }
        bytes += elements * size_of(number);
        widest = channels > widest ? channels : widest;
    }
    if (bytes == 0) {
        return;
    }
    std::vector<Operand> operands;
    operands.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
        operands.emplace_back(x[i], *y[i], *where);
    }
    const bool by_two = by_two_.has_value() && number == Number::bfloat16 &&
                        std::all_of(turnings, turnings + count,
                                    [](const Turning& turning) { return turning.direct(); });
    for (int i = 0; i < count; ++i) {
        Turning& turning = turnings[i];
        turning.by_two = by_two;
        turning.ahead = bytes >= IN_NO_CACHE;
        turning.past = turning.y_stride == size_of(number) && turning.blocks.count == 1 &&
                       turning.channels == 2 * pairs && !x[i]->same_place(*y[i]) &&
                       goes_past_caches(*y[i], 2 * bytes);
    }
    const TurnBody body{(by_two ? *by_two_ : phases_).matrix(), sign_, factor_, turnings, 2 * pairs, 4 * pairs};
    const int64_t sines = 2 * pairs * where->outer() * where->tokens();
    const Cut how = cut(*where, operands.data(), count, body.floats_per_token, bytes, sines, threads);
    if (how.threads == 1 && bytes < (1 << 16)) {
        sweep(*where, operands.data(), count, body, how);
        return;
    }
    const nb::gil_scoped_release others_may_run;
    sweep(*where, operands.data(), count, body, how);
}

}  // namespace posenc
