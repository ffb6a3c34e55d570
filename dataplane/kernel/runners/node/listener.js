// SPDX-License-Identifier: Apache-2.0
//
// The thread that hears the daemon. An interrupt goes to the main thread as every order does; when
// that is busy with a cell and takes nothing, the cell is ended through the inspector.
"use strict";

const inspector = require("node:inspector");
const net = require("node:net");
const { parentPort, workerData } = require("node:worker_threads");

const PATIENCE_MS = 100; // how long a main thread that has time takes to hear an interrupt, at most
const { heard, fd } = workerData;

let session = null; // only from an interrupt to the next cell: at its end Node waits for sessions

function pass(order) {
  session?.disconnect();
  session = null;
  const before = Atomics.load(heard, 0);
  parentPort.postMessage(order);
  if (order.type !== "interrupt") return;
  if (Atomics.wait(heard, 0, before, PATIENCE_MS) === "timed-out") {
    session = new inspector.Session();
    session.connectToMainThread();
    session.post("Runtime.terminateExecution");
  }
}

let rest = "";
const daemon = new net.Socket({ fd, readable: true, writable: false });
daemon.setEncoding("utf8");
daemon.on("data", (piece) => {
  const lines = (rest + piece).split("\n");
  rest = lines.pop();
  for (const line of lines) pass(JSON.parse(line));
});
daemon.on("close", () => parentPort.postMessage({ type: "end" }));
