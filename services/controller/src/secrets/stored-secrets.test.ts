import { createManualClock } from "@holdfast/shared/async/manual-clock";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { caller, createWorld, type World } from "../../../../test/support/controller/world.ts";
import type { SecretKeys } from "./key-file.ts";
import { createSealer } from "./sealer.ts";
import { createSecretRecords } from "./secret-records.ts";
import { createSecretUpkeep } from "./secret-upkeep.ts";
import { createStoredSecrets } from "./stored-secrets.ts";

const keysOf = (...ids: readonly string[]): SecretKeys => {
  const byId = new Map(ids.map((id) => [id, id === "k1" ? Buffer.alloc(32, 7) : Buffer.alloc(32, id)]));
  const [id = ""] = ids;
  return { first: { id, key: byId.get(id) ?? Buffer.alloc(32) }, byId };
};

const name = { namespace: "default", name: "s" };
let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(() => world.close());

const put = (token: string) => world.secrets.putSecret({ ...name, values: { token }, requestId: "" }, caller);
const ids = () => ({ uuid: () => crypto.randomUUID(), random: () => 0.5 });
const recordsOf = () =>
  createSecretRecords({
    store: world.store,
    clock: world.clock,
    ids: ids(),
    signal: new AbortController().signal,
  });
const sealerWith = (keys: () => SecretKeys) =>
  createSealer({ keyFile: { keys: async () => keys() }, clusterUid: async () => "world" });
const stored = () =>
  createStoredSecrets({ records: recordsOf(), sealer: sealerWith(() => keysOf("k1")), clock: world.clock });

describe("a stored secret", () => {
  test("[T1] is read once for a burst of calls, and anew after some seconds and after a change that was heard of", async () => {
    await put("one");
    const secrets = stored();
    const get = vi.spyOn(world.store, "get");
    for (let n = 0; n < 10; n += 1) expect((await secrets.read(name, undefined))?.values).toEqual({ token: "one" });
    expect(get).toHaveBeenCalledTimes(1);
    await put("two");
    get.mockClear();
    secrets.forget("default/s");
    expect(await secrets.read(name, undefined)).toMatchObject({ values: { token: "two" }, version: 2 });
    expect(await secrets.read(name, 1)).toMatchObject({ values: { token: "one" }, version: 1 });
    expect(get).toHaveBeenCalledTimes(2);
    await put("three");
    await world.clock.advance(6_000);
    expect((await secrets.read(name, undefined))?.values).toEqual({ token: "three" });
    expect(await secrets.read(name, 9)).toBeUndefined();
    expect(await secrets.read({ ...name, name: "none" }, undefined)).toBeUndefined();
  });

  test("[T2] is kept as bytes that are zero once it is forgotten, is read anew, or was kept for long enough", async () => {
    await put("cAnAry");
    const secrets = stored();
    const { from } = Buffer;
    const made: Buffer[] = [];
    const spy = vi.spyOn(Buffer, "from").mockImplementation(((...given: Parameters<typeof from>) => {
      const buffer = from.apply(Buffer, given);
      made.push(buffer);
      return buffer;
    }) as typeof from);
    const holding = () => made.filter((one) => one.includes("cAnAry")).length;
    try {
      for (const end of [() => secrets.forget("default/s"), secrets.forgetAll, () => world.clock.advance(6_000)]) {
        await secrets.read(name, undefined);
        expect(holding()).toBe(1);
        await end();
        expect(holding()).toBe(0);
      }
    } finally {
      spy.mockRestore();
    }
  });

  test("[T3] that was changed while it was read is not kept as it was", async () => {
    await put("one");
    const secrets = stored();
    const reading = secrets.read(name, undefined);
    await put("two");
    secrets.forget("default/s");
    await reading;
    expect((await secrets.read(name, undefined))?.values).toEqual({ token: "two" });
  });
});

describe("upkeep", () => {
  const upkeepWith = (keys: () => SecretKeys, clock = createManualClock()) => {
    const log = createMemoryLogger();
    return { log, upkeep: createSecretUpkeep({ records: recordsOf(), sealer: sealerWith(keys), clock, log }) };
  };

  test("puts every version under the first key of the file, twice as good as once, and the old key is needed no more", async () => {
    await put("one");
    await put("two");
    const { upkeep } = upkeepWith(() => keysOf("k2", "k1"));
    await upkeep.once();
    const after = await recordsOf().get(name);
    expect(after?.record.versions.map(({ sealed }) => sealed.key)).toEqual(["k2", "k2"]);
    await upkeep.once();
    expect((await recordsOf().get(name))?.rev).toBe(after?.rev);
    const opened = createStoredSecrets({
      records: recordsOf(),
      sealer: sealerWith(() => keysOf("k2")),
      clock: world.clock,
    });
    expect((await opened.read(name, 1))?.values).toEqual({ token: "one" });
  });

  test("tells of one that it cannot open, and looks after the others all the same", async () => {
    await put("one");
    await upkeepWith(() => keysOf("k2", "k1")).upkeep.once();
    await world.secrets.putSecret({ ...name, name: "t", values: { token: "x" }, requestId: "" }, caller);
    const { log, upkeep } = upkeepWith(() => keysOf("k3", "k1"));
    await upkeep.once();
    expect((await recordsOf().get({ ...name, name: "t" }))?.record.versions[0]?.sealed.key).toBe("k3");
    expect(JSON.stringify(log.lines)).toContain("needs key k2");
  });

  test("takes away what came with a request once nothing refers to it, and not before, nor anything else", async () => {
    await put("kept");
    await world.makeVolume("v", { inlineSecrets: { token: "own" } });
    const clock = createManualClock();
    const { upkeep } = upkeepWith(() => keysOf("k1"), clock);
    await clock.advance(3_600_000);
    await upkeep.once();
    const names = async () => (await recordsOf().list("", { limit: 10 })).records.map(({ record }) => record.name);
    expect(await names()).toEqual(["s", "volume.v"]);
    await world.commands.deleteVolume({ namespace: "default", id: "v", uid: "", requestId: "" }, caller);
    await world.idle();
    await upkeep.once();
    expect(await names()).toEqual(["s"]);
  });
});
