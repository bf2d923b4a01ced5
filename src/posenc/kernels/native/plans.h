// What belongs to a spec, made once, and the calls that take arrays.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "rows.h"

namespace posenc {

class Phases {
public:
    Phases(nb::object step, nb::object origin);
    // Some of the pairs of others, in another order.
    Phases(const Phases& others, const std::vector<int64_t>& pairs);

    int64_t axes() const { return axes_; }
    int64_t pairs() const { return pairs_; }
    PhaseMatrix matrix() const {
        return {step_.data(), origin_.empty() ? nullptr : origin_.data(), axes_, pairs_};
    }

    void cos_sin(nb::object positions, nb::object cos, nb::object sin, double factor, bool divide,
                 int threads) const;
    void integers(nb::object positions, nb::object quadrant, nb::object residual) const;

private:
    std::vector<uint64_t> step_, origin_;
    int64_t axes_ = 0;
    int64_t pairs_ = 0;
};

// Plans hold copies of their phases. A shared pointer of nanobind's would give its reference back
// through PyGILState_Ensure, which waits for ever in a sub-interpreter.
class Rotation {
public:
    Rotation(const Phases& phases, const std::string& source, const std::string& target,
             const std::string& part, const std::vector<int64_t>& blocks, int sign, double factor,
             bool divide);

    void turn(nb::tuple arrays, nb::tuple results, nb::object positions, int seq_dim,
              int threads) const;

private:
    std::optional<Phases> split(const Phases& phases) const;

    Phases phases_;
    std::optional<Phases> by_two_;  // for neighbouring pairs that share a word
    Order source_, target_;
    bool trailing_;
    std::vector<Block> blocks_;
    int sign_;
    Factor factor_;
};

class Sinusoids {
public:
    Sinusoids(const Phases& phases, int64_t dim, const std::string& order,
              const std::vector<int64_t>& blocks, bool lone_sine, double factor,
              std::optional<int64_t> pad);

    void table(nb::object result, nb::object positions, int threads) const;
    void add(nb::object array, nb::object result, nb::object positions, double scale, int seq_dim,
             int threads) const;

private:
    void write(const Layout* x, const Layout& y, nb::handle positions, float scale, int seq_dim,
               int threads, const char* who) const;

    Phases phases_;
    std::vector<Block> blocks_;
    TableLayout layout_{};
    std::optional<int64_t> pad_;
};

// Raise unless every distance between queries and keys fits 64 bits. To `rows`, unless it is none,
// goes the number of each distance among those from the first to the last, which stand for all
// beyond them.
void check_near(nb::object q_positions, nb::object k_positions, nb::object rows,
                std::pair<int64_t, int64_t> ends, bool backward);

void alibi(nb::object result, nb::object q_positions, nb::object k_positions, nb::object slopes,
           const std::string& form, int threads);

void buckets(nb::object result, nb::object q_positions, nb::object k_positions,
             nb::object thresholds, nb::object weight, const std::string& direction, int threads);

// --- shared by the plans ----------------------------------------------------------------------

// The element as a number of the inner loops; integers are refused.
Number number_of(const Layout& layout, const char* who);

// Raise unless `to` may be written from `from`: one shape and dtype, and one place or none shared.
void check_result(const Layout& from, const Layout& to, const char* who);

// Raise unless every element of a result is an element of its own.
void check_distinct(const Layout& to, const char* who);

std::vector<Block> blocks_of(const std::vector<int64_t>& sizes, int64_t pairs, const char* who);

// The number of a word among some, or an error that lists them.
int choice(const std::string& word, std::initializer_list<const char*> words, const char* who);

}  // namespace posenc
