/** A bound of `npm run model`: every state of three small worlds, and three faults that have to be found. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { everyRow } from "../support/every-row.ts";
import type { BoundsName } from "./bounds.ts";
import { scheduleText } from "./model-report.ts";
import { modelMutants } from "./mutants.ts";
import { placesOf } from "./planted-fault.ts";
import { search } from "./search/search.ts";
import { worldOf } from "./worlds.ts";

const root = path.resolve(import.meta.dirname, "../..");

describe("one volume, two controllers, two gates, two nodes", () => {
  it.each<[BoundsName, readonly string[]]>([
    ["relays in short", ["lose a call", "no way to the gate", "store finish", "wait no longer"]],
    ["sockets in short", ["answer INTERNAL", "answer INVALID_ARGUMENT without effect", "store abandon"]],
    ["a claim behind a bar", ["plan lift", "gate is open", "gate is idle"]],
  ])(
    "[I1] [I2] [I4] [I5] [I6] %s: no state breaks an invariant, and a clean one can be reached from each",
    async (name, actions) => {
      const found = await search(await worldOf(name));
      expect(scheduleText(found)).toBe("");
      expect(found.exhausted).toBe(true);
      expect([...found.actions.keys()]).toEqual(
        expect.arrayContaining([...actions, "store grant", "release released"]),
      );
    },
    120_000,
  );
});

describe("one volume in a store that loses commits", () => {
  it("[I1] [I2] [I6] [I8] nobody writes beside another one or loses a mount, and a clean state can be reached from each", async () => {
    const found = await search(await worldOf("histories in short"));
    expect(scheduleText(found)).toBe("");
    expect(found.exhausted).toBe(true);
    const actions = [
      "the copy takes the place of the store",
      "a vetting begins",
      "promise a generation",
      "give up a hold",
    ];
    expect([...found.actions.keys()]).toEqual(expect.arrayContaining(actions));
  }, 120_000);
});

describe("the mutants", () => {
  it("each have their place once in the product", async () => {
    await everyRow(
      modelMutants.flatMap((mutant) => placesOf(mutant).map((place) => ({ name: mutant.name, ...place }))),
      ({ name, find }) => `${name}: ${find}`,
      ({ file, find }) => expect(readFileSync(path.join(root, file), "utf8").split(find)).toHaveLength(2),
    );
  });

  const untold = "[I4] .* is open at a plugin, and neither an intent nor a bar says so";
  it.each([
    ["a call leaves by what the controller remembers, not by what the store has", untold],
    ["a call without an answer counts as ended", untold],
    ["a copy of a host is taken for the host", "[I1] mounted for a writer on n1-i1 for k1 and on n1-x-i1 for k1"],
    ["a grant does not look at detaches that no claim waits for", "[I1] granted on n. while an attach for n. is open"],
  ])("%s: is told by a schedule", async (name, what) => {
    const main = path.join(root, "test/model/main.ts");
    const child = spawn(process.execPath, [main, "--mutant", name], { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    const [code] = await once(child, "close");
    expect(output).toMatch(new RegExp(`${what.replace("[", "\\[")}.*\n +1. ask for a claim`));
    expect(code).toBe(0);
  });
});
