/* A vendor's plugin in C: the operator AcmeHardSwish (x * clamp(x + bias, 0, 6) / 6) with its ONNX mapping, an engine that computes it in two
 * launches over a workspace, and a pass. Built by `cc -shared -fPIC -fvisibility=hidden -I ../../plugin-c -o libge_acme_c.so acme_c.c`. */
#include "ge_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

GE_PLUGIN_MANIFEST("acme_c", "1.0.0", "'engine', 'ops', 'frontend', 'pass'", "'AcmeCEngine'");

static const ge_host *host;

/* ---- The operator: prototype and mapping. Without `infer` the output is like the input. ---- */

static const uint32_t F32[] = {GE_F32};
static const ge_param X = {.size = sizeof(ge_param), .name = "x", .types = F32, .n_types = 1, .group = "T"};
static const ge_param Y = {.size = sizeof(ge_param), .name = "y", .types = F32, .n_types = 1, .group = "T"};
static const ge_attr BIAS = {.size = sizeof(ge_attr), .name = "bias", .kind = GE_ATTR_FLOAT, .value_float = 3.0};
static const ge_param *const INPUTS[] = {&X};
static const ge_param *const OUTPUTS[] = {&Y};
static const ge_attr *const ATTRS[] = {&BIAS};
static const ge_op HARD_SWISH = {
    .size = sizeof(ge_op), .name = "AcmeHardSwish", .inputs = INPUTS, .n_inputs = 1, .outputs = OUTPUTS, .n_outputs = 1,
    .attrs = ATTRS, .n_attrs = 1, .flags = GE_OP_ELEMENTWISE,
};

static int32_t map(void *self, const ge_foreign *node, ge_builder *builder, ge_error *error) {
    ge_value x;
    (void)self;
    if (!host->foreign_input(node, 0, &x)) return host->fail(error, GE_UNSUPPORTED, "HardSwish without an input");
    ge_value y = host->builder_node(builder, "AcmeHardSwish", &x, 1);
    host->builder_set_float(builder, y, "bias", host->foreign_float(node, "bias", 3.0));
    host->builder_output(builder, y);
    return 0;
}
static const ge_mapping MAPPING = {
    .size = sizeof(ge_mapping), .framework = "onnx", .domain = "com.acme.c", .op = "HardSwish", .since = 1, .until = UINT32_MAX, .map = map,
};

/* ---- The engine. ---- */

/* Elements that a node works on; -1 where it is none of ours. */
static int64_t elements(const ge_node *node) {
    ge_desc x;
    if (!host->node_input_desc(node, 0, &x) || x.dtype != GE_F32 || x.rank == GE_NO_RANK) return -1;
    int64_t n = 1;
    for (uint32_t k = 0; k < x.rank; k++) {
        if (x.dims[k] < 0 || (x.dims[k] != 0 && n > INT64_MAX / 8 / x.dims[k])) return -1;
        n *= x.dims[k];
    }
    return n;
}
static float bias_of(const ge_node *node) {
    double bias;
    return host->node_float(node, "bias", &bias) ? (float)bias : 3.0f;
}

static int32_t supports(void *self, const ge_node *node, ge_answer *answer) {
    (void)self;
    if (elements(node) >= 0) return 1;
    host->refuse(answer, "input 0 is no f32 of a static shape");
    return 0;
}
static int32_t params(void *self, const ge_node *node, ge_params *params, ge_error *error) {
    (void)self;
    if (elements(node) < 0) return host->fail(error, GE_UNSUPPORTED, "the shape is not static");
    host->params_workspace(params, (uint64_t)elements(node) * sizeof(float), 0);
    host->params_tasks(params, 2);
    return 0;
}
/* The kernel's name is equal for equal kernels alone; its bytes are what `load` gets. */
static int32_t compile(void *self, const ge_node *node, ge_binary *binary, ge_error *error) {
    float bias = bias_of(node);
    uint32_t bits;
    char name[64];
    (void)self, (void)error;
    memcpy(&bits, &bias, sizeof bits);
    snprintf(name, sizeof name, "acme_c_hard_swish_%08x", bits);
    host->binary_set(binary, name, &bias, sizeof bias);
    return 0;
}
static int32_t tasks(void *self, const ge_node *node, ge_text kernel, ge_tasks *tasks, ge_error *error) {
    char name[64];
    (void)self;
    if (kernel.size >= sizeof name) return host->fail(error, GE_FAULT, "the kernel's name is too long");
    memcpy(name, kernel.data, kernel.size);
    name[kernel.size] = 0;
    int64_t blocks = (elements(node) + 1023) / 1024;
    ge_launch gate = {
        .size = sizeof(ge_launch), .kernel = name, .type = GE_KERNEL_TE, .blocks = blocks < 1 ? 1 : blocks > 16 ? 16 : (uint32_t)blocks,
        .tiling_key = 0, .args = "{i0*}{ws0*}",
    };
    ge_launch product = gate;
    product.tiling_key = 1;
    product.args = "{i0*}{ws0*}{o0*}";
    host->tasks_launch(tasks, &gate);
    host->tasks_launch(tasks, &product);
    return 0;
}
static uint64_t time_ns(void *self, const ge_node *node) {
    int64_t n = elements(node);
    (void)self;
    return 2000 + (n < 0 ? 0 : (uint64_t)n / 4);
}

/* This block's part of n elements. */
static void part(const ge_block *block, size_t n, size_t *from, size_t *to) {
    size_t each = (n + block->count - 1) / block->count;
    *from = each * block->index < n ? each * block->index : n;
    *to = *from + each < n ? *from + each : n;
}
static int32_t run_gate(const void *state, const ge_block *block, ge_error *error) {
    const float bias = *(const float *)state, *x = block->args[0];
    float *gate = block->args[1];
    size_t from, to;
    (void)error;
    part(block, block->bytes[0] / sizeof(float), &from, &to);
    for (size_t i = from; i < to; i++) {
        float v = x[i] + bias;
        gate[i] = (v < 0 ? 0 : v > 6 ? 6 : v) / 6;
    }
    return 0;
}
static int32_t run_product(const void *state, const ge_block *block, ge_error *error) {
    const float *x = block->args[0], *gate = block->args[1];
    float *y = block->args[2];
    size_t from, to;
    (void)state, (void)error;
    part(block, block->bytes[0] / sizeof(float), &from, &to);
    for (size_t i = from; i < to; i++) y[i] = x[i] * gate[i];
    return 0;
}
/* An OM is untrusted: what does not fit is refused here, nothing is checked again in a launch. */
static int32_t load(void *self, const ge_load *load, ge_kernel *kernel, ge_error *error) {
    static const uint32_t GATE[] = {GE_READ, GE_WRITE}, PRODUCT[] = {GE_READ, GE_READ, GE_WRITE};
    size_t size, n = host->load_args(load);
    const void *binary = host->load_binary(load, &size);
    int last = host->load_tiling_key(load) == 1;
    ge_arg first, other;
    (void)self;
    if (size != sizeof(float) || n != (last ? 3 : 2)) return host->fail(error, GE_DAMAGED, "a kernel of another form");
    host->load_arg(load, 0, &first);
    for (size_t k = 1; k < n; k++) {
        host->load_arg(load, k, &other);
        if (other.bytes < first.bytes) return host->fail(error, GE_DAMAGED, "an argument is too short");
    }
    kernel->state = malloc(sizeof(float));
    if (!kernel->state) return host->fail(error, GE_FAILED, "no memory");
    memcpy(kernel->state, binary, sizeof(float));
    kernel->drop = free;
    kernel->run = last ? run_product : run_gate;
    kernel->access = last ? PRODUCT : GATE;
    kernel->n_access = n;
    return 0;
}
static const char *const OP_TYPES[] = {"AcmeHardSwish"};
static const ge_engine ENGINE = {
    .size = sizeof(ge_engine), .name = "AcmeCEngine", .cost = 1, .op_types = OP_TYPES, .n_op_types = 1,
    .supports = supports, .params = params, .compile = compile, .tasks = tasks, .time_ns = time_ns, .load = load,
};

/* ---- The pass: Neg(Neg(x)) becomes x. ---- */

static int is_neg(const ge_node *node) {
    ge_text op = host->node_op(node);
    return op.size == 3 && memcmp(op.data, "Neg", 3) == 0;
}
static int32_t run_pass(void *self, const ge_graph *graph, ge_patch *patch, ge_error *error) {
    (void)self, (void)error;
    for (size_t k = 0; k < host->graph_size(graph); k++) {
        const ge_node *outer = host->graph_node(graph, k), *inner;
        ge_value middle, x;
        if (!is_neg(outer) || !host->node_input(outer, 0, &middle)) continue;
        inner = host->graph_find(graph, middle.node);
        if (!inner || !is_neg(inner) || !host->node_input(inner, 0, &x) || host->graph_users(graph, middle) != 1) continue;
        ge_value y = {host->node_id(outer), 0};
        host->patch_replace_uses(patch, y, x);
        host->patch_remove(patch, y.node);
        host->patch_remove(patch, middle.node);
        return 0; /* one pair a run: the next may share a node with it */
    }
    return 0;
}
static const ge_pass PASS = {
    .size = sizeof(ge_pass), .name = "AcmeCDoubleNegPass", .help = "Neg(Neg(x)) becomes x", .stage = GE_AFTER_INFER_SHAPE, .level = GE_O1, .run = run_pass,
};

/* ---- All of it. ---- */

static const ge_engine *const ENGINES[] = {&ENGINE};
static const ge_op *const OPS[] = {&HARD_SWISH};
static const ge_mapping *const MAPPINGS[] = {&MAPPING};
static const ge_pass *const PASSES[] = {&PASS};
static const ge_plugin PLUGIN = {
    .size = sizeof(ge_plugin), .major = GE_C_MAJOR, .minor = GE_C_MINOR, .engines = ENGINES, .n_engines = 1, .ops = OPS, .n_ops = 1,
    .mappings = MAPPINGS, .n_mappings = 1, .passes = PASSES, .n_passes = 1,
};

const ge_plugin *ge_c_plugin(const ge_host *given) {
    host = given;
    return &PLUGIN;
}
