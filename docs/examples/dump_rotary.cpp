// Writes the queries and keys of llama.cpp before they turn and after, one .npy for each layer.
//
//     params.cb_eval = dump;  // of common_params, as examples/eval-callback does
//
// Queries and keys keep their names through the rotation, so the last one before it stays.

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

bool dump(ggml_tensor * t, bool ask, void *) {
    if (strncmp(t->name, "Qcur-", 5) && strncmp(t->name, "Kcur-", 5)) return !ask;
    if (ask) return true;
    std::vector<float> x(ggml_nelements(t));  // they are F32
    ggml_backend_tensor_get(t, x.data(), 0, ggml_nbytes(t));
    std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    for (int i = 3; i >= 0; i--) head += std::to_string(t->ne[i]) + ", ";
    head += ")}\n";
    head.insert(0, {char(head.size() % 256), char(head.size() / 256)});
    std::string name = "dumps/layer" + std::string(t->name + 5) + "." + t->name[0];
    FILE * f = fopen((name + (t->op == GGML_OP_ROPE ? ".after.npy" : ".before.npy")).c_str(), "wb");
    if (!f) return false;
    fwrite("\x93NUMPY\x01\x00", 1, 8, f);
    fwrite(head.data(), 1, head.size(), f);
    fwrite(x.data(), 4, x.size(), f);
    fclose(f);
    return true;
}
