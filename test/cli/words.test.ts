/** What a person writes in place of the words of the table: aliases, beginnings, and mistakes. */
import { commandSources, groups } from "@holdfast/cli/commands/commands";
import { loadCommands } from "@holdfast/cli/frame/command-source";
import { longFlag } from "@holdfast/cli/frame/option-flags";
import { readWords } from "@holdfast/cli/frame/read-words";
import { expect, test } from "vitest";
import { cliRun } from "./cli-run.ts";

const table = { groups, sources: commandSources };
const commands = await loadCommands(commandSources);
const read = async (line: string): Promise<string> => (await readWords(table, line.split(" "))).args.join(" ");

test.each([
  ["volume ls", "volume list"],
  ["volume rm data", "volume delete data"],
  ["volume inspect data", "volume status data"],
  ["volume describe data", "volume explain data"],
  ["node describe node-a", "node status node-a"],
  ["grant inspect team", "grant show team"],
  ["volume get", "volume list"],
  ["volume get -A", "volume list -A"],
  ["volume get data", "volume status data"],
  ["secret get", "secret list"],
  ["vol lis", "volume list"],
  ["snap list-g", "snapshot list-groups"],
  ["doc --no-c", "doctor --no-cell"],
  ["--names x vol ls --addr=h:1", "--namespace x volume list --address=h:1"],
  ["-n volume volume list", "-n volume volume list"],
  ["claim create web-1 data --node vol --que 5m --no-w", "claim create web-1 data --node vol --queue 5m --no-wait"],
  ["claim create web-1 data --queue --no-w", "claim create web-1 data --queue --no-wait"],
  // A command that is a group too.
  ["import nomad v.json --app", "import nomad v.json --apply"],
  ["import backup.export", "import backup.export"],
  // What is no word of the table is left as it is.
  ["volume label ls --reason --stat", "volume label ls --reason --stat"],
  ["complete-line -- vol l --sta", "complete-line -- vol l --sta"],
])("%s", async (line, meant) => {
  expect(await read(line)).toBe(meant);
});

test.each([
  ["volume lst", 'there is no command "holdfast volume lst"', ["holdfast volume list"]],
  ["volums list", 'there is no command "holdfast volums"', ["holdfast volume"]],
  ["volume l", '"holdfast volume l" may mean several commands', ["holdfast volume list", "holdfast volume label"]],
  ["volume dele data", '"holdfast volume dele" has to be written in full', ["holdfast volume delete"]],
  ["claim rel web-1", '"holdfast claim rel" has to be written in full', ["holdfast claim release"]],
  ["repair forget-volume data u --con x", "the option --con may mean several", ["--confirm", "--config"]],
  ["volume list --n", "unknown option", []],
  ["repair vet --acce", "the option --acce has to be written in full", ["--accept"]],
  ["nothing", 'there is no command "holdfast nothing"', []],
])("a mistake: %s", async (line, says, near) => {
  const { code, err } = await cliRun(line.split(" "));
  expect([code, err.includes(says)], err).toEqual([2, true]);
  expect([...err.matchAll(/did you mean: (.*)/g)].map(([, name]) => name)).toEqual(near);
});

test("completion knows what an alias stands for", async () => {
  const offered = async (line: string) => (await cliRun(["complete-line", "--", ...line.split(" ")])).out;
  expect(await offered("volume rm data --u")).toBe("--uid\n");
  expect(await offered("volume ls -o x --bl")).toBe("--blocked\n");
  expect(await offered("volume get --bl")).toBe("--blocked\n");
});

/** Words that end, take or override something. Whoever adds a command that looks, or makes something new, adds it here. */
const looksOrMakes = new Set(
  "list status explain stats show create check capacity scan stuck verify follow token events doctor top completion".split(
    " ",
  ),
);

test("no beginning of a command that takes something away stands for it", async () => {
  for (const { path } of commands) {
    const [word = ""] = path.slice(-1);
    const kind = word === "group-status" ? "status" : (word.split("-")[0] ?? "");
    if (word !== "complete-line" && looksOrMakes.has(kind)) continue;
    const before = path.slice(0, -1);
    for (let length = 1; length < word.length; length += 1) {
      const line = [...before, word.slice(0, length)].join(" ");
      const meant = await read(line).catch(() => undefined);
      expect(meant === path.join(" "), line).toBe(false);
    }
  }
});

test("a run loads the command that was named, help those that it lists", async () => {
  const loaded = async (line: string) =>
    (await readWords(table, line.split(" "))).commands.map(({ path }) => path.join(" "));
  expect(await loaded("volume list")).toEqual(["volume list"]);
  expect(await loaded("--version")).toEqual([]);
  expect(new Set((await loaded("volume --help")).map((name) => name.split(" ")[0]))).toEqual(new Set(["volume"]));
  expect((await loaded("--help")).length).toBe(commands.length);
});

test("every long option is one word", () => {
  for (const { options = [] } of commands)
    for (const option of options) expect(longFlag(option)).toMatch(/^--[a-z-]+$/);
});
