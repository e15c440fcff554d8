/* ge_plugin.h: the door for plugins of ge that are written in C, C++, or anything else that speaks C. docs/plugins-c.md explains it,
 * examples/vendor-c and examples/vendor-cpp use all of it.
 *
 * Engines, operators, mappings, front ends and passes are made by it; devices, tiling on the device
 * and host kernels are made in Rust (docs/plugins-c.md says why).
 *
 * A plugin is a dynamic library libge_NAME.so with a manifest (GE_PLUGIN_MANIFEST) and one function, ge_c_plugin.
 *
 * Structures begin with their size: set it to sizeof. Minor versions only append, to structures and to ge_host; the host reads
 * as much of a structure as there is, and a plugin asks GE_HOST_HAS before it uses what its host may lack ("since 1.1" below). ge_text, ge_value, ge_desc and
 * ge_arg have no size and never change. Unset fields are zero: write `ge_engine e = {.size = sizeof(ge_engine), ...}` or `ge_engine e = {}`.
 *
 * Functions that can fail return 0 for success and host->fail(error, kind, "why") otherwise. Texts that the plugin gives end with a zero
 * byte; texts that the host gives are a ge_text. What the host lends lives for the call; what the plugin gives in tables lives for
 * ever. Functions may be called from several threads at once. No exception may leave a function (ge_plugin.hpp has a guard). */
#ifndef GE_PLUGIN_H
#define GE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GE_C_MAJOR 1
#define GE_C_MINOR 1

/* The manifest, which the host reads before it opens the library: name, version of the plugin, kinds ("'engine', 'ops', 'frontend', 'pass'")
 * and the engines that it provides ("'AcmeEngine'"). Once a library, outside of functions. */
#define GE_PLUGIN_MANIFEST(NAME, VERSION, KINDS, PROVIDES)                                                           \
    extern const char ge_plugin_manifest[];                                                                          \
    __attribute__((used, section(".ge.plugin"))) const char ge_plugin_manifest[] =                                   \
        "name = \"" NAME "\"\nversion = \"" VERSION "\"\nkinds = [" KINDS "]\nprovides = [" PROVIDES                 \
        "]\npanic = \"unwind\"\nabi = \"c\"\napi = \"" GE_STRING(GE_C_MAJOR) "." GE_STRING(GE_C_MINOR)               \
        ".0\"\ntarget = \"" GE_TARGET "\"\n"
#define GE_STRING(X) GE_STRING_OF(X)
#define GE_STRING_OF(X) #X
#if defined(__x86_64__)
#define GE_TARGET "x86_64"
#elif defined(__aarch64__)
#define GE_TARGET "aarch64"
#else
#define GE_TARGET "other"
#endif
#define GE_EXPORT __attribute__((visibility("default")))

/* Element types. */
enum {
    GE_UNKNOWN = 0, GE_F32 = 1, GE_F16 = 2, GE_BF16 = 3, GE_F64 = 4, GE_I8 = 5, GE_I16 = 6, GE_I32 = 7, GE_I64 = 8,
    GE_U8 = 9, GE_U16 = 10, GE_U32 = 11, GE_U64 = 12, GE_BOOL = 13
};
/* Kinds of errors, hence exit codes of ge: 1, 2, 3, 4 and 5. */
enum { GE_FAILED = 0, GE_USAGE = 1, GE_UNSUPPORTED = 2, GE_DAMAGED = 3, GE_FAULT = 4 };
/* Log levels. */
enum { GE_ERROR = 0, GE_WARN = 1, GE_INFO = 2, GE_DEBUG = 3 };
/* How often a parameter stands. */
enum { GE_REQUIRED = 0, GE_OPTIONAL = 1, GE_DYNAMIC = 2 };
/* What kind of value an attribute has. */
enum { GE_ATTR_INT = 0, GE_ATTR_FLOAT = 1, GE_ATTR_BOOL = 2, GE_ATTR_TEXT = 3, GE_ATTR_INTS = 5 };
/* Flags of an operator. */
#define GE_OP_RANDOM 1ull
#define GE_OP_STATEFUL 2ull
#define GE_OP_ELEMENTWISE 4ull
#define GE_OP_COMMUTATIVE 8ull
/* Stages and levels of passes. */
enum {
    GE_BEFORE_INFER_SHAPE = 0, GE_AFTER_INFER_SHAPE = 1, GE_AFTER_BUILTIN_FUSION_PASS = 3, GE_AFTER_ORIGIN_GRAPH_OPTIMIZE = 4,
    GE_OPTIMIZE_ORIGINAL_GRAPH = 6, GE_OPTIMIZE_WHOLE_GRAPH = 8, GE_OPTIMIZE_FUSED_GRAPH = 9
};
enum { GE_O0 = 0, GE_O1 = 1, GE_O2 = 2, GE_O3 = 3 };
/* How a kernel touches an argument. */
enum { GE_READ = 0, GE_WRITE = 1, GE_READ_WRITE = 2 };
/* Types of kernels. */
enum { GE_KERNEL_TE = 2, GE_KERNEL_AI_CPU = 6 };
/* What kind of value an option takes. Since 1.1. */
enum { GE_OPTION_BOOL = 0, GE_OPTION_INT = 1, GE_OPTION_CHOICE = 2, GE_OPTION_TEXT = 3, GE_OPTION_FLOAT = 4 };
/* The node's own stream, and its K-th attached one (K from 0). Since 1.1. */
#define GE_STREAM_MAIN 0u
#define GE_STREAM_ATTACHED(K) ((uint32_t)(K) + 1u)
/* What a task does with a sync resource of the node. Since 1.1. */
enum { GE_SYNC_RECORD = 0, GE_SYNC_WAIT = 1, GE_SYNC_NOTIFY = 2, GE_SYNC_WAIT_NOTIFY = 3 };

/* A text of the host's, without a zero byte at its end. Never changes. */
typedef struct ge_text {
    const char *data;
    size_t size;
} ge_text;

/* One output of one node. Never changes. */
typedef struct ge_value {
    uint32_t node;
    uint32_t output;
} ge_value;
/* The input that is not given. */
#define GE_ABSENT 0xffffffffu

/* Most dimensions of a ge_desc, and the rank of a tensor of which it is not known (or higher). */
#define GE_MAX_RANK 16
#define GE_NO_RANK 0xffffffffu

/* Type and shape of a tensor; an open size is -1. Never changes. */
typedef struct ge_desc {
    uint32_t dtype;
    uint32_t rank;
    int64_t dims[GE_MAX_RANK];
} ge_desc;

/* An argument of a launch at load. Never changes. */
typedef struct ge_arg {
    uint32_t kind; /* 'i' input, 'o' output, 'w' workspace, 0 anything else */
    uint32_t index;
    uint64_t bytes; /* that the kernel may touch */
    ge_desc desc;   /* of an input or output */
} ge_arg;

/* What only the host's functions look into. */
typedef struct ge_error ge_error;
typedef struct ge_node ge_node;
typedef struct ge_graph ge_graph;
typedef struct ge_patch ge_patch;
typedef struct ge_foreign ge_foreign;
typedef struct ge_builder ge_builder;
typedef struct ge_answer ge_answer;
typedef struct ge_outputs ge_outputs;
typedef struct ge_params ge_params;
typedef struct ge_binary ge_binary;
typedef struct ge_tasks ge_tasks;
typedef struct ge_load ge_load;
typedef struct ge_options ge_options;
typedef struct ge_file ge_file;

/* One kernel launch. */
typedef struct ge_launch {
    size_t size;
    const char *kernel; /* its name in the kernel store, as `compile` named it */
    uint32_t type;      /* GE_KERNEL_TE */
    uint32_t blocks;
    uint64_t tiling_key;
    const void *tiling;
    size_t tiling_size;
    const char *args; /* what stands at each address: "{i0*}{ws0*}{o0*}" */
    /* Since 1.1. */
    uint32_t stream; /* GE_STREAM_MAIN, or one that was asked for by params_attached */
} ge_launch;

/* A stream that a node wants beside its own. Since 1.1. */
typedef struct ge_attached {
    size_t size;
    const char *name;
    const char *reuse_key; /* nodes of one key share it; NULL: the name alone */
    const uint32_t *depend_value_inputs; /* inputs whose values its work needs */
    size_t n_depend_value_inputs;
    int32_t required; /* else the node may get none, and puts all on GE_STREAM_MAIN */
    int32_t force_reuse;
} ge_attached;

/* What the host does for plugins. It lives for ever. */
typedef struct ge_host {
    size_t size;
    uint32_t major;
    uint32_t minor;
    /* Keeps kind and words of an error; gives what the failing function returns. */
    int32_t (*fail)(ge_error *error, uint32_t kind, const char *why);
    void (*log)(uint32_t level, const char *text);
    /* Whether the user has asked to stop; loops that may last ask between items. */
    int32_t (*cancelled)(void);
    /* Runs `part` over 0..n in parts of at least `grain`, on all threads; the first code that is not 0 ends it. */
    int32_t (*parallel_for)(size_t n, size_t grain, int32_t (*part)(void *context, size_t begin, size_t end), void *context);

    /* Nodes. Functions that give 0 or 1 say whether there is such a thing. */
    uint32_t (*node_id)(const ge_node *node);
    ge_text (*node_op)(const ge_node *node);
    ge_text (*node_name)(const ge_node *node);
    size_t (*node_inputs)(const ge_node *node);
    size_t (*node_outputs)(const ge_node *node);
    int32_t (*node_input)(const ge_node *node, size_t input, ge_value *out);
    int32_t (*node_input_desc)(const ge_node *node, size_t input, ge_desc *out);
    int32_t (*node_output_desc)(const ge_node *node, size_t output, ge_desc *out);
    int32_t (*node_int)(const ge_node *node, const char *key, int64_t *out);
    int32_t (*node_float)(const ge_node *node, const char *key, double *out);
    int32_t (*node_text)(const ge_node *node, const char *key, ge_text *out);
    int32_t (*node_ints)(const ge_node *node, const char *key, const int64_t **out, size_t *count);

    /* Graphs, whose nodes stand in topological order. */
    size_t (*graph_size)(const ge_graph *graph);
    const ge_node *(*graph_node)(const ge_graph *graph, size_t position);
    const ge_node *(*graph_find)(const ge_graph *graph, uint32_t id);
    size_t (*graph_users)(const ge_graph *graph, ge_value value);

    /* Edits, which the host applies whole or not at all. */
    uint32_t (*patch_add)(ge_patch *patch, const char *op, const char *name, const ge_value *inputs, size_t n_inputs, const ge_desc *outputs, size_t n_outputs);
    void (*patch_remove)(ge_patch *patch, uint32_t node);
    void (*patch_replace_uses)(ge_patch *patch, ge_value from, ge_value to);
    void (*patch_set_int)(ge_patch *patch, uint32_t node, const char *key, int64_t value);
    void (*patch_set_float)(ge_patch *patch, uint32_t node, const char *key, double value);
    void (*patch_set_text)(ge_patch *patch, uint32_t node, const char *key, const char *value);

    /* Mappings: the foreign node, and nodes that are made of it. */
    size_t (*foreign_inputs)(const ge_foreign *node);
    int32_t (*foreign_input)(const ge_foreign *node, size_t input, ge_value *out);
    int64_t (*foreign_int)(const ge_foreign *node, const char *key, int64_t otherwise);
    double (*foreign_float)(const ge_foreign *node, const char *key, double otherwise);
    /* A node; the first that is made has the foreign node's name. */
    ge_value (*builder_node)(ge_builder *builder, const char *op, const ge_value *inputs, size_t n_inputs);
    void (*builder_set_int)(ge_builder *builder, ge_value of, const char *key, int64_t value);
    void (*builder_set_float)(ge_builder *builder, ge_value of, const char *key, double value);
    void (*builder_set_text)(ge_builder *builder, ge_value of, const char *key, const char *value);
    /* The next output of the foreign node is this value. */
    void (*builder_output)(ge_builder *builder, ge_value value);

    /* What engines and prototypes answer. */
    void (*refuse)(ge_answer *answer, const char *why);
    void (*infer_output)(ge_outputs *outputs, const ge_desc *desc);
    void (*params_workspace)(ge_params *params, uint64_t bytes, int32_t zeroed);
    void (*params_tasks)(ge_params *params, uint32_t count);
    void (*binary_set)(ge_binary *binary, const char *name, const void *bytes, size_t size);
    void (*tasks_launch)(ge_tasks *tasks, const ge_launch *launch);
    void (*tasks_copy)(ge_tasks *tasks, const char *from, const char *to);

    /* What an executor gets for a launch. */
    ge_text (*load_node)(const ge_load *load);
    const void *(*load_binary)(const ge_load *load, size_t *size);
    uint64_t (*load_tiling_key)(const ge_load *load);
    size_t (*load_args)(const ge_load *load);
    int32_t (*load_arg)(const ge_load *load, size_t position, ge_arg *out);

    /* All below: since 1.1. */
    /* In `supports`, before it returns 1: the node costs as much on this engine, and another that takes it at less gets it. */
    void (*answer_cost)(ge_answer *answer, uint32_t cost);
    /* Streams beside the node's own, and events (notifies) that its own tasks record and wait for, each numbered from 0. */
    void (*params_attached)(ge_params *params, const ge_attached *stream);
    void (*params_sync)(ge_params *params, const char *name, int32_t notify, const char *reuse_key);
    /* A record or wait (GE_SYNC_*) of the node's sync resource, on one of its streams. */
    void (*tasks_sync)(ge_tasks *tasks, uint32_t what, uint32_t resource, uint32_t stream);

    /* Values of the plugin's options; GE_OPTION_BOOL is 0 or 1. */
    int32_t (*option_int)(const ge_options *options, const char *name, int64_t *out);
    int32_t (*option_float)(const ge_options *options, const char *name, double *out);
    int32_t (*option_text)(const ge_options *options, const char *name, ge_text *out);

    /* Mappings and front ends. */
    int32_t (*foreign_text)(const ge_foreign *node, const char *key, ge_text *out);
    int32_t (*foreign_ints)(const ge_foreign *node, const char *key, const int64_t **out, size_t *count);
    void (*builder_set_ints)(ge_builder *builder, ge_value of, const char *key, const int64_t *values, size_t count);
    /* A node of a name with `n_outputs` outputs, of which the value is the first. */
    ge_value (*builder_named)(ge_builder *builder, const char *op, const char *name, const ge_value *inputs, size_t n_inputs, uint32_t n_outputs);
    /* A constant; the bytes are copied. GE_ABSENT as node where they are not those of type and shape. */
    ge_value (*builder_constant)(ge_builder *builder, const char *name, const ge_desc *desc, const void *bytes, size_t size);
    /* Front ends: the graph's next input, and its next output. */
    ge_value (*builder_input)(ge_builder *builder, const char *name, const ge_desc *desc);
    void (*builder_result)(ge_builder *builder, const char *name, ge_value value);
    /* The file that is imported: its bytes and its path; the shape that the user gave an input (--input-shape). */
    const void *(*file_bytes)(const ge_file *file, size_t *size);
    ge_text (*file_path)(const ge_file *file);
    int32_t (*file_shape)(const ge_file *file, const char *input, ge_desc *out);
    /* In `import`: the bytes of a file that the model names, relative to it; NULL where there is none, or it lies outside of the model's folder. */
    const void *(*builder_open)(ge_builder *builder, const char *path, size_t *size);
} ge_host;

/* Whether the host has a function that a later minor version appended. */
#define GE_HOST_HAS(HOST, FUNCTION) \
    ((HOST)->size >= offsetof(ge_host, FUNCTION) + sizeof((HOST)->FUNCTION) && (HOST)->FUNCTION != NULL)

/* One block of a launch. */
typedef struct ge_block {
    size_t size;
    uint32_t index;
    uint32_t count;
    uint64_t tiling_key;
    const void *tiling;
    size_t tiling_size;
    void *const *args;     /* addresses, in the order of the launch's args */
    const uint64_t *bytes; /* that each may be touched in */
    size_t n_args;
    void *scratch; /* scratch_bytes of its own, on a border of 64; NULL where none were asked for */
} ge_block;

/* A kernel that `load` gives: a function, its state, what it touches. Blocks of a launch run at the same time. */
typedef struct ge_kernel {
    size_t size;
    int32_t (*run)(const void *state, const ge_block *block, ge_error *error);
    void *state;
    void (*drop)(void *state); /* may be NULL */
    const uint32_t *access;    /* one an argument; read before `load` returns */
    size_t n_access;
    uint64_t scratch_bytes;
} ge_kernel;

/* An engine. `params`, `compile` and `time_ns` may be NULL. */
typedef struct ge_engine {
    size_t size;
    const char *name;
    uint32_t cost; /* among engines that take a node the one of the lowest cost gets it */
    const char *const *op_types;
    size_t n_op_types;
    void *self;
    /* 1: it takes the node; 0: it does not, and says why by host->refuse. */
    int32_t (*supports)(void *self, const ge_node *node, ge_answer *answer);
    int32_t (*params)(void *self, const ge_node *node, ge_params *params, ge_error *error);
    int32_t (*compile)(void *self, const ge_node *node, ge_binary *binary, ge_error *error);
    int32_t (*tasks)(void *self, const ge_node *node, ge_text kernel, ge_tasks *tasks, ge_error *error);
    uint64_t (*time_ns)(void *self, const ge_node *node);
    int32_t (*load)(void *self, const ge_load *load, ge_kernel *kernel, ge_error *error);
} ge_engine;

/* An input or output of an operator; without types it takes any. */
typedef struct ge_param {
    size_t size;
    const char *name;
    uint32_t kind;
    const uint32_t *types;
    size_t n_types;
    const char *group; /* parameters of one letter have one type; may be NULL */
} ge_param;

/* An attribute of an operator; `value_*` of its kind is its default where it is not required. */
typedef struct ge_attr {
    size_t size;
    const char *name;
    uint32_t kind;
    int32_t required;
    int64_t value_int; /* GE_ATTR_BOOL too */
    double value_float;
    const char *value_text;
} ge_attr;

/* A prototype. Without `infer` output 0 is like input 0. */
typedef struct ge_op {
    size_t size;
    const char *name;
    const ge_param *const *inputs;
    size_t n_inputs;
    const ge_param *const *outputs;
    size_t n_outputs;
    const ge_attr *const *attrs;
    size_t n_attrs;
    uint64_t flags;
    void *self;
    int32_t (*infer)(void *self, const ge_node *node, ge_outputs *outputs, ge_error *error);
} ge_op;

/* How one operator of a framework becomes nodes. */
typedef struct ge_mapping {
    size_t size;
    const char *framework; /* "onnx" */
    const char *domain;    /* "com.acme", or "ai.onnx" */
    const char *op;
    uint32_t since; /* versions of the domain's operator set, both included */
    uint32_t until;
    void *self;
    int32_t (*map)(void *self, const ge_foreign *node, ge_builder *builder, ge_error *error);
} ge_mapping;

/* A pass over a graph and each of its subgraphs. */
typedef struct ge_pass {
    size_t size;
    const char *name;
    const char *help;
    uint32_t stage;
    uint32_t level;
    void *self;
    int32_t (*run)(void *self, const ge_graph *graph, ge_patch *patch, ge_error *error);
} ge_pass;

/* An option of the plugin, given by [plugin.options] in plugins.toml. Since 1.1. */
typedef struct ge_option {
    size_t size;
    const char *name;
    const char *help;
    uint32_t kind;
    int64_t least; /* GE_OPTION_INT; both zero: any number */
    int64_t most;
    const char *const *choices; /* GE_OPTION_CHOICE; the first is the default */
    size_t n_choices;
    int64_t value_int; /* the default, by kind; GE_OPTION_BOOL too */
    double value_float;
    const char *value_text;
} ge_option;

/* A front end. Since 1.1. */
typedef struct ge_frontend {
    size_t size;
    const char *framework;
    void *self;
    /* Whether a file is of this framework: 1 or 0. */
    int32_t (*recognises)(void *self, const ge_file *file);
    /* Builds the graph by builder_input, builder_named, builder_constant, builder_set_* and builder_result. */
    int32_t (*import)(void *self, const ge_file *file, ge_builder *builder, ge_error *error);
} ge_frontend;

/* What a plugin is. */
typedef struct ge_plugin {
    size_t size;
    uint32_t major; /* GE_C_MAJOR and GE_C_MINOR of the header that it was built with */
    uint32_t minor;
    const ge_engine *const *engines;
    size_t n_engines;
    const ge_op *const *ops;
    size_t n_ops;
    const ge_mapping *const *mappings;
    size_t n_mappings;
    const ge_pass *const *passes;
    size_t n_passes;
    /* Since 1.1. */
    const ge_option *const *options;
    size_t n_options;
    int32_t (*start)(const ge_options *options, ge_error *error); /* called once, before all else of the table; may be NULL */
    const ge_frontend *const *frontends;
    size_t n_frontends;
} ge_plugin;

/* The plugin's one function: called once, before all else. It keeps `host`; NULL says that it cannot start. */
GE_EXPORT const ge_plugin *ge_c_plugin(const ge_host *host);

#ifdef __cplusplus
}
#endif
#endif
