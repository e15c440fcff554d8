// A vendor's plugin in C++: the operator AcmeRowNorm (the root of the sum of squares of each row, x f32[.., n] -> y f32[..]) with inference,
// its ONNX mapping, an engine whose functions throw, and a pass. Built by
// `c++ -std=c++17 -shared -fPIC -fvisibility=hidden -I ../../plugin-c -o libge_acme_cpp.so acme_cpp.cpp`.
#include "ge_plugin.hpp"

#include <cmath>
#include <memory>
#include <vector>

GE_PLUGIN_MANIFEST("acme_cpp", "1.0.0", "'engine', 'ops', 'frontend', 'pass'", "'AcmeCppEngine'");

namespace {

const ge_host *host;

ge_desc input_of(const ge_node *node) {
    ge_desc x;
    if (!host->node_input_desc(node, 0, &x)) throw ge::error(GE_UNSUPPORTED, "input 0 is missing");
    return x;
}
// The number of rows and their length; an error where they are not known.
std::pair<uint64_t, uint64_t> sizes(const ge_node *node) {
    ge_desc x = input_of(node);
    if (x.dtype != GE_F32) throw ge::error(GE_UNSUPPORTED, "input 0 is no f32");
    if (x.rank == GE_NO_RANK || x.rank == 0) throw ge::error(GE_UNSUPPORTED, "input 0 has no rows of a known number");
    uint64_t rows = 1;
    for (uint32_t k = 0; k < x.rank; k++) {
        if (x.dims[k] < 0) throw ge::error(GE_UNSUPPORTED, "size " + std::to_string(k) + " of input 0 is not known");
        if (k + 1 < x.rank && __builtin_mul_overflow(rows, uint64_t(x.dims[k]), &rows)) throw ge::error(GE_UNSUPPORTED, "input 0 is too large");
    }
    return {rows, uint64_t(x.dims[x.rank - 1])};
}

// ---- The operator. ----

int32_t infer(void *, const ge_node *node, ge_outputs *outputs, ge_error *error) {
    return ge::guard(host, error, [&] {
        ge_desc y = input_of(node);
        if (y.rank == 0) throw ge::error(GE_FAILED, "AcmeRowNorm takes no scalar");
        if (y.rank != GE_NO_RANK) y.rank -= 1;
        host->infer_output(outputs, &y);
    });
}
int32_t map(void *, const ge_foreign *node, ge_builder *builder, ge_error *error) {
    return ge::guard(host, error, [&] {
        ge_value x;
        if (!host->foreign_input(node, 0, &x)) throw ge::error(GE_UNSUPPORTED, "RowNorm without an input");
        host->builder_output(builder, host->builder_node(builder, "AcmeRowNorm", &x, 1));
    });
}

// ---- The engine. ----

int32_t supports(void *, const ge_node *node, ge_answer *answer) {
    try {
        sizes(node);
        return 1;
    } catch (const std::exception &e) {
        host->refuse(answer, e.what());
        return 0;
    }
}
int32_t compile(void *, const ge_node *node, ge_binary *binary, ge_error *error) {
    return ge::guard(host, error, [&] {
        uint64_t n = sizes(node).second;
        std::string name = "acme_cpp_row_norm_" + std::to_string(n);
        host->binary_set(binary, name.c_str(), &n, sizeof n);
    });
}
int32_t tasks(void *, const ge_node *node, ge_text kernel, ge_tasks *tasks, ge_error *error) {
    return ge::guard(host, error, [&] {
        std::string name = ge::text(kernel);
        ge_launch launch = {};
        launch.size = sizeof launch;
        launch.kernel = name.c_str();
        launch.type = GE_KERNEL_TE;
        launch.blocks = uint32_t(std::clamp<uint64_t>(sizes(node).first, 1, 16));
        launch.args = "{i0*}{o0*}";
        host->tasks_launch(tasks, &launch);
    });
}

struct RowNorm {
    size_t length;
    std::vector<uint32_t> access{GE_READ, GE_WRITE};
};
int32_t run(const void *state, const ge_block *block, ge_error *error) {
    return ge::guard(host, error, [&] {
        const RowNorm &k = *static_cast<const RowNorm *>(state);
        auto x = ge::input<float>(*block, 0);
        auto y = ge::output<float>(*block, 1);
        auto [from, to] = ge::part(*block, y.size);
        for (size_t row = from; row < to; row++) {
            float sum = 0;
            for (size_t i = 0; i < k.length; i++) sum += x[row * k.length + i] * x[row * k.length + i];
            y[row] = std::sqrt(sum);
        }
    });
}
int32_t load(void *, const ge_load *load, ge_kernel *kernel, ge_error *error) {
    return ge::guard(host, error, [&] {
        size_t size;
        const void *binary = host->load_binary(load, &size);
        ge_arg x, y;
        uint64_t length;
        if (size != sizeof length || host->load_args(load) != 2 || !host->load_arg(load, 0, &x) || !host->load_arg(load, 1, &y))
            throw ge::error(GE_DAMAGED, "a kernel of another form");
        std::copy_n(static_cast<const char *>(binary), size, reinterpret_cast<char *>(&length));
        uint64_t need;
        if (__builtin_mul_overflow(y.bytes, length, &need) || need > x.bytes) throw ge::error(GE_DAMAGED, "the rows are longer than the input");
        auto state = std::make_unique<RowNorm>();
        state->length = size_t(length);
        kernel->run = run;
        kernel->access = state->access.data();
        kernel->n_access = state->access.size();
        kernel->drop = [](void *s) { delete static_cast<RowNorm *>(s); };
        kernel->state = state.release();
    });
}

// ---- The pass: Sqrt(ReduceSumD(x * x)) is for others to fuse; this one takes an Abs off a norm, which is never negative. ----

int32_t run_pass(void *, const ge_graph *graph, ge_patch *patch, ge_error *error) {
    return ge::guard(host, error, [&] {
        for (size_t k = 0; k < host->graph_size(graph); k++) {
            const ge_node *abs = host->graph_node(graph, k);
            ge_value norm;
            if (ge::text(host->node_op(abs)) != "Abs" || !host->node_input(abs, 0, &norm)) continue;
            const ge_node *of = host->graph_find(graph, norm.node);
            if (!of || ge::text(host->node_op(of)) != "AcmeRowNorm") continue;
            ge_value y = {host->node_id(abs), 0};
            host->patch_replace_uses(patch, y, norm);
            host->patch_remove(patch, y.node);
        }
    });
}

// ---- All of it: made once, for ever. ----

struct Tables {
    uint32_t f32[1] = {GE_F32};
    ge_param x = {}, y = {};
    const ge_param *inputs[1] = {&x}, *outputs[1] = {&y};
    ge_op op = {};
    ge_mapping mapping = {};
    const char *op_types[1] = {"AcmeRowNorm"};
    ge_engine engine = {};
    ge_pass pass = {};
    const ge_engine *engines[1] = {&engine};
    const ge_op *ops[1] = {&op};
    const ge_mapping *mappings[1] = {&mapping};
    const ge_pass *passes[1] = {&pass};
    ge_plugin plugin = {};

    Tables() {
        x.size = y.size = sizeof(ge_param);
        x.name = "x", y.name = "y";
        x.types = y.types = f32;
        x.n_types = y.n_types = 1;
        op.size = sizeof op, op.name = "AcmeRowNorm", op.infer = infer;
        op.inputs = inputs, op.n_inputs = 1, op.outputs = outputs, op.n_outputs = 1;
        mapping.size = sizeof mapping, mapping.framework = "onnx", mapping.domain = "com.acme.cpp", mapping.op = "RowNorm";
        mapping.since = 1, mapping.until = UINT32_MAX, mapping.map = map;
        engine.size = sizeof engine, engine.name = "AcmeCppEngine", engine.cost = 1;
        engine.op_types = op_types, engine.n_op_types = 1;
        engine.supports = supports, engine.compile = compile, engine.tasks = tasks, engine.load = load;
        pass.size = sizeof pass, pass.name = "AcmeCppAbsOfNormPass", pass.help = "the Abs of a norm becomes the norm";
        pass.stage = GE_AFTER_INFER_SHAPE, pass.level = GE_O1, pass.run = run_pass;
        plugin.size = sizeof plugin, plugin.major = GE_C_MAJOR, plugin.minor = GE_C_MINOR;
        plugin.engines = engines, plugin.n_engines = 1, plugin.ops = ops, plugin.n_ops = 1;
        plugin.mappings = mappings, plugin.n_mappings = 1, plugin.passes = passes, plugin.n_passes = 1;
    }
};

} // namespace

extern "C" const ge_plugin *ge_c_plugin(const ge_host *given) {
    host = given;
    static const Tables tables;
    return &tables.plugin;
}
