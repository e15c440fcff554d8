//! Error codes 05: plugins, with their pages.

codes! {
    PLUGIN_FAILED = "GE-E0500", PLUGIN,
        "a plugin failed",
        "The plugin and the call are named. `ge plugin check LIB` tries all of it.",
        "Run `ge plugin check LIB`, and tell the plugin's author; leave the plugin out until it is mended.",
        "ge plugin check vendor/libge_fast.so";

    NO_CONFIG = "GE-E0501", PLUGIN,
        "no plugins.toml",
        "Plugins are found by plugins.toml. None was found on the way that the message lists.",
        "Give the file with `--plugins FILE` or in `$GE_PLUGINS`.",
        "ge plugin list in a folder without plugins.toml, of a ge that was copied without its folder etc\n  right: ge --plugins etc/plugins.toml plugin list";

    BAD_CONFIG = "GE-E0502", PLUGIN,
        "plugins.toml is wrong",
        "An entry or a key of plugins.toml is not what it should be. File, line and column are given, with what is right there.",
        "Mend the line that is named.",
        "[[plugin]]\nname = \"nn\"\nenabld = true\n  right: enabled = true";

    NOT_FOUND = "GE-E0503", PLUGIN,
        "a plugin's library is not there",
        "The library was looked for in each folder of `search`, or at the entry's `path`, and is not there.",
        "Build the library, or add its folder to `search`.",
        "search = [\"target/release\"] in plugins.toml";

    NOT_A_LIBRARY = "GE-E0504", PLUGIN,
        "not a library",
        "The file is no ELF library, or it is cut or damaged: it is looked at before anything of it is loaded.",
        "Build or copy the library again.",
        "a text file named libge_nn.so";

    OTHER_MACHINE = "GE-E0505", PLUGIN,
        "a library for another machine",
        "The library was built for another processor or word size than this machine's.",
        "Build it for this machine.",
        "an aarch64 library on x86-64: build it here";

    NOT_A_PLUGIN = "GE-E0506", PLUGIN,
        "a library, but no plugin of ge",
        "The library has no manifest or no root symbol: it was built without `ge_plugin!`, or is no plugin at all.",
        "Take the entry out, or build the plugin with `ge_plugin!`.",
        "path = \"/usr/lib/libz.so\"";

    BAD_MANIFEST = "GE-E0507", PLUGIN,
        "a plugin's manifest is wrong",
        "The manifest in the library is damaged, or names another plugin than the entry of plugins.toml.",
        "Let the entry's name be the manifest's, or build the library again.",
        "name = \"nn\" with path = \"libge_cpu.so\"";

    PLUGIN_VERSION = "GE-E0508", PLUGIN,
        "a plugin's version does not meet the requirement",
        "The entry's `version` is a semver requirement, and the library's own version does not meet it.",
        "Install a version that meets the requirement, or change the requirement.",
        "version = \"^0.2\" with plugin 0.1.0";

    API_VERSION = "GE-E0509", PLUGIN,
        "made for another plugin interface",
        "The plugin was built with a `ge-plugin-api` of another major version, or of a newer minor one whose additions it needs.",
        "Build the plugin with the `ge-plugin-api` of this ge, or update ge.",
        "a plugin of ge-plugin-api 2.0 in a ge of 1.x";

    PANIC_ABORT = "GE-E0510", PLUGIN,
        "a panic of the plugin would end the process",
        "The library was built with `panic = \"abort\"`: any panic of it would take ge down with it.",
        "Build the plugin with `panic = \"unwind\"`, which is the default.",
        "[profile.release]\npanic = \"unwind\"";

    TWICE = "GE-E0511", PLUGIN,
        "the same library twice",
        "Two entries of plugins.toml lead to one library, or to two that call themselves by one name.",
        "Take one of the entries out.",
        "two [[plugin]] entries with path = \"libge_nn.so\"";

    SAME_NAME = "GE-E0512", PLUGIN,
        "two plugins give the same name",
        "An engine, pass or prototype stands in two plugins. `overrides` says which one wins.",
        "Say in plugins.toml which plugin wins, or leave one out.",
        "two plugins that bring AIcoreEngine\n  right: overrides = [\"AIcoreEngine\"] in the entry that is to win";

    PLUGIN_OPTION = "GE-E0513", PLUGIN,
        "a plugin option is wrong",
        "The key is unknown, or the value is of another type or out of range.",
        "Take a key and a value of the plugin's own list; the message names them.",
        "[plugin.options]\nwinograd = true";

    OPEN = "GE-E0514", PLUGIN,
        "the system cannot open the library",
        "The system's loader refused the library: one that it needs is missing, or a symbol is undefined.",
        "Install what `ldd` shows as missing.",
        "ldd libge_fast.so";

    LAYOUT = "GE-E0515", PLUGIN,
        "the plugin's types are laid out otherwise",
        "The types that cross the border have another layout: the plugin was built against a changed ge-plugin-api.",
        "Build the plugin with the published crate of the same version.",
        "a plugin built against a ge-plugin-api with a field added by hand";

    START = "GE-E0516", PLUGIN,
        "a plugin failed at start-up",
        "Its `init` returned an error or panicked; the message is its own.",
        "Do what the plugin's own message says.",
        "a plugin whose licence file is missing";

    LIES = "GE-E0517", PLUGIN,
        "a plugin does not give what it says",
        "Counts, names or shapes are not those of its manifest or of the call.",
        "Tell the plugin's author; `ge plugin check LIB` shows the fault alone.",
        "ge plugin check vendor/libge_fast.so";

    CALL = "GE-E0518", PLUGIN,
        "a call into a plugin failed",
        "It panicked, or took the process down; the plugin and the call are named.",
        "Leave the plugin out, and tell its author the call.",
        "enabled = false in plugins.toml leaves the plugin out";

    DIGEST = "GE-E0519", PLUGIN,
        "a library is not the one it should be",
        "The digest of the library differs from `sha256` in plugins.toml: it was built anew, or changed.",
        "Install the right library again, or take `sha256` out of the entry.",
        "sha256 = \"00…\" beside a library that was built anew\n  right: the digest that `sha256sum libge_nn.so` prints";

    PROBE = "GE-E0520", PLUGIN,
        "the probe of a plugin found a fault",
        "`ge plugin check` lists what passed and what did not.",
        "Mend what failed, and check again.",
        "ge plugin check vendor/libge_fast.so";

    PLUGIN_EDIT = "GE-E0521", PLUGIN,
        "a plugin's change to a graph does not hold",
        "A pass or an engine's optimizer gave a patch that would break the graph; it was not applied.",
        "Switch the pass off, and tell its author: `--set ge.optimizationSwitch=PASS:off`.",
        "`ge opt --passes NAME --verify-each` on a small graph shows it";

    TASK_RULES = "GE-E0522", PLUGIN,
        "an engine's task list breaks a rule",
        "What an engine returns from `generate_task` and asks for in `calc_op_running_param` is held against numbered rules (T1 to T14, docs/plugins.md) before anything is made of it. The message names engine, plugin, node, rule and task. In an OM that breaks them the same rules are told as GE-E0402.",
        "The engine's author does what the help says, and runs `ge plugin check`; until then leave the engine out by `exclude_engines`.",
        "Task::kernel(KernelTask::new(\"k\", 1, \"{i7*}{o0*}\")) for a node of one input\n  right: {i0*}{o0*}";

    TRUST = "GE-E0523", FAILED,
        "what is trusted cannot be kept",
        "`ge plugin trust FILE` keeps path and digest of a configuration in `$XDG_CONFIG_HOME/ge/trusted`, else in `~/.config/ge/trusted`. That file cannot be written.",
        "Set `$XDG_CONFIG_HOME` to a folder that can be written, or name the configuration by `--plugins FILE`.",
        "XDG_CONFIG_HOME=/proc ge plugin trust plugins.toml";

    SIGNATURE = "GE-E0524", PLUGIN,
        "a library is not signed by a trusted key",
        "The entry of the plugin names a signature (Ed25519, minisign's form), and it cannot be read, is of other bytes than the library's, or of a key that `trusted_keys` of plugins.toml does not have.",
        "Install library and signature again, or take the key of the vendor into `trusted_keys`.",
        "signature = \"libge_acme.so.minisig\" of a library that was built anew\n  right: minisign -Sm libge_acme.so, then the file beside it";
}
