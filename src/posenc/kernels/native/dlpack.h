// Tensors by the C functions of DLPack 1, https://dmlc.github.io/dlpack: ten nanoseconds, where five
// attributes of Python cost five hundred.
#pragma once

#include <Python.h>

#include <cstdint>

namespace posenc::dlpack {

enum Device : int32_t { CPU = 1 };
enum Code : uint8_t { INTEGER = 0, FLOAT = 2, BFLOAT = 4 };

struct Tensor {
    void* data;
    int32_t device, device_number;
    int32_t rank;
    uint8_t code, bits;
    uint16_t lanes;
    const int64_t* shape;
    const int64_t* strides;  // in elements
    uint64_t offset;         // of the first element, in bytes
};

// Describe a tensor that the caller keeps alive; not 0 with an error set where that cannot be done.
using Describe = int (*)(void* object, Tensor* to);

struct Functions {
    struct {
        uint32_t major, minor;
        void* before;
    } header;
    void* allocate;
    void* take;
    void* give;
    Describe describe;  // may be null
    void* stream;
};

// What a type of tensors offers, or null.
inline Describe describe_of(PyObject* type) {
    PyObject* capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    const void* found =
        capsule == nullptr ? nullptr : PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_XDECREF(capsule);  // what it points to stays
    PyErr_Clear();
    const Functions* functions = static_cast<const Functions*>(found);
    const bool known = functions != nullptr && functions->header.major == 1;
    return known ? functions->describe : nullptr;
}

}  // namespace posenc::dlpack
