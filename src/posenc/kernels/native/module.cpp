// The Python module; `_native.pyi` beside it says what each call does.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "instruction_sets.h"
#include "plans.h"
#include "processors.h"
#include "sweep.h"
#include "team.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_native, m) {
    // Plans live as long as their specs, and those of a program live until it ends.
    nb::set_leak_warnings(false);
    posenc::watch_forks();
    m.attr("INTERFACE") = 3;

    nb::class_<posenc::Phases>(m, "Phases", nb::is_final())
        .def(nb::init<nb::object, nb::object>(), "step"_a, "origin"_a = nb::none())
        .def_prop_ro("axes", &posenc::Phases::axes)
        .def_prop_ro("pairs", &posenc::Phases::pairs)
        .def("cos_sin", &posenc::Phases::cos_sin, "positions"_a, "cos"_a, "sin"_a,
             "factor"_a = 1.0, "divide"_a = false, "threads"_a = 0)
        .def("integers", &posenc::Phases::integers, "positions"_a, "quadrant"_a, "residual"_a);

    nb::class_<posenc::Rotation>(m, "Rotation", nb::is_final())
        .def(nb::init<const posenc::Phases&, const std::string&, const std::string&,
                      const std::string&, const std::vector<int64_t>&, int, double, bool>(),
             "phases"_a, "source"_a = "half", "target"_a = "half", "part"_a = "leading",
             "blocks"_a = std::vector<int64_t>(), "sign"_a = 1, "factor"_a = 1.0,
             "divide"_a = false)
        .def("turn", &posenc::Rotation::turn, "arrays"_a, "results"_a, "positions"_a = 0,
             "seq_dim"_a = -2, "threads"_a = 0);

    nb::class_<posenc::Sinusoids>(m, "Sinusoids", nb::is_final())
        .def(nb::init<const posenc::Phases&, int64_t, const std::string&,
                      const std::vector<int64_t>&, bool, double, std::optional<int64_t>>(),
             "phases"_a, "dim"_a, "order"_a = "interleaved", "blocks"_a = std::vector<int64_t>(),
             "lone_sine"_a = false, "factor"_a = 1.0, "pad"_a = nb::none())
        .def("table", &posenc::Sinusoids::table, "result"_a, "positions"_a = 0, "threads"_a = 0)
        .def("add", &posenc::Sinusoids::add, "array"_a, "result"_a, "positions"_a = 0,
             "scale"_a = 1.0, "seq_dim"_a = -2, "threads"_a = 0);

    m.def("check_near", &posenc::check_near, "q_positions"_a, "k_positions"_a,
          "rows"_a = nb::none(), "ends"_a = std::pair<int64_t, int64_t>(0, 0), "backward"_a = false);
    m.def("alibi", &posenc::alibi, "result"_a, "q_positions"_a, "k_positions"_a, "slopes"_a,
          "form"_a = "symmetric", "threads"_a = 0);
    m.def("buckets", &posenc::buckets, "result"_a, "q_positions"_a, "k_positions"_a,
          "thresholds"_a, "weight"_a, "direction"_a = "bidirectional", "threads"_a = 0);

    m.def("default_threads", &posenc::default_threads);
    m.def("processor_quota", &posenc::processor_quota, "root"_a = "");
    m.def("team", [] { return posenc::team_is_openmp() ? "openmp" : "own"; });
    m.def("instruction_sets", [] {
        nb::list names;
        for (const posenc::Kernels* set : posenc::available()) {
            names.append(set->name);
        }
        return nb::tuple(names);
    });
    m.def("instruction_set", [] { return posenc::kernels().name; });
    m.def(
        "use_instruction_set",
        [](const std::string& name) {
            if (!posenc::choose(name)) {
                posenc::refuse("use_instruction_set", "one of instruction_sets()",
                               "\"" + name + "\"");
            }
        },
        "name"_a);
    m.def("set_past_caches", &posenc::set_past_caches, "size"_a);
}
