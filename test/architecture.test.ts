import path from "node:path";
import { describe, expect, test } from "vitest";
import { formRules, reviewedNames } from "./support/architecture-form-rules.ts";
import { importRules } from "./support/architecture-import-rules.ts";
import { invariantRule, readInvariants } from "./support/architecture-invariants.ts";
import { innocent, planted } from "./support/architecture-planted.ts";
import { checkRules, printViolation } from "./support/architecture-rule.ts";
import { scanSource } from "./support/architecture-scan.ts";
import { listFiles, parseSource, readSources, readText } from "./support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "..");
const rules = [...importRules, ...formRules];
const sources = readSources(root);
const parse = (files: Record<string, string>) => Object.entries(files).map(([file, text]) => parseSource(file, text));

describe("the rules bite", () => {
  test.each(planted)("$rule catches $expect", ({ rule, files, expect: words }) => {
    const found = checkRules(
      rules.filter(({ id }) => id === rule),
      parse(files),
    );
    expect(found.map(printViolation).join("\n")).toMatch(words);
  });

  test.each(rules)("$id has a planted violation: $says", ({ id }) => {
    expect(planted.filter(({ rule }) => rule === id)).not.toEqual([]);
  });

  test("what only looks like a violation is none", () => {
    expect(checkRules(rules, parse(innocent)).map(printViolation)).toEqual([]);
  });
});

describe("this repository", () => {
  test("is looked at: its services and packages are among the files", () => {
    const seen = sources.map((file) => file.path);
    expect(seen).toEqual(expect.arrayContaining(["services/controller/src/ports.ts", "test/architecture.test.ts"]));
  });

  test("has every file that is excused from a rule", () => {
    const present = new Set(sources.map((file) => file.path));
    expect([...reviewedNames.keys()].filter((file) => !present.has(file))).toEqual([]);
  });

  test.each(rules)("keeps $id: $says", (rule) => {
    expect(checkRules([rule], sources).map(printViolation)).toEqual([]);
  });
});

describe("the scanner", () => {
  test("blanks strings, comments, templates and regular expressions, and nothing else", () => {
    const { code, strings, comments } = scanSource(
      'const a = "x" + `y${b + "z"}w`; // c\nconst d = /"/g.test(e) ? f / 2 : 1;',
    );
    expect(code).toBe('const a = " " + `  {b + " "} `;     \nconst d = / /g.test(e) ? f / 2 : 1;');
    expect(strings.map(({ value }) => value)).toEqual(["x", "y", "z", "w"]);
    expect(comments.map(({ value }) => value)).toEqual(["// c"]);
  });

  test("keeps the length of every file and closes every bracket it sees", () => {
    for (const { path: file, text, code } of sources) {
      expect(code.length, file).toBe(text.length);
      for (const [open, close] of ["()", "[]", "{}"]) {
        expect(code.split(open ?? "").length, `${file} ${open}`).toBe(code.split(close ?? "").length);
      }
    }
  });
});

describe("invariants and their tests", () => {
  const protocol =
    "| id | promise | tests |\n|---|---|---|\n| **I1** | never two writers | `test/a.test.ts` |\n| I2 | never early | `test/b.test.ts` |\n";
  const check = (text: string, files: Record<string, string>) =>
    checkRules([invariantRule(text)], parse(files)).map(printViolation);
  const both = { "test/a.test.ts": 'test("[I1] one writer", run);', "test/b.test.ts": 'test("[I2] waits", run);' };

  test("agree when each names the other", () => {
    expect(readInvariants(protocol).map(({ id }) => id)).toEqual(["I1", "I2"]);
    expect(check(protocol, both)).toEqual([]);
  });

  test("a promise without a test, with a missing one, and with one that does not cite it are told apart", () => {
    expect(check("- **I3** durable first\n", both)).toEqual(
      expect.arrayContaining(["DOC docs/protocol.md:1 I3 names no test"]),
    );
    expect(check("- **I1** one writer: test/gone.test.ts\n- **I2** waits: test/a.test.ts\n", both)).toEqual([
      "DOC docs/protocol.md:1 I1 names test/gone.test.ts, which does not exist",
      "DOC docs/protocol.md:2 I2 names test/a.test.ts, which does not cite [I2]",
    ]);
  });

  test("a test that cites what nobody promised is found", () => {
    expect(check(protocol, { ...both, "test/c.test.ts": 'test("[I77] what?", run);' })).toEqual([
      "DOC test/c.test.ts:1 cites [I77], which docs/protocol.md does not list",
    ]);
  });

  const written = listFiles(root, "docs", /^protocol\.md$/).includes("docs/protocol.md");
  test.skipIf(!written)("hold for docs/protocol.md and the tests of this repository", () => {
    const text = readText(root, "docs/protocol.md");
    expect(readInvariants(text).map(({ id }) => id)).toEqual(
      expect.arrayContaining(["I1", "I2", "I3", "I4", "I5", "I6", "I7"]),
    );
    // The planted citations of this very file are no citations.
    const others = sources.filter((file) => file.path !== "test/architecture.test.ts");
    expect(checkRules([invariantRule(text)], others).map(printViolation)).toEqual([]);
  });
});
