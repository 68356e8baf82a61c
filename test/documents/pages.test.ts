/** Every page of the repository: its links lead somewhere, its command lines are commands, its npm scripts are there. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { commandSources } from "@holdfast/cli/commands/commands";
import { loadCommands } from "@holdfast/cli/frame/command-source";
import { describe, expect, test } from "vitest";
import { meantCommand } from "../support/meant-command.ts";
import { blocksOf, missingLine, outputOf, sessionOf, stepsOf } from "./guide-walk.ts";

const commands = await loadCommands(commandSources);

const repo = path.resolve(import.meta.dirname, "../..");
const pages = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(path.join(repo, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => path.join("docs", name)),
].sort();
const read = (page: string): string => readFileSync(path.join(repo, page), "utf8");

const prose = (markdown: string): string => {
  let text = markdown;
  for (const { text: block } of blocksOf(markdown)) if (block !== "") text = text.replace(block, () => "");
  return text;
};

/** As GitHub makes them. */
const anchorsOf = (markdown: string): ReadonlySet<string> => {
  const seen = new Map<string, number>();
  return new Set(
    [...prose(markdown).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = ""]) => {
      const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
      const slug = plain
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, "")
        .trim()
        .replace(/\s/g, "-");
      const times = seen.get(slug) ?? 0;
      seen.set(slug, times + 1);
      return times === 0 ? slug : `${slug}-${times}`;
    }),
  );
};

/** As a shell would part it, up to a comment, a pipe or a redirection. */
const wordsOf = (line: string): readonly string[] => {
  const words = [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? "");
  const end = words.findIndex((word) => /^(#|\||[12]?>|;|&)/.test(word) || word.endsWith(";") || word.endsWith(")"));
  if (end === -1) return words;
  const cut = words[end] ?? "";
  return [...words.slice(0, end), ...(/^[^#|>;&]+[;)]$/.test(cut) && !/^[12]>/.test(cut) ? [cut.slice(0, -1)] : [])];
};

const names = new Set(commands.map((command) => command.path.join(" ")));
const groupNames = new Set(commands.flatMap((command) => (command.path.length > 1 ? [command.path[0] ?? ""] : [])));

/** The lines of shell blocks that begin with the command, alone or behind a variable, a condition or a substitution. */
const shellLines = (markdown: string): readonly string[] =>
  blocksOf(markdown)
    .filter(({ language }) => language === "sh")
    .flatMap(({ text }) => text.split("\n"))
    .flatMap((line) => {
      const at = /(?:^|until |<\(|\$\(|[A-Z_]+=\S+ )holdfast (?!--address)/.exec(line);
      return at === null ? [] : [line.slice(line.indexOf("holdfast ", at.index) + "holdfast ".length)];
    })
    .filter((line) => !line.startsWith("()"));

/** What stands in the text: a command is named, its arguments may be missing. */
const named = (markdown: string): readonly string[] =>
  [...prose(markdown).matchAll(/`holdfast ([a-z][^`]*)`/g)].map(([, line = ""]) => line);

describe.each(pages)("%s", (page) => {
  const markdown = read(page);

  test("its links lead to files and headings that are there", () => {
    const broken: string[] = [];
    for (const [, target = ""] of prose(markdown).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [file = "", anchor] = target.split("#");
      const to = file === "" ? page : path.join(path.dirname(page), file);
      if (!existsSync(path.join(repo, to))) broken.push(target);
      else if (anchor !== undefined && !anchorsOf(read(to)).has(anchor)) broken.push(target);
    }
    expect(broken).toEqual([]);
  });

  test("its command lines are commands", async () => {
    for (const line of shellLines(markdown)) {
      const words = wordsOf(line);
      expect(await meantCommand(words).catch((error: unknown) => String(error)), `holdfast ${line}`).toHaveProperty(
        "path",
      );
    }
    for (const line of named(markdown)) {
      const [first = "", second = ""] = wordsOf(line);
      const group = groupNames.has(first) && (second === "" || /^[…<-]/.test(second));
      const known = names.has(first) || names.has(`${first} ${second}`) || group || first === "help";
      expect(known, `holdfast ${line}`).toBe(true);
    }
  });

  test("its npm scripts are in package.json", () => {
    const { scripts } = JSON.parse(read("package.json")) as { readonly scripts: Readonly<Record<string, string>> };
    for (const [, script = ""] of markdown.matchAll(/npm run (?:--silent )?([a-z][a-z:-]*)/g))
      expect(Object.keys(scripts)).toContain(script);
  });
});

test("every page is reached from README.md, over links", () => {
  const reached = new Set<string>();
  const follow = (page: string): void => {
    if (reached.has(page) || !page.endsWith(".md")) return;
    reached.add(page);
    for (const [, target = ""] of prose(read(page)).matchAll(/\]\(([^)\s#]+)[^)\s]*\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const to = path.join(path.dirname(page), target);
      // A link to a folder is one to what is in it.
      for (const each of pages.includes(to) ? [to] : pages.filter((other) => other.startsWith(`${path.join(to, "/")}`)))
        follow(each);
    }
  };
  follow("README.md");
  expect(pages.filter((page) => !reached.has(page))).toEqual([]);
});

describe("the walk itself", () => {
  const text = "```sh walk\necho a\n```\n\n```text\na  b\n```\n\n```sh walk exit=3\nfalse\n```\n";

  test("a block and its output belong together, a failing one is told", () => {
    const steps = stepsOf("x.md", text);
    expect(steps.map(({ shown, exit }) => [shown, exit])).toEqual([
      [["a  b"], 0],
      [[], 3],
    ]);
    expect(sessionOf(steps)).toContain('[ "$CODE" = 3 ]');
    const output = "@@step 0 begins\na\n@@step 0 ends\n@@step 1 begins\n";
    expect([outputOf(output, 0), outputOf(output, 1)]).toEqual(["a\n", undefined]);
  });

  test("what is shown has to be printed, in this order, whatever the width of columns", () => {
    expect(missingLine(["a <…> c", "d"], "x\na   b c\ny\nd\n")).toBeUndefined();
    expect(missingLine(["d", "a"], "a\nd\n")).toBe("a");
    expect(missingLine(["a"], "ab\n")).toBe("a");
  });

  test("a heading's anchor is GitHub's", () => {
    expect([...anchorsOf("# A claim is stuck: what to look at\n## `x` and [y](z)\n## `x` and [y](z)\n")]).toEqual([
      "a-claim-is-stuck-what-to-look-at",
      "x-and-y",
      "x-and-y-1",
    ]);
  });
});
