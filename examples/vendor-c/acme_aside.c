/* A second plugin in C, with what a vendor needs more rarely: options, work on an attached stream, a cost of a node's own, and a front end. The operator
 * AcmeAsideSum (x * x * k + x, k an option) makes its squares beside the node's own stream; files of the form "acme 1" name a chain of operators. Built by
 * `cc -shared -fPIC -fvisibility=hidden -I ../../plugin-c -o libge_acme_aside.so acme_aside.c`. */
#include "ge_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

GE_PLUGIN_MANIFEST("acme_aside", "1.0.0", "'engine', 'ops', 'frontend'", "'AcmeAsideC', 'acme'");

static const ge_host *host;

/* ---- Options, which plugins.toml gives, and `start`, which gets them once. ---- */

static double factor;
static int64_t little;

static const ge_option FACTOR = {.size = sizeof(ge_option), .name = "factor", .help = "what the squares are multiplied by", .kind = GE_OPTION_FLOAT, .value_float = 1.0};
static const ge_option LITTLE = {
    .size = sizeof(ge_option), .name = "little", .help = "elements below which a node is left to others", .kind = GE_OPTION_INT, .least = 0, .most = 1 << 20, .value_int = 16,
};
static int32_t start(const ge_options *options, ge_error *error) {
    if (!host->option_float(options, "factor", &factor) || !host->option_int(options, "little", &little))
        return host->fail(error, GE_FAULT, "an option is missing");
    return 0;
}

/* ---- The operator: the output is like the input. ---- */

static const uint32_t F32[] = {GE_F32};
static const ge_param X = {.size = sizeof(ge_param), .name = "x", .types = F32, .n_types = 1, .group = "T"};
static const ge_param Y = {.size = sizeof(ge_param), .name = "y", .types = F32, .n_types = 1, .group = "T"};
static const ge_param *const INPUTS[] = {&X};
static const ge_param *const OUTPUTS[] = {&Y};
static const ge_op SUM = {.size = sizeof(ge_op), .name = "AcmeAsideSum", .inputs = INPUTS, .n_inputs = 1, .outputs = OUTPUTS, .n_outputs = 1, .flags = GE_OP_ELEMENTWISE};

/* ---- The engine. ---- */

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
static int32_t supports(void *self, const ge_node *node, ge_answer *answer) {
    int64_t n = elements(node);
    (void)self;
    if (n < 0) {
        host->refuse(answer, "input 0 is no f32 of a static shape");
        return 0;
    }
    if (n < little) host->answer_cost(answer, 20); /* another engine that takes it at less gets it */
    return 1;
}
/* A workspace for the squares, a stream beside the node's own, and the event by which that one says that it is done. */
static int32_t params(void *self, const ge_node *node, ge_params *params, ge_error *error) {
    ge_attached stream = {.size = sizeof(ge_attached), .name = "acme_aside", .required = 1};
    (void)self;
    if (elements(node) < 0) return host->fail(error, GE_UNSUPPORTED, "the shape is not static");
    host->params_workspace(params, (uint64_t)elements(node) * sizeof(float), 0);
    host->params_attached(params, &stream);
    host->params_sync(params, "acme_aside", 0, NULL);
    return 0;
}
static int32_t compile(void *self, const ge_node *node, ge_binary *binary, ge_error *error) {
    float k = (float)factor;
    char name[64];
    (void)self, (void)node, (void)error;
    snprintf(name, sizeof name, "acme_aside_%a", k);
    host->binary_set(binary, name, &k, sizeof k);
    return 0;
}
static int32_t tasks(void *self, const ge_node *node, ge_text kernel, ge_tasks *tasks, ge_error *error) {
    char name[64];
    (void)self, (void)node;
    if (kernel.size >= sizeof name) return host->fail(error, GE_FAULT, "the kernel's name is too long");
    memcpy(name, kernel.data, kernel.size);
    name[kernel.size] = 0;
    ge_launch squares = {.size = sizeof(ge_launch), .kernel = name, .type = GE_KERNEL_TE, .blocks = 1, .args = "{i0*}{ws0*}", .stream = GE_STREAM_ATTACHED(0)};
    ge_launch sum = {.size = sizeof(ge_launch), .kernel = name, .type = GE_KERNEL_TE, .blocks = 1, .tiling_key = 1, .args = "{i0*}{ws0*}{o0*}"};
    host->tasks_launch(tasks, &squares);
    host->tasks_sync(tasks, GE_SYNC_RECORD, 0, GE_STREAM_ATTACHED(0));
    host->tasks_sync(tasks, GE_SYNC_WAIT, 0, GE_STREAM_MAIN);
    host->tasks_launch(tasks, &sum);
    return 0;
}
static int32_t run_squares(const void *state, const ge_block *block, ge_error *error) {
    const float k = *(const float *)state, *x = block->args[0];
    float *square = block->args[1];
    (void)error;
    for (size_t i = 0; i < block->bytes[0] / sizeof(float); i++) square[i] = k * x[i] * x[i];
    return 0;
}
static int32_t run_sum(const void *state, const ge_block *block, ge_error *error) {
    const float *x = block->args[0], *square = block->args[1];
    float *y = block->args[2];
    (void)state, (void)error;
    for (size_t i = 0; i < block->bytes[0] / sizeof(float); i++) y[i] = square[i] + x[i];
    return 0;
}
static int32_t load(void *self, const ge_load *load, ge_kernel *kernel, ge_error *error) {
    static const uint32_t SQUARES[] = {GE_READ, GE_WRITE}, SUMS[] = {GE_READ, GE_READ, GE_WRITE};
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
    kernel->run = last ? run_sum : run_squares;
    kernel->access = last ? SUMS : SQUARES;
    kernel->n_access = n;
    return 0;
}
static const char *const OP_TYPES[] = {"AcmeAsideSum"};
static const ge_engine ENGINE = {
    .size = sizeof(ge_engine), .name = "AcmeAsideC", .cost = 1, .op_types = OP_TYPES, .n_op_types = 1,
    .supports = supports, .params = params, .compile = compile, .tasks = tasks, .load = load,
};

/* ---- The front end: "acme 1", then the number of elements, then an operator a line; "add FILE" adds the floats of a file beside the model. ---- */

static int32_t recognises(void *self, const ge_file *file) {
    size_t size;
    const char *bytes = host->file_bytes(file, &size);
    (void)self;
    return size >= 7 && memcmp(bytes, "acme 1\n", 7) == 0;
}
/* The next line of the text, without its end; 0 where there is none. */
static int next_line(const char **at, const char *end, char *line, size_t most) {
    size_t n = 0;
    if (*at >= end) return 0;
    while (*at < end && **at != '\n') {
        if (n + 1 < most) line[n++] = **at;
        (*at)++;
    }
    (*at)++;
    line[n] = 0;
    return 1;
}
static int32_t import(void *self, const ge_file *file, ge_builder *builder, ge_error *error) {
    size_t size, length;
    const char *at = host->file_bytes(file, &size), *end = at + size;
    char line[128], name[32];
    ge_desc desc = {.dtype = GE_F32, .rank = 1};
    (void)self;
    next_line(&at, end, line, sizeof line);
    if (!next_line(&at, end, line, sizeof line) || (desc.dims[0] = strtoll(line, NULL, 10)) <= 0) return host->fail(error, GE_DAMAGED, "line 2 is no number of elements");
    ge_value value = host->builder_input(builder, "x", &desc);
    for (int k = 0; next_line(&at, end, line, sizeof line); k++) {
        ge_value inputs[2] = {value, value};
        int two = strncmp(line, "add ", 4) == 0;
        if (line[0] == 0) continue;
        if (two) {
            const void *bytes = host->builder_open(builder, line + 4, &length);
            if (!bytes) return host->fail(error, GE_DAMAGED, "a file that the model names is not beside it");
            inputs[1] = host->builder_constant(builder, line + 4, &desc, bytes, length);
            if (inputs[1].node == GE_ABSENT) return host->fail(error, GE_DAMAGED, "a file that the model names has another size");
        }
        snprintf(name, sizeof name, "n%d", k);
        value = host->builder_named(builder, two ? "Add" : line, name, inputs, two ? 2 : 1, 1);
    }
    host->builder_result(builder, "y", value);
    return 0;
}
static const ge_frontend FRONTEND = {.size = sizeof(ge_frontend), .framework = "acme", .recognises = recognises, .import = import};

/* ---- All of it. ---- */

static const ge_option *const OPTIONS[] = {&FACTOR, &LITTLE};
static const ge_op *const OPS[] = {&SUM};
static const ge_engine *const ENGINES[] = {&ENGINE};
static const ge_frontend *const FRONTENDS[] = {&FRONTEND};
static const ge_plugin PLUGIN = {
    .size = sizeof(ge_plugin), .major = GE_C_MAJOR, .minor = GE_C_MINOR, .engines = ENGINES, .n_engines = 1, .ops = OPS, .n_ops = 1,
    .options = OPTIONS, .n_options = 2, .start = start, .frontends = FRONTENDS, .n_frontends = 1,
};

const ge_plugin *ge_c_plugin(const ge_host *given) {
    host = given;
    if (!GE_HOST_HAS(host, builder_open)) { /* a host of 1.0: all above would be missing */
        host->log(GE_ERROR, "acme_aside needs a ge whose ge_plugin.h is 1.1 or newer");
        return NULL;
    }
    return &PLUGIN;
}
