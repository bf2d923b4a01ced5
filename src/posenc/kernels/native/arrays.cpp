#include "arrays.h"

#include <atomic>
#include <cstring>

#include "dlpack.h"

namespace posenc {

namespace {

// What torch is asked often; null until torch has been imported by somebody else.
struct Torch {
    PyObject* tensor = nullptr;
    PyObject* parameter = nullptr;
    PyObject* dtypes[5] = {};
    dlpack::Describe describe = nullptr;
};

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

const Torch* torch() {
    static std::atomic<const Torch*> known{nullptr};
    if (const Torch* before = known.load(std::memory_order_acquire)) {
        return before;
    }
    nb::object modules = nb::module_::import_("sys").attr("modules");
    nb::object module = modules.attr("get")("torch");
    if (module.is_none() || !nb::hasattr(module, "nn")) {
        return nullptr;
    }
    Torch found;
    found.tensor = nb::object(module.attr("Tensor")).release().ptr();
    found.parameter = nb::object(module.attr("nn").attr("Parameter")).release().ptr();
    const char* names[] = {"float32", "bfloat16", "float16", "int32", "int64"};
    for (int i = 0; i < 5; ++i) {
        found.dtypes[i] = nb::object(module.attr(names[i])).release().ptr();
    }
    found.describe = dlpack::describe_of(found.tensor);
    // Never deleted, as its types are not; of two threads that come first, both are right.
    const Torch* kept = new Torch(found);
    known.store(kept, std::memory_order_release);
    return kept;
}

nb::object call(nb::handle object, PyObject* name) {
    PyObject* arguments[] = {object.ptr()};
    PyObject* result = PyObject_VectorcallMethod(
        name, arguments, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
    if (result == nullptr) {
        throw nb::python_error();
    }
    return nb::steal(result);
}

nb::object get(nb::handle object, PyObject* name) {
    PyObject* result = PyObject_GetAttr(object.ptr(), name);
    if (result == nullptr) {
        throw nb::python_error();
    }
    return nb::steal(result);
}

int64_t integer(PyObject* object) {
    const int64_t value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) {
        throw nb::python_error();
    }
    return value;
}

char* address(nb::handle object) {
    const unsigned long long value = PyLong_AsUnsignedLongLong(object.ptr());
    if (PyErr_Occurred() != nullptr) {
        throw nb::python_error();
    }
    return reinterpret_cast<char*>(static_cast<uintptr_t>(value));
}

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }

void read_tuple(nb::handle tuple, int64_t* to, int64_t unit) {
    const Py_ssize_t count = PyTuple_Size(tuple.ptr());
    for (Py_ssize_t i = 0; i < count; ++i) {
        to[i] = unit * integer(PyTuple_GetItem(tuple.ptr(), i));
    }
}

int checked_rank(Py_ssize_t rank, const char* who) {
    if (rank < 0 || rank > MAX_RANK) {
        refuse(who, "at most " + std::to_string(MAX_RANK) + " axes", std::to_string(rank));
    }
    return static_cast<int>(rank);
}

void must_be_writeable(bool readonly, const char* who) {
    if (readonly) {
        throw nb::buffer_error(explain(who, "an array to write to", "a read-only one").c_str());
    }
}

// A format of the struct module in native byte order, or false.
bool read_format(const char* format, Py_ssize_t size, Element& element) {
    if (format == nullptr) {
        return false;
    }
    if (*format == '=' || *format == '@' || *format == '<') {
        ++format;
    }
    if (format[0] == '\0' || format[1] != '\0') {
        return false;
    }
    if (format[0] == 'f') {
        element = Element::float32;
    } else if (format[0] == 'e') {
        element = Element::float16;
    } else if (std::strchr("ilq", format[0]) != nullptr) {
        element = size == 8 ? Element::int64 : Element::int32;
    } else {
        return false;
    }
    return size_of(element) == size;
}

bool read_type(const dlpack::Tensor& from, Element& element) {
    if (from.lanes != 1) {
        return false;
    }
    if (from.code == dlpack::FLOAT && (from.bits == 32 || from.bits == 16)) {
        element = from.bits == 32 ? Element::float32 : Element::float16;
    } else if (from.code == dlpack::BFLOAT && from.bits == 16) {
        element = Element::bfloat16;
    } else if (from.code == dlpack::INTEGER && (from.bits == 64 || from.bits == 32)) {
        element = from.bits == 64 ? Element::int64 : Element::int32;
    } else {
        return false;
    }
    return true;
}

constexpr const char* KNOWN = "float32, bfloat16, float16, int32 or int64 in native byte order";

}  // namespace

std::string explain(const std::string& who, const std::string& expected, const std::string& got,
                    const std::string& todo) {
    std::string text = who + ": expected " + expected + ", got " + got;
    return todo.empty() ? text : text + ". " + todo;
}

void refuse(const std::string& who, const std::string& expected, const std::string& got,
            const std::string& todo) {
    throw nb::value_error(explain(who, expected, got, todo).c_str());
}

void refuse_type(const std::string& who, const std::string& expected, const std::string& got,
                 const std::string& todo) {
    throw nb::type_error(explain(who, expected, got, todo).c_str());
}

std::string shape_text(const Layout& layout) {
    std::string text = "shape (";
    for (int i = 0; i < layout.rank; ++i) {
        text += (i > 0 ? ", " : "") + std::to_string(layout.size[i]);
    }
    return text + (layout.rank == 1 ? ",)" : ")");
}

const char* name_of(Element element) {
    switch (element) {
        case Element::float32:
            return "float32";
        case Element::bfloat16:
            return "bfloat16";
        case Element::float16:
            return "float16";
        case Element::int32:
            return "int32";
        case Element::int64:
            return "int64";
    }
    return "";
}

bool is_integer(nb::handle object) {
    return PyLong_Check(object.ptr()) != 0 && PyBool_Check(object.ptr()) == 0;
}

Array::Array(nb::handle object, Access access, const char* who) {
    const Torch* known = torch();
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
    if (known != nullptr && (type == known->tensor || type == known->parameter)) {
        if (!read_description(object)) {
            read_tensor(object, who);
        }
    } else if (PyObject_CheckBuffer(object.ptr()) != 0) {
        read_buffer(object.ptr(), access, who);
    } else {
        refuse_type(who, "an array of NumPy or a tensor of torch on the CPU",
                    text_of(nb::handle(type).attr("__name__")));
    }
    if (layout_.data == nullptr && !layout_.empty()) {
        refuse(who, "an array with memory", "one without");
    }
}

Array::~Array() {
    if (exported_) {
        PyBuffer_Release(&buffer_);
    }
}

bool Array::read_description(nb::handle object) {
    dlpack::Tensor tensor{};
    if (torch()->describe == nullptr) {
        return false;
    }
    if (torch()->describe(object.ptr(), &tensor) != 0) {
        PyErr_Clear();
        return false;
    }
    const bool known = tensor.device == dlpack::CPU && tensor.rank >= 0 &&
                       tensor.rank <= MAX_RANK && (tensor.rank == 0 || tensor.strides != nullptr) &&
                       read_type(tensor, layout_.element);
    if (!known) {
        return false;
    }
    layout_.rank = tensor.rank;
    for (int i = 0; i < tensor.rank; ++i) {
        layout_.size[i] = tensor.shape[i];
        layout_.stride[i] = tensor.strides[i] * size_of(layout_.element);
    }
    layout_.data = static_cast<char*>(tensor.data) + tensor.offset;
    return true;
}

void Array::read_tensor(nb::handle object, const char* who) {
    static PyObject* const names[] = {interned("dtype"), interned("is_cpu"), interned("shape"),
                                      interned("stride"), interned("data_ptr")};
    const nb::object dtype = get(object, names[0]);
    int number = 0;
    while (number < 5 && torch()->dtypes[number] != dtype.ptr()) {
        ++number;
    }
    if (number == 5) {
        refuse_type(who, KNOWN, text_of(dtype));
    }
    layout_.element = static_cast<Element>(number);
    if (get(object, names[1]).ptr() != Py_True) {
        refuse_type(who, "a tensor on the CPU", text_of(object.attr("device")));
    }
    const nb::object shape = get(object, names[2]);
    const nb::object stride = call(object, names[3]);
    layout_.rank = checked_rank(PyTuple_Size(shape.ptr()), who);
    read_tuple(shape, layout_.size, 1);
    read_tuple(stride, layout_.stride, size_of(layout_.element));
    const nb::object pointer = call(object, names[4]);
    layout_.data = address(pointer);
}

void Array::read_buffer(PyObject* object, Access access, const char* who) {
    if (PyObject_GetBuffer(object, &buffer_, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0) {
        // NumPy has no letter for bfloat16.
        PyErr_Clear();
        read_interface(object, access, who);
        return;
    }
    exported_ = true;
    // The destructor does not run where the constructor throws.
    try {
        if (!read_format(buffer_.format, buffer_.itemsize, layout_.element)) {
            refuse_type(who, KNOWN, nb::hasattr(object, "dtype")
                                        ? text_of(nb::handle(object).attr("dtype"))
                                        : std::string(buffer_.format == nullptr ? "bytes"
                                                                                : buffer_.format));
        }
        if (access == Access::write) {
            must_be_writeable(buffer_.readonly != 0, who);
        }
        layout_.rank = checked_rank(buffer_.ndim, who);
    } catch (...) {
        PyBuffer_Release(&buffer_);
        exported_ = false;
        throw;
    }
    for (int i = 0; i < layout_.rank; ++i) {
        layout_.size[i] = buffer_.shape[i];
        layout_.stride[i] = buffer_.strides[i];
    }
    layout_.data = static_cast<char*>(buffer_.buf);
}

void Array::read_interface(nb::handle object, Access access, const char* who) {
    if (!nb::hasattr(object, "__array_interface__")) {
        refuse_type(who, "an array of NumPy or a tensor of torch on the CPU",
                    text_of(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())))
                                .attr("__name__")));
    }
    const std::string dtype = text_of(object.attr("dtype"));
    if (dtype != "bfloat16") {
        refuse_type(who, KNOWN, dtype);
    }
    layout_.element = Element::bfloat16;
    const nb::object described = object.attr("__array_interface__");
    const nb::object data = described["data"];
    if (access == Access::write) {
        must_be_writeable(nb::object(data[1]).ptr() == Py_True, who);
    }
    const nb::object shape = described["shape"];
    layout_.rank = checked_rank(PyTuple_Size(shape.ptr()), who);
    read_tuple(shape, layout_.size, 1);
    read_tuple(object.attr("strides"), layout_.stride, 1);
    layout_.data = address(nb::object(data[0]));
}

}  // namespace posenc
