// Opens an OM with the reader of Netron and prints what it shows as JSON.
// Usage: node open.mjs NETRON_FOLDER MODEL.om   (the folder of the Python package `netron`, copied beside a package.json of type module)
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, file] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(resolve(folder, `${name}.js`)).href);
const [om, base] = await Promise.all([load('om'), load('base')]);

// What Netron's own viewer gives a reader: the bytes, the reader's tables, its schema modules.
class Context {
    constructor(bytes) {
        this.stream = new base.BinaryStream(bytes);
    }

    set(type, value) {
        this.type = type;
        this.value = value;
        return type;
    }

    async metadata(name) {
        const types = new Map(JSON.parse(readFileSync(join(folder, name), 'utf-8')).map((t) => [t.name, t]));
        return { type: (name) => types.get(name) };
    }

    async require(name) {
        return load(name.replace(/^\.\//, ''));
    }
}

const context = new Context(new Uint8Array(readFileSync(file)));
const factory = new om.ModelFactory();
if (!(await factory.match(context))) {
    throw new Error(`${file}: no OM for Netron`);
}
context.value.context = context;
const model = await factory.open(context);
const values = (list) => list.flatMap((argument) => argument.value.map((v) => ({ name: v.name, type: v.type ? v.type.toString() : null })));
const nodes = (graph) => graph.nodes.map((n) => ({
    type: n.type.name,
    name: n.name,
    inputs: values(n.inputs),
    outputs: values(n.outputs),
    attributes: n.attributes.map((a) => a.name),
}));
console.log(JSON.stringify({ format: model.format, graphs: model.modules.map((g) => ({ name: g.name, nodes: nodes(g) })) }));
