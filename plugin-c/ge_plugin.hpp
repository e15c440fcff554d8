// ge_plugin.hpp: what C++ adds to ge_plugin.h: exceptions become errors before they could leave a function, and spans of a kernel's arguments.
#ifndef GE_PLUGIN_HPP
#define GE_PLUGIN_HPP

#include "ge_plugin.h"
#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace ge {

// An error of a kind: `throw ge::error(GE_DAMAGED, "...")`.
struct error : std::runtime_error {
    uint32_t kind;
    error(uint32_t kind, const std::string &why) : std::runtime_error(why), kind(kind) {}
};

// Runs a function's body: an exception becomes the error that the function returns.
template <class Body> int32_t guard(const ge_host *host, ge_error *to, Body &&body) noexcept {
    try {
        std::forward<Body>(body)();
        return 0;
    } catch (const error &e) {
        return host->fail(to, e.kind, e.what());
    } catch (const std::exception &e) {
        return host->fail(to, GE_FAULT, e.what());
    } catch (...) {
        return host->fail(to, GE_FAULT, "an exception that is no std::exception");
    }
}

inline std::string text(ge_text t) { return std::string(t.data, t.size); }

// Elements of a kernel's argument.
template <class T> struct span {
    T *data;
    size_t size;
    T &operator[](size_t i) const { return data[i]; }
    T *begin() const { return data; }
    T *end() const { return data + size; }
};
template <class T> span<const T> input(const ge_block &b, size_t arg) {
    if (arg >= b.n_args) throw error(GE_FAULT, "the kernel asks for an argument that it does not have");
    return {static_cast<const T *>(b.args[arg]), b.bytes[arg] / sizeof(T)};
}
template <class T> span<T> output(const ge_block &b, size_t arg) {
    if (arg >= b.n_args) throw error(GE_FAULT, "the kernel asks for an argument that it does not have");
    return {static_cast<T *>(b.args[arg]), b.bytes[arg] / sizeof(T)};
}

// This block's part of n items: from, to.
inline std::pair<size_t, size_t> part(const ge_block &b, size_t n) {
    size_t each = (n + b.count - 1) / b.count, from = std::min(n, each * b.index);
    return {from, std::min(n, from + each)};
}

} // namespace ge
#endif
