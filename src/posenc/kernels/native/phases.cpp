#include <cstring>

#include "plans.h"
#include "sweep.h"

namespace posenc {

namespace {

// A copy of int64 entries of any strides, of rank 1 or 2.
std::vector<uint64_t> words_of(const Layout& from) {
    std::vector<uint64_t> words;
    const int64_t rows = from.rank == 2 ? from.size[0] : 1;
    const int64_t columns = from.size[from.rank - 1];
    words.reserve(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
            uint64_t word;
            const int64_t at = (from.rank == 2 ? r * from.stride[0] : 0) + c * from.stride[from.rank - 1];
            std::memcpy(&word, from.data + at, 8);
            words.push_back(word);
        }
    }
    return words;
}

struct CosSinBody {
    PhaseMatrix matrix;
    Factor factor;
    Emission emission;
    int64_t floats_per_token = 2 * matrix.pairs;
    int64_t extra_floats = 0;

    void prepare(const int64_t* positions, int64_t count, float* memory) const {
        kernels().cos_sin(matrix, positions, count, 1, factor, memory, memory + count * matrix.pairs);
    }

    void rows(int operand, const Rows& rows, const int64_t*, int64_t count, const float* memory) const {
        const float* from = memory + (operand * count + rows.index) * matrix.pairs;
        Emission own = emission;
        own.y_stride = channel[operand];
        kernels().emit(own, nullptr, 0, rows.y, rows.y_row, rows.count, from,
                       rows.next * matrix.pairs, nullptr);
    }

    int64_t channel[2];
};

}  // namespace

Phases::Phases(nb::object step, nb::object origin) {
    const Array steps(step, Access::read, "Phases: step");
    if (steps->element != Element::int64) {
        refuse_type("Phases: step", "int64", name_of(steps->element));
    }
    if (steps->rank != 2 || steps->size[0] < 1) {
        refuse("Phases: step", "shape (axes, pairs)", shape_text(steps.layout()));
    }
    axes_ = steps->size[0];
    pairs_ = steps->size[1];
    step_ = words_of(steps.layout());
    if (!origin.is_none()) {
        const Array origins(origin, Access::read, "Phases: origin");
        if (origins->element != Element::int64) {
            refuse_type("Phases: origin", "int64", name_of(origins->element));
        }
        if (origins->rank != 1 || origins->size[0] != pairs_) {
            refuse("Phases: origin", "shape (" + std::to_string(pairs_) + ",)",
                   shape_text(origins.layout()));
        }
        origin_ = words_of(origins.layout());
    }
}

Phases::Phases(const Phases& others, const std::vector<int64_t>& pairs)
    : axes_(others.axes_), pairs_(static_cast<int64_t>(pairs.size())) {
    for (int64_t a = 0; a < axes_; ++a) {
        for (const int64_t j : pairs) {
            step_.push_back(others.step_[static_cast<size_t>(a * others.pairs_ + j)]);
        }
    }
    for (const int64_t j : pairs) {
        if (!others.origin_.empty()) {
            origin_.push_back(others.origin_[static_cast<size_t>(j)]);
        }
    }
}

void Phases::cos_sin(nb::object positions, nb::object cos, nb::object sin, double factor,
                     bool divide, int threads) const {
    const char* who = "Phases.cos_sin";
    const Array c(cos, Access::write, "Phases.cos_sin: cos");
    const Array s(sin, Access::write, "Phases.cos_sin: sin");
    const Number number = number_of(c.layout(), who);
    check_result(c.layout(), s.layout(), who);
    check_distinct(c.layout(), who);
    if (c->rank < 2 || c->size[c->rank - 1] != pairs_) {
        refuse(who, "shape (..., seq, " + std::to_string(pairs_) + ")", shape_text(c.layout()));
    }
    if (c->same_place(s.layout())) {
        refuse(who, "two arrays", "one for both");
    }
    const PositionsOf where(positions, c.layout(), -2, axes_, who);
    if (c->empty()) {
        return;
    }
    const Operand operands[] = {Operand(nullptr, c.layout(), *where),
                                Operand(nullptr, s.layout(), *where)};
    const Factor size{static_cast<float>(factor), divide};
    const int last = c->rank - 1;
    const CosSinBody body{matrix(), size, {number, pairs_, 0, 0, true, 1.0F}, 2 * pairs_, 0,
                          {c->stride[last], s->stride[last]}};
    const int64_t tokens = where->outer() * where->tokens();
    const int64_t entries = tokens * pairs_ * operands[0].copies;
    const Cut how = cut(*where, operands, 2, body.floats_per_token, 2 * entries * size_of(number),
                        2 * tokens * pairs_, threads);
    const nb::gil_scoped_release others_may_run;
    sweep(*where, operands, 2, body, how);
}

void Phases::integers(nb::object positions, nb::object quadrant, nb::object residual) const {
    const char* who = "Phases.integers";
    const Array p(positions, Access::read, who);
    const Array q(quadrant, Access::write, who);
    const Array r(residual, Access::write, who);
    for (const Array* array : {&p, &q, &r}) {
        const int64_t width = array == &p ? axes_ : pairs_;
        const Layout& layout = array->layout();
        const bool contiguous = layout.rank == 2 && layout.size[0] == p->size[0] &&
                                layout.size[1] == width && layout.aligned() &&
                                (layout.size[1] <= 1 || layout.stride[1] == 8) &&
                                (layout.size[0] <= 1 || layout.stride[0] == 8 * width);
        if (layout.element != Element::int64 || !contiguous) {
            refuse(who, "contiguous int64 of shape (n, " + std::to_string(width) + ")",
                   std::string(name_of(layout.element)) + " of " + shape_text(layout));
        }
    }
    if (overlap(q.layout(), r.layout()) || overlap(p.layout(), q.layout()) ||
        overlap(p.layout(), r.layout())) {
        refuse(who, "three arrays apart", "arrays that overlap");
    }
    if (p->empty() || q->empty()) {
        return;
    }
    kernels().integers(matrix(), reinterpret_cast<const int64_t*>(p->data), p->size[0],
                       reinterpret_cast<int64_t*>(q->data), reinterpret_cast<int64_t*>(r->data));
}

}  // namespace posenc
