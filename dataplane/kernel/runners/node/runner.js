// SPDX-License-Identifier: Apache-2.0
//
// The daemon's runner for JavaScript and TypeScript. Cells are evaluated by Node's own inspector in
// its REPL mode, so that let and const may be declared again and await works. A second thread reads
// what the daemon says: it can end a cell that keeps this one busy.
"use strict";

const fs = require("node:fs");
const inspector = require("node:inspector");
const { createRequire } = require("node:module");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const { Writable } = require("node:stream");
const util = require("node:util");
const { Worker } = require("node:worker_threads");

const { withoutImports } = require("./imports.js");
const { loadTypes } = require("./types.js");

const CONNECTION = 3;
const ACKNOWLEDGEMENTS = 4;
const DISPLAY = Symbol.for("Jupyter.display"); // how a value says what it looks like, as in Deno
const isTypeScript = process.argv[2] === "typescript";
const own = __dirname + path.sep;

// Code may replace what the language has; cells must end as they should all the same.
const { stringify } = JSON;
const { exit } = process;
const bytesOf = Buffer.from;
const acknowledgement = Buffer.alloc(1);

const session = new inspector.Session();
let count = 0;
let cell = null; // what runs: { number, finish }

// --- speaking with the daemon -------------------------------------------------------------------

// writeAll returns when all is written, also to a pipe that somebody made non-blocking.
function writeAll(fd, bytes) {
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(fs.writeSync(fd, bytes));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1); // the reader is slower
    }
  }
}

function say(message) {
  writeAll(CONNECTION, bytesOf(stringify(message) + "\n"));
}

// Output replaces Node's own streams, which keep what a full pipe does not take: code that prints
// faster than the client reads has to wait, and what it printed must be out when its cell ends.
class Output extends Writable {
  constructor(fd) {
    super({ decodeStrings: true });
    this.fd = fd;
  }

  _write(bytes, encoding, done) {
    writeAll(this.fd, bytes);
    done();
  }
}

// show says a result and waits until the daemon has told it, so that output stays in order.
function show(data, rest) {
  say({ type: "result", data, ...rest });
  fs.readSync(ACKNOWLEDGEMENTS, acknowledgement);
}

// --- values -------------------------------------------------------------------------------------

const encoded = (value) => (value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value);

async function formsOf(value) {
  if (value !== null && typeof value === "object" && typeof value[DISPLAY] === "function") {
    const forms = await value[DISPLAY]();
    return Object.fromEntries(Object.entries(forms).map(([kind, form]) => [kind, encoded(form)]));
  }
  return { "text/plain": util.inspect(value) };
}

// display shows a value in the middle of a cell; with raw, forms by MIME type.
async function display(value, { raw = false, display_id, update = false } = {}) {
  const rest = { ...(display_id ? { display_id: String(display_id) } : {}), update };
  show(raw ? await formsOf({ [DISPLAY]: () => value }) : await formsOf(value), rest);
}

// failureOf never throws, whatever was thrown.
function failureOf(thrown) {
  try {
    return described(thrown);
  } catch {
    return { ename: "Uncaught", evalue: "(what was thrown cannot be shown)", traceback: [] };
  }
}

function described(thrown) {
  if (thrown?.message === "Execution was terminated" || thrown?.code === "ERR_INSPECTOR_COMMAND") {
    return interruption;
  }
  if (!util.types.isNativeError(thrown) && !(thrown instanceof Error)) {
    return { ename: "Uncaught", evalue: util.inspect(thrown), traceback: [] };
  }
  const stack = String(thrown.stack ?? thrown).split("\n");
  const traceback = stack.filter((line) => !line.includes(own) && !line.includes("(node:") && !line.includes("at node:"));
  if (traceback.at(-1)?.includes("at new Promise (<anonymous>)")) traceback.pop(); // ours, in post
  return { ename: String(thrown.name), evalue: String(thrown.message), traceback };
}

// --- cells --------------------------------------------------------------------------------------

function post(method, parameters) {
  return new Promise((resolve) => {
    session.post(method, parameters, (error, answer) => resolve(error ? { error } : answer));
  });
}

// handed is the value that an answer of the inspector stands for.
async function handed(remote) {
  const { objectId, unserializableValue, value, type } = remote;
  if (type === "undefined") return undefined;
  if (objectId === undefined && unserializableValue === undefined) return value;
  const argument = objectId === undefined ? { unserializableValue } : { objectId };
  await post("Runtime.callFunctionOn", {
    objectId: hookId,
    functionDeclaration: "function (value) { this.value = value; }",
    arguments: [argument],
  });
  const { value: found } = hook;
  hook.value = undefined;
  return found;
}

const hook = { value: undefined };
let hookId;

async function prepare() {
  session.connect();
  globalThis.__hook = hook;
  const { result } = await post("Runtime.evaluate", { expression: "__hook" });
  hookId = result.objectId;
  delete globalThis.__hook;
  const place = path.join(process.cwd(), "cell.js");
  globalThis.require = createRequire(place);
  globalThis.module = { exports: {} };
  globalThis.exports = globalThis.module.exports;
  globalThis.display = display;
  const importFrom = (name) =>
    import(/^\.{0,2}\//.test(name) ? pathToFileURL(path.resolve(name)).href : importable(name));
  Object.defineProperty(globalThis, "__import", { value: importFrom });
  process.argv = [process.argv[0], ""];
}

// importable is where a bare name leads from the working directory; what require does not find,
// such as packages without a CommonJS side, the loader may.
function importable(name) {
  try {
    const found = globalThis.require.resolve(name);
    return path.isAbsolute(found) ? pathToFileURL(found).href : found;
  } catch {
    return name;
  }
}

async function evaluate(code) {
  const plain = withoutImports(isTypeScript ? loadTypes()(code) : code);
  const answer = await post("Runtime.evaluate", {
    expression: `${plain}\n//# sourceURL=cell-${count}.js`,
    replMode: true,
    awaitPromise: true,
    objectGroup: "cell",
  });
  if (answer.error) throw answer.error;
  if (answer.exceptionDetails) throw await handed(answer.exceptionDetails.exception);
  return handed(answer.result);
}

async function run({ code, env }) {
  Object.assign(process.env, env);
  count += 1;
  const number = count;
  const interrupted = new Promise((resolve) => {
    cell = { number, finish: resolve };
  });
  const failure = await Promise.race([runToEnd(code), interrupted]);
  cell = null;
  say(failure ? { type: "done", error: failure } : { type: "done" });
}

async function runToEnd(code) {
  await null; // from here on an interrupt may cut this short, but not what waits for it
  try {
    const value = await evaluate(code);
    if (value !== undefined) show(await formsOf(value), { count });
    return null;
  } catch (thrown) {
    return failureOf(thrown);
  } finally {
    session.post("Runtime.releaseObjectGroup", { objectGroup: "cell" });
  }
}

const interruption = { ename: "KeyboardInterrupt", evalue: "", traceback: [] };

function interrupt() {
  cell?.finish(interruption); // it awaits something; what it awaits may go on
}

// --- the whole ----------------------------------------------------------------------------------

function tell(kind, thrown) {
  fs.writeSync(2, `${kind}: ${util.inspect(thrown)}\n`);
}

// giveUp ends an interpreter that can no longer say how its cell ended.
function giveUp(error) {
  tell("The code has broken its interpreter", error);
  exit.call(process, 1);
}

async function main() {
  Object.defineProperty(process, "stdout", { value: new Output(1), configurable: true });
  Object.defineProperty(process, "stderr", { value: new Output(2), configurable: true });
  if (isTypeScript) loadTypes(); // says what is missing before there is a context
  await prepare();
  process.on("exit", () => session.disconnect()); // or Node waits for it
  process.on("uncaughtException", (thrown) => tell("Uncaught", thrown));
  process.on("unhandledRejection", (thrown) => tell("Unhandled rejection", thrown));
  const heard = new Int32Array(new SharedArrayBuffer(4));
  const listener = new Worker(path.join(__dirname, "listener.js"), { workerData: { heard, fd: CONNECTION } });
  listener.on("message", (order) => {
    if (order.type === "run") {
      run(order).then(undefined, giveUp);
    } else if (order.type === "interrupt") {
      Atomics.add(heard, 0, 1);
      Atomics.notify(heard, 0);
      interrupt();
    } else {
      exit.call(process, 0);
    }
  });
  say({ type: "ready" });
}

main().catch((error) => {
  fs.writeSync(2, `${error.message}\n`);
  process.exit(3);
});
