/**
 * Many clients over many volumes, each doing what it likes: also what it may not, and also to a volume that another one has in hand. A
 * call that overlaps another of the same volume may be ABORTED. All other answers must be those of some order of the calls, volume by
 * volume; and in the end the host must show what that order leads to.
 */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { sample } from "../support/full.ts";
import { asRoot } from "./as-root.ts";
import type { CsiClients } from "./csi-clients.ts";
import { createDriverProcess, type DriverProcess } from "./driver-process.ts";
import { loopsBelow, mountsBelow } from "./host-facts.ts";
import { linearize } from "./linearize.ts";
import { createSeededRandom, patternOf, seedOfRun } from "./seeded-random.ts";
import { ask, drawCall, type Heard, makeSlot, type Slot } from "./slot-clients.ts";
import { emptySlot, type SlotState, stepSlot } from "./slot-model.ts";
import { kindFacts } from "./volume-kinds.ts";

const seed = seedOfRun();
const clientCount = sample(32, 8);
const slotCount = sample(200, 20);
const durationMs = sample(60_000, 8000);

let driver: DriverProcess;
let clients: readonly CsiClients[];

beforeEach(async () => {
  driver = await createDriverProcess();
  await driver.start();
  clients = Array.from({ length: clientCount }, () => driver.connect());
});

afterEach(async () => {
  await driver.remove();
});

const marker = patternOf(seed, 65_536);

const markerPlace = ({ kind, target }: Slot): string =>
  kindFacts[kind].access === "block" ? target.a : path.join(target.a, "marker");

const mustBeOk = async (csi: CsiClients, slot: Slot, ...calls: readonly Parameters<typeof ask>[2][]): Promise<void> => {
  for (const call of calls) {
    const { answer, details } = await ask(csi, slot, call, -1);
    if (answer.code !== "OK") throw new Error(`${slot.name}: ${call.call}: ${answer.code}: ${details}`);
  }
};

const prepare = async (csi: CsiClients, slot: Slot): Promise<void> => {
  await mustBeOk(csi, slot, { call: "create", bytes: slot.sizes[0] });
  const { id } = slot.known;
  await mustBeOk(
    csi,
    slot,
    { call: "stage", id, path: "a" },
    { call: "publish", id, path: "a", target: "a", how: "rw" },
  );
  const flag = kindFacts[slot.kind].access === "block" ? "r+" : "w";
  await writeFile(markerPlace(slot), marker, { flag, flush: true });
};

/** Some volumes are in more hands than others, so that calls meet. */
const drawSlot = (slots: readonly Slot[], random: ReturnType<typeof createSeededRandom>): Slot => {
  const slot = slots[Math.floor(random.fraction() ** 2 * slots.length)];
  if (slot === undefined) throw new Error("there is no such slot");
  return slot;
};

/** A volume that is never deleted is on every list. */
const lostFromList = async (csi: CsiClients, slots: readonly Slot[]): Promise<readonly string[]> => {
  const listed = new Set<string>();
  let startingToken = "";
  do {
    const page = await csi.controller.listVolumes({ maxEntries: 17, startingToken });
    for (const { volume } of page.entries) listed.add(volume?.volumeId ?? "");
    startingToken = page.nextToken;
  } while (startingToken !== "");
  return slots.filter(({ lasting, known }) => lasting && !listed.has(known.id)).map(({ name }) => name);
};

const runClient = async (csi: CsiClients, client: number, slots: readonly Slot[], end: number): Promise<number> => {
  const random = createSeededRandom(seed + client);
  let calls = 0;
  while (performance.now() < end) {
    if (random.chance(0.01)) expect(await lostFromList(csi, slots)).toEqual([]);
    const slot = drawSlot(slots, random);
    await ask(csi, slot, drawCall(slot, random), client);
    calls += 1;
  }
  return calls;
};

const overlaps = (one: Heard, other: Heard): boolean =>
  one !== other && one.start <= other.end && other.start <= one.end;

const tell = ({ call, answer, details, client, start, end }: Heard): string => {
  const asked = Object.entries(call).map(([key, value]) => `${key}=${value}`);
  return `${start.toFixed(1)}–${end.toFixed(1)} client ${client}: ${asked.join(" ")} → ${answer.code} ${answer.said} ${details}`;
};

/** The states that the history may have ended in. Throws with what cannot be. */
const explain = (slot: Slot): readonly SlotState[] => {
  const { history } = slot;
  const aborted = history.filter(({ answer }) => answer.code === "ABORTED");
  const alone = aborted.filter((heard) => !history.some((other) => overlaps(heard, other)));
  const heard = history.filter(({ answer }) => answer.code !== "ABORTED");
  const { finals, longest } = linearize(
    heard,
    emptySlot,
    (state, { call, answer }) => stepSlot(slot, state, call, answer),
    (state) => JSON.stringify(state, (_, value) => (typeof value === "bigint" ? String(value) : value)),
  );
  if (finals.length > 0 && alone.length === 0) return finals;
  const rest = heard.filter((each) => !longest.includes(each)).toSorted((a, b) => a.start - b.start);
  throw new Error(
    [
      `seed ${seed}: ${slot.kind} volume ${slot.name}${slot.singleWriter ? " (single writer)" : ""}`,
      ...alone.map((each) => `  ABORTED, and nothing else was under way: ${tell(each)}`),
      ...(finals.length > 0
        ? []
        : [
            "  no order of these calls explains every answer; in order as far as there is one:",
            ...longest.slice(-10).map((each) => `    ${tell(each)}`),
            "  and then:",
            ...rest.slice(0, 10).map((each) => `  → ${tell(each)}`),
          ]),
    ].join("\n"),
  );
};

/** The one of the possible states that the kernel shows. */
const actualState = async (slot: Slot, finals: readonly SlotState[]): Promise<SlotState> => {
  const mounts = new Set((await mountsBelow(path.join(driver.home, "co"))).map(({ point }) => point));
  const shows = ({ staged, targets }: SlotState): boolean =>
    (["a", "b"] as const).every(
      (place) =>
        mounts.has(slot.staging[place]) === (staged === place && kindFacts[slot.kind].access === "mount") &&
        mounts.has(slot.target[place]) === (targets[place] !== ""),
    );
  const found = finals.find(shows);
  if (found === undefined)
    throw new Error(`seed ${seed}: ${slot.name} is mounted otherwise than ${finals.map((state) => state.staged)} says`);
  return found;
};

const finish = async (csi: CsiClients, slot: Slot, state: SlotState): Promise<boolean> => {
  const { id, staged, targets, snapshot } = state;
  const first = slot.history[0]?.answer.said;
  if (id !== "") {
    for (const target of ["a", "b"] as const)
      if (targets[target] !== "") await mustBeOk(csi, slot, { call: "unpublish", id, target });
    if (staged !== "") await mustBeOk(csi, slot, { call: "unstage", id, path: staged });
  }
  let intact = true;
  if (id !== "" && id === first) {
    await mustBeOk(
      csi,
      slot,
      { call: "stage", id, path: "a" },
      { call: "publish", id, path: "a", target: "a", how: "ro" },
    );
    const bytes = await readFile(markerPlace(slot));
    intact = marker.equals(bytes.subarray(0, marker.length));
    await mustBeOk(csi, slot, { call: "unpublish", id, target: "a" }, { call: "unstage", id, path: "a" });
  } else if (slot.lasting) intact = false;
  if (id !== "") await mustBeOk(csi, slot, { call: "delete", id });
  if (snapshot !== "") await mustBeOk(csi, slot, { call: "deleteSnapshot", id: snapshot });
  return intact;
};

asRoot(
  `${clientCount} clients over ${slotCount} volumes for ${durationMs / 1000} s`,
  async () => {
    console.info(`seed ${seed}`);
    const slots: Slot[] = [];
    for (let at = 0; at < slotCount; at += 1) slots.push(await makeSlot(driver, at));
    const queue = [...slots];
    const preparing = clients.slice(0, 4).map(async (csi) => {
      for (let slot = queue.shift(); slot !== undefined; slot = queue.shift()) await prepare(csi, slot);
    });
    await Promise.all(preparing);

    const end = performance.now() + durationMs;
    const counts = await Promise.all(clients.map((csi, client) => runClient(csi, client, slots, end)));

    const explained = slots.map((slot) => ({ slot, finals: explain(slot) }));
    const csi = driver.csi();
    const damaged: string[] = [];
    for (const { slot, finals } of explained)
      if (!(await finish(csi, slot, await actualState(slot, finals)))) damaged.push(slot.name);
    expect(damaged).toEqual([]);
    expect((await csi.controller.listVolumes({})).entries).toEqual([]);
    expect((await csi.controller.listSnapshots({})).entries).toEqual([]);
    expect(await driver.leftovers()).toEqual([]);
    expect(await loopsBelow(driver.home)).toEqual([]);

    const answers = slots.flatMap(({ history }) => history.map(({ answer }) => answer.code));
    const tally = Object.entries(Object.groupBy(answers, (code) => code)).map(
      ([code, all]) => `${code} ${all?.length}`,
    );
    console.info(`${counts.reduce((sum, count) => sum + count, 0)} calls: ${tally.join(", ")}`);
    // They did meet, and the driver did refuse: otherwise nothing was tried.
    for (const code of ["OK", "ABORTED", "FAILED_PRECONDITION", "ALREADY_EXISTS"]) expect(answers).toContain(code);
  },
  sample(600_000, 90_000),
);
