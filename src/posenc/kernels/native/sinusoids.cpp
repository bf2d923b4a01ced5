#include "plans.h"
#include "sweep.h"

namespace posenc {

namespace {

struct RowsBody {
    PhaseMatrix matrix;
    TableLayout layout;
    Emission emission;
    const int64_t* pad;
    bool direct;  // rows go straight to their places
    int64_t floats_per_token;
    int64_t extra_floats;

    // Rows stand first, then what they were laid out from.
    void prepare(const int64_t* positions, int64_t count, float* memory) const {
        if (direct) {
            return;
        }
        if (kernels().can_write_rows(layout, matrix) && pad == nullptr) {
            kernels().write_rows(layout, matrix, positions, count,
                                 reinterpret_cast<char*>(memory), 4 * layout.dim);
            return;
        }
        float* cos = memory + count * layout.dim;
        float* sin = cos + count * matrix.pairs;
        kernels().cos_sin(matrix, positions, count, 1, {}, cos, sin);
        kernels().lay_out(layout, matrix.pairs, cos, sin, count, memory);
        for (int64_t t = 0; pad != nullptr && t < count; ++t) {
            if (positions[t * matrix.axes] == *pad) {
                for (int64_t i = 0; i < layout.dim; ++i) {
                    memory[t * layout.dim + i] = 0.0F;
                }
            }
        }
    }

    void rows(int, const Rows& rows, const int64_t* positions, int64_t count, float* memory) const {
        if (direct) {
            kernels().write_rows(layout, matrix, positions, rows.count, rows.y, rows.y_row);
            return;
        }
        kernels().emit(emission, rows.x, rows.x_row, rows.y, rows.y_row, rows.count,
                       memory + rows.index * layout.dim, rows.next * layout.dim,
                       memory + count * floats_per_token);
    }
};

}  // namespace

Sinusoids::Sinusoids(const Phases& phases, int64_t dim, const std::string& order,
                     const std::vector<int64_t>& blocks, bool lone_sine, double factor,
                     std::optional<int64_t> pad)
    : phases_(phases),
      blocks_(blocks_of(blocks, phases_.pairs(), "Sinusoids")),
      pad_(pad) {
    if (dim < 0) {
        refuse("Sinusoids: dim", "a width", std::to_string(dim));
    }
    const int chosen = choice(order, {"interleaved", "sin_cos", "cos_sin"}, "Sinusoids: order");
    layout_.order = static_cast<Columns>(chosen);
    layout_.dim = dim;
    layout_.lone_sine = lone_sine;
    layout_.factor = static_cast<float>(factor);
    layout_.blocks = {blocks_.data(), static_cast<int64_t>(blocks_.size())};
}

void Sinusoids::table(nb::object result, nb::object positions, int threads) const {
    const char* who = "Sinusoids.table";
    const Array to(result, Access::write, who);
    check_distinct(to.layout(), who);
    write(nullptr, to.layout(), positions, 1.0F, -2, threads, who);
}

void Sinusoids::add(nb::object array, nb::object result, nb::object positions, double scale,
                    int seq_dim, int threads) const {
    const char* who = "Sinusoids.add";
    const bool inplace = array.is(result);
    const Array from(array, inplace ? Access::write : Access::read, who);
    std::optional<Array> to;
    if (!inplace) {
        to.emplace(result, Access::write, who);
    }
    const Layout& y = inplace ? from.layout() : to->layout();
    check_result(from.layout(), y, who);
    write(&from.layout(), y, positions, static_cast<float>(scale), seq_dim, threads, who);
}

void Sinusoids::write(const Layout* x, const Layout& y, nb::handle positions, float scale,
                      int seq_dim, int threads, const char* who) const {
    const Number number = number_of(y, who);
    const int last = y.rank - 1;
    if (y.rank < 2 || y.size[last] != layout_.dim) {
        refuse(who, "shape (..., seq, " + std::to_string(layout_.dim) + ")", shape_text(y));
    }
    const PositionsOf where(positions, y, seq_dim, phases_.axes(), who);
    if (y.empty()) {
        return;
    }
    const Operand operand(x, y, *where);
    const int64_t tokens = where->outer() * where->tokens();
    const int64_t bytes = tokens * operand.copies * layout_.dim * size_of(number);
    const bool past = x != nullptr && !x->same_place(y) && y.stride[last] == size_of(number) &&
                      goes_past_caches(y, 2 * bytes);
    const Emission emission = {number,
                               layout_.dim,
                               x == nullptr ? 0 : x->stride[last],
                               y.stride[last],
                               y.aligned() && (x == nullptr || x->aligned()),
                               scale,
                               past};
    const bool direct = x == nullptr && number == Number::float32 && emission.aligned &&
                        emission.y_stride == 4 && operand.copies == 1 && !pad_.has_value() &&
                        kernels().can_write_rows(layout_, phases_.matrix());
    const RowsBody body{phases_.matrix(), layout_, emission,
                        pad_.has_value() ? &*pad_ : nullptr, direct,
                        layout_.dim + 2 * phases_.pairs(), layout_.dim};
    const Cut how = cut(*where, &operand, 1, body.floats_per_token, bytes,
                        2 * tokens * phases_.pairs(), threads,
                        x == nullptr ? SCRATCH_FLOATS : SCRATCH_OF_SUMS);
    const nb::gil_scoped_release others_may_run;
    sweep(*where, &operand, 1, body, how);
}

}  // namespace posenc
