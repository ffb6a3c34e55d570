// SPDX-License-Identifier: Apache-2.0
//
// The thread that hears the daemon. An interrupt goes to the main thread as every order does; when
// that is busy with a cell and takes nothing, what it does is ended through the inspector.
"use strict";

const inspector = require("node:inspector");
const net = require("node:net");
const { parentPort, workerData } = require("node:worker_threads");

const { Turns } = require("./turns.js");

const TIMEOUT_MS = 100; // how long a main thread that has time takes to hear an interrupt, at most
const TRIES = 100; // how often the main thread may say that it cannot be ended where it is
const STEP_MS = 1; // for the main thread to go on to another place
const turns = new Turns(workerData.turns);

let count = 0;
let session = null; // only while the main thread is being ended: at its end Node waits for sessions

function pass(order) {
  if (order.type === "run") count += 1;
  if (order.type === "interrupt") turns.interrupt(count);
  parentPort.postMessage({ ...order, number: count });
  if (order.type === "interrupt" && session === null) insist();
}

// insist ends what keeps the main thread from hearing that its cell is interrupted. Meanwhile the
// main thread must not do what has to be done whole, and a cell that has ended is left alone: what is
// ended without need is the next thing that runs, whatever it is.
function insist() {
  if (turns.waitForEnd(count, TIMEOUT_MS)) return;
  turns.lock();
  if (turns.hasEnded(count)) {
    turns.unlock();
    return;
  }
  session = new inspector.Session();
  session.connectToMainThread();
  turns.whenUnwound().then(end);
  unwind(TRIES);
}

// unwind gets the main thread ready for its end.
function unwind(tries) {
  session.post("Runtime.evaluate", { expression: `__unwind(${tries > 0})` }, (error, answer) => {
    if (answer?.result.value === false) setTimeout(unwind, STEP_MS, tries - 1);
    else if (error || answer.exceptionDetails) turns.declareUnwound(); // as ready as it gets: it may have no stack left
  });
}

function end() {
  session.post("Runtime.terminateExecution", () => {
    session.disconnect();
    session = null;
    turns.unlock();
    parentPort.postMessage({ type: "interrupt", number: count, hasEnded: true }); // the first may be what was ended
    insist();
  });
  turns.announceEnding();
}

let rest = "";
const daemon = new net.Socket({ fd: workerData.fd, readable: true, writable: false });
daemon.setEncoding("utf8");
daemon.on("data", (piece) => {
  const lines = (rest + piece).split("\n");
  rest = lines.pop();
  for (const line of lines) pass(JSON.parse(line));
});
daemon.on("close", () => parentPort.postMessage({ type: "end" }));
