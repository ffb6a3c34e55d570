// SPDX-License-Identifier: Apache-2.0
//
// Code that the inspector evaluates is a script, which has neither import declarations nor import().
// Both become calls of a function; strings, comments, templates and regular expressions stay.
"use strict";

const SPACE = /\s/;
const NAME = /[\p{ID_Continue}$]/u;
const DECLARATION =
  /^import\s*(?:type\s+)?(?:([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*,?\s*)?(?:\*\s*as\s+([\p{ID_Start}$_][\p{ID_Continue}$]*)|\{([^}]*)\})?\s*(?:from\s*)?(["'])((?:(?!\4).)+)\4(?:\s*with\s*\{[^}]*\})?[ \t]*;?/u;

// withoutImports returns code with its imports as calls.
function withoutImports(code) {
  if (!code.includes("import") && !code.includes("export")) return code;
  let made = "";
  let at = 0;
  let before = ""; // the last thing that was not space, to tell a division from an expression
  while (at < code.length) {
    const end = skipped(code, at, before);
    if (end > at) {
      made += code.slice(at, end);
      if (code[at] !== "/" || !"/*".includes(code[at + 1])) before = code[end - 1];
      at = end;
      continue;
    }
    const [text, next] = translated(code, at, before);
    made += text;
    if (!SPACE.test(code[at])) before = code.slice(at, next).trimEnd().at(-1) ?? before;
    at = next;
  }
  return made;
}

// translated is what stands for the code at a place, and where it goes on.
function translated(code, at, before) {
  if (!NAME.test(code[at])) return [code[at], at + 1];
  let end = at;
  while (end < code.length && NAME.test(code[end])) end += 1;
  const word = code.slice(at, end);
  if (word === "import" && before !== ".") {
    const declaration = DECLARATION.exec(code.slice(at));
    if (declaration) return [call(declaration), at + declaration[0].length];
    if (/^\s*\(/.test(code.slice(end))) return ["__import", end];
  }
  if (word === "export" && before !== "." && /^\s+(default\s+)?(const|let|var|class|function|async)\b/.test(code.slice(end))) {
    return ["", end + /^\s+(default\s+)?/.exec(code.slice(end))[0].length];
  }
  return [word, end];
}

function call([, whole, space, names, , module]) {
  const from = `(await __import(${JSON.stringify(module)}))`;
  const parts = [];
  if (whole) parts.push(`var ${whole} = ${from}.default;`);
  if (space) parts.push(`var ${space} = ${from};`);
  if (names !== undefined) {
    const pairs = names.split(",").map((name) => name.trim()).filter((name) => name && !/^type\s/.test(name));
    parts.push(`var { ${pairs.map((pair) => pair.replace(/\s+as\s+/, ": ")).join(", ")} } = ${from};`);
  }
  return parts.length ? parts.join(" ") : `await __import(${JSON.stringify(module)});`;
}

// skipped is the end of the string, comment, template or regular expression at a place; else the place.
function skipped(code, at, before) {
  const two = code.slice(at, at + 2);
  if (two === "//") return ending(code, "\n", at);
  if (two === "/*") return ending(code, "*/", at + 2) + 0;
  if ("\"'`".includes(code[at])) return quoted(code, at, code[at]);
  if (code[at] === "/" && (before === "" || "(,=:[!&|?{};+-*%<>~^".includes(before))) return quoted(code, at, "/");
  return at;
}

function ending(code, mark, from) {
  const found = code.indexOf(mark, from);
  return found < 0 ? code.length : found + mark.length;
}

function quoted(code, at, mark) {
  let isClass = false; // in a regular expression, within [ ]
  for (let i = at + 1; i < code.length; i += 1) {
    if (code[i] === "\\") i += 1;
    else if (mark === "/" && code[i] === "[") isClass = true;
    else if (mark === "/" && code[i] === "]") isClass = false;
    else if (code[i] === mark && !isClass) return i + 1;
    else if (code[i] === "\n" && mark !== "`") return i; // not closed: let the inspector say so
  }
  return code.length;
}

module.exports = { withoutImports };
