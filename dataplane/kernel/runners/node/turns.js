// SPDX-License-Identifier: Apache-2.0
//
// What the two threads know of cells, in memory that they share: which cell is to end, which has
// ended, and whose turn it is. Who has the lock may end what the main thread does, or is the main
// thread and cannot be ended.
"use strict";

const LOCK = 0;
const INTERRUPTED = 1;
const ENDED = 2;
const ENDING = 3;
const WORDS = 4;

// What ENDING holds.
const UNWOUND = 1; // the main thread waits for its end
const ANNOUNCED = 2; // that end is on its way

const WAIT_MS = 10; // how long a wait for the lock goes on before it looks again

const { compareExchange, load, notify, store, wait, waitAsync } = Atomics; // code may replace them

class Turns {
  constructor(memory = new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.words = new Int32Array(memory);
  }

  lock() {
    while (compareExchange(this.words, LOCK, 0, 1) !== 0) wait(this.words, LOCK, 1, WAIT_MS);
  }

  unlock() {
    store(this.words, LOCK, 0);
    notify(this.words, LOCK);
  }

  // whenUnwound is a promise: the main thread is where it can be ended, and waits for that.
  whenUnwound() {
    store(this.words, ENDING, 0);
    return Promise.resolve(waitAsync(this.words, ENDING, 0).value);
  }

  declareUnwound() {
    store(this.words, ENDING, UNWOUND);
    notify(this.words, ENDING);
  }

  // announceEnding says that what the main thread does ends as soon as it goes on.
  announceEnding() {
    store(this.words, ENDING, ANNOUNCED);
  }

  // awaitEnding is called in the middle of something, which may be a wait: V8 has no second one then.
  awaitEnding() {
    this.declareUnwound();
    while (load(this.words, ENDING) !== ANNOUNCED);
  }

  // interrupt says that a cell is to end, also one that has not begun.
  interrupt(number) {
    store(this.words, INTERRUPTED, number);
  }

  isInterrupted(number) {
    return load(this.words, INTERRUPTED) >= number;
  }

  end(number) {
    store(this.words, ENDED, number);
    notify(this.words, ENDED);
  }

  hasEnded(number) {
    return load(this.words, ENDED) >= number;
  }

  // waitForEnd says whether a cell has ended, or does within a time.
  waitForEnd(number, timeout) {
    if (!this.hasEnded(number)) wait(this.words, ENDED, number - 1, timeout);
    return this.hasEnded(number);
  }
}

module.exports = { Turns };
