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
const timers = require("node:timers");
const util = require("node:util");
const { promiseHooks } = require("node:v8");
const { Worker } = require("node:worker_threads");

const { withoutImports } = require("./imports.js");
const { Turns } = require("./turns.js");
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
const turns = new Turns();

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

// wholly does what an interrupt must not cut short. One that has come already does it here, before.
function wholly(action) {
  turns.lock();
  try {
    action();
  } finally {
    turns.unlock();
  }
}

// Output replaces Node's own streams, which keep what a full pipe does not take: code that prints
// faster than the client reads has to wait, and what it printed must be out when its cell ends. It
// has no state, which an interrupt could leave as it is in the middle of a write.
class Output extends Writable {
  constructor(fd) {
    super({ write: (bytes, encoding, done) => done() });
    this.fd = fd;
  }

  write(chunk, encoding, done) {
    if (this.writableEnded || !(typeof chunk === "string" || chunk instanceof Uint8Array)) {
      return super.write(chunk, encoding, done); // it knows what is wrong with that
    }
    const [name, callback] = typeof encoding === "function" ? [undefined, encoding] : [encoding, done];
    writeAll(this.fd, typeof chunk === "string" ? bytesOf(chunk, name) : chunk);
    if (callback) process.nextTick(callback);
    return true;
  }
}

// show says a result and waits until the daemon has sent it, so that output stays in order.
function show(data, rest) {
  const message = { type: "result", data, ...rest };
  wholly(() => {
    say(message);
    fs.readSync(ACKNOWLEDGEMENTS, acknowledgement);
  });
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
  Object.defineProperty(globalThis, "__unwind", { value: unwind });
  process.argv = [process.argv[0], ""];
  keepImmediates();
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

// unfinished are the promises of cells that the inspector waits for. It does not keep them: of one
// that nobody can keep any more it says so while garbage is collected, where no JavaScript may run, and
// that is the end of Node.
const unfinished = new Set();

// evaluated is what the inspector answers to a cell.
function evaluated(expression, objectGroup) {
  return new Promise((resolve) => {
    let promise = null;
    const forget = promiseHooks.onInit((first) => {
      forget(); // before any code of the cell: an interrupt leaves nothing behind
      promise = first;
      unfinished.add(first);
    });
    session.post("Runtime.evaluate", { expression, replMode: true, awaitPromise: true, objectGroup }, (error, answer) => {
      unfinished.delete(promise);
      resolve(error ? { error } : answer);
    });
    forget();
  });
}

async function evaluate(code, number) {
  const plain = withoutImports(isTypeScript ? loadTypes()(code) : code);
  const answer = await evaluated(`${plain}\n//# sourceURL=cell-${number}.js`, `cell-${number}`);
  if (answer.error) throw answer.error;
  if (answer.exceptionDetails) throw await handed(answer.exceptionDetails.exception);
  return handed(answer.result);
}

// run begins a cell at once, not in a microtask: an interrupt would end all microtasks with it.
async function run({ code, env, number }) {
  Object.assign(process.env, env);
  end(number, turns.isInterrupted(number) ? interruption : await runToEnd(code, number));
}

async function runToEnd(code, number) {
  try {
    const value = await evaluate(code, number);
    const forms = value === undefined ? null : await formsOf(value);
    if (forms && !turns.hasEnded(number)) show(forms, { count: number });
    return null;
  } catch (thrown) {
    return failureOf(thrown);
  } finally {
    session.post("Runtime.releaseObjectGroup", { objectGroup: `cell-${number}` });
  }
}

// end says how a cell ended, once. One that was interrupted may come to an end of its own later.
function end(number, failure) {
  const message = failure ? { type: "done", error: failure } : { type: "done" };
  wholly(() => {
    if (turns.hasEnded(number)) return;
    turns.end(number);
    say(message);
  });
}

const interruption = { ename: "KeyboardInterrupt", evalue: "", traceback: [] };

// unwind is called by the inspector in the middle of whatever runs, just before that is ended. Then no
// finally is run, and Node, which keeps account of what calls back into what, ends itself when the
// books do not balance. It returns false when it is to be called again later.
function unwind(isPatient) {
  if (isPatient && isAboutToCallBack()) return false;
  balance();
  turns.awaitEnding();
  return true;
}

// isAboutToCallBack says whether Node is in the middle of a function that makes an entry in its books.
// What was interrupted goes on for a while before it ends: long enough for an entry that stays.
function isAboutToCallBack() {
  for (const place of interruptedPlaces()) {
    if (place.getLineNumber() === null) continue; // a function of V8
    const file = place.getFileName() ?? "";
    if (file.startsWith("node:") && CALLERS.test(place.getFunctionName())) return true;
    if (!file.startsWith("node:") || !file.endsWith("async_hooks")) return false;
  }
  return false;
}

const CALLERS = /^(promiseBeforeHook|emitBefore\w*|pushAsyncContext|runInAsyncScope|listOnTimeout|processTicksAndRejections)$/;

// interruptedPlaces is the stack below unwind and the inspector's call of it. Code may have changed
// what a stack looks like, or have seen to it that nobody can.
function interruptedPlaces() {
  const { prepareStackTrace, stackTraceLimit } = Error;
  const holder = {};
  try {
    Error.prepareStackTrace = (_, places) => places;
    Error.stackTraceLimit = 10;
    Error.captureStackTrace(holder, unwind);
    const places = holder.stack;
    Error.prepareStackTrace = prepareStackTrace;
    Error.stackTraceLimit = stackTraceLimit;
    return places.slice(1);
  } catch {
    return [];
  }
}

// balance closes those books. Node does so after an exception that nobody caught, so tell it of one.
function balance() {
  const { emit } = process;
  process.emit = () => true; // nobody else is to hear of it
  process._fatalException?.(new Error("interrupted"), false);
  process.emit = emit;
}

// Node's list of immediates does not outlive the end of one that runs, so that one runs after it.
function keepImmediates() {
  const plain = timers.setImmediate;
  const { nextTick } = process;
  const later = (callback, ...values) =>
    typeof callback === "function" ? plain(() => nextTick(callback, ...values)) : plain(callback);
  later[util.promisify.custom] = plain[util.promisify.custom];
  globalThis.setImmediate = timers.setImmediate = later;
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
  const listener = new Worker(path.join(__dirname, "listener.js"), { workerData: { turns: turns.memory, fd: CONNECTION } });
  listener.on("message", (order) => {
    if (order.type === "run") {
      run(order).then(undefined, giveUp);
    } else if (order.type === "interrupt") {
      if (order.hasEnded) balance(); // what was about to call back
      end(order.number, interruption); // what it awaits may go on
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
