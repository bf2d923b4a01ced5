// Arrays of NumPy and torch, as layouts. All that Python is asked about an array is asked here.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "layout.h"

namespace posenc {

namespace nb = nanobind;

enum class Access { read, write };

// An array that is held on to while its memory is used.
class Array {
public:
    Array(nb::handle object, Access access, const char* who);
    ~Array();
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    const Layout& layout() const { return layout_; }
    const Layout* operator->() const { return &layout_; }

private:
    void read_buffer(PyObject* object, Access access, const char* who);
    void read_interface(nb::handle object, Access access, const char* who);
    // By DLPack; false where that is not offered, or does not describe what is known here.
    bool read_description(nb::handle object);
    // By the attributes of Python, with words for what is refused.
    void read_tensor(nb::handle object, const char* who);

    Layout layout_;
    Py_buffer buffer_{};
    bool exported_ = false;
};

// Is it an integer of Python?
bool is_integer(nb::handle object);

// "who: expected …, got …. todo": the form of every message.
std::string explain(const std::string& who, const std::string& expected, const std::string& got,
                    const std::string& todo = "");
[[noreturn]] void refuse(const std::string& who, const std::string& expected,
                         const std::string& got, const std::string& todo = "");
[[noreturn]] void refuse_type(const std::string& who, const std::string& expected,
                              const std::string& got, const std::string& todo = "");

std::string shape_text(const Layout& layout);
const char* name_of(Element element);

}  // namespace posenc
