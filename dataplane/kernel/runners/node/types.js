// SPDX-License-Identifier: Apache-2.0
//
// Takes the types off TypeScript: with Node itself where it can, else with a package of the image.
"use strict";

const { execFileSync } = require("node:child_process");
const { createRequire, ...modules } = require("node:module");
const path = require("node:path");

let loaded = null;

// loadTypes returns a function that makes JavaScript of TypeScript.
function loadTypes() {
  loaded ??= withNode() ?? withSucrase() ?? withTypeScript();
  if (!loaded) {
    throw new Error(
      `TypeScript needs Node 22.13 or newer, or the package sucrase or typescript: npm install -g sucrase (this is Node ${process.version})`,
    );
  }
  return loaded;
}

function withNode() {
  const strip = modules.stripTypeScriptTypes;
  if (!strip) return null;
  process.removeAllListeners("warning"); // it calls itself experimental, in the user's output
  return (code) => strip(code, { mode: "transform" });
}

function withSucrase() {
  const sucrase = found("sucrase");
  return sucrase && ((code) => sucrase.transform(code, { transforms: ["typescript"], keepUnusedImports: true, disableESTransforms: true }).code);
}

function withTypeScript() {
  const typescript = found("typescript");
  if (!typescript) return null;
  const compilerOptions = { target: "esnext", module: "esnext", verbatimModuleSyntax: true };
  return (code) => typescript.transpileModule(code, { compilerOptions }).outputText;
}

// found is a package of the working directory or of the whole image.
function found(name) {
  const near = [process.cwd(), ...(process.env.NODE_PATH ?? "").split(":")].filter(Boolean);
  const places = [...near.map((place) => () => place), globalPackages]; // the last takes a while
  for (const place of places) {
    try {
      return createRequire(path.join(place(), "x.js"))(name);
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  return null;
}

function globalPackages() {
  try {
    return path.join(execFileSync("npm", ["root", "-g"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim(), "x");
  } catch {
    return "/usr/local/lib/node_modules/x";
  }
}

module.exports = { loadTypes };
