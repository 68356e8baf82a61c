import { beforeEach, describe, expect, test } from "vitest";
import { type DockerRig, dockerNamespace, foundVolume, startDockerRig } from "../testing/docker-rig.ts";
import { anyCaller } from "../testing/model-agent.ts";
import { away } from "../testing/workload-rig.ts";

let rig: DockerRig;
beforeEach(async () => {
  rig = await startDockerRig();
});

const book = () =>
  Object.fromEntries(
    rig
      .ids()
      .volumes()
      .map(([volume, ids]) => [volume, ids.map(({ id }) => id)]),
  );
const unmount = (name: string, id: string) => rig.driver().unmount(name, id, anyCaller);
const mounted = () => rig.base.agent.host.mountedPaths().filter((path) => path.includes("/publish/"));
const wrong = async (call: Promise<unknown>): Promise<string> => {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return error instanceof Error ? error.message : `no error but ${String(error)}`;
};
const records = () => JSON.stringify(rig.base.ledger().agent().docker);

describe("a mount", () => {
  test("[VD1] [MI2] of every further container shares the claim of the first, which goes with the last", async () => {
    const at = await rig.mount("data", "a");
    expect(await rig.mount("data", "b")).toBe(at);
    expect(await rig.mount("data", "b")).toBe(at);
    expect(rig.base.claims.asked).toEqual(["request docker@n1:data data"]);
    expect(book()).toEqual({ data: ["a", "b"] });
    await unmount("data", "a");
    await unmount("data", "a");
    await unmount("data", "never");
    expect(mounted()).toEqual([at]);
    await unmount("data", "b");
    expect(mounted()).toEqual([]);
    expect(book()).toEqual({});
    await unmount("data", "b");
    expect(rig.base.claims.asked).toEqual(["request docker@n1:data data", "release docker@n1:data"]);
  });

  test("[DB1] is in the journal before its claim is asked for, and the next life of the agent knows it", async () => {
    const answer = rig.base.claims.hold();
    const mounting = rig.driver().mount("data", "a", anyCaller);
    mounting.catch(() => undefined);
    await rig.base.settle();
    expect(records()).toContain('"answered":false');
    answer();
    await rig.grant();
    await mounting;
    expect(records()).toContain('"answered":true');
    await rig.restart();
    expect(book()).toEqual({ data: ["a"] });
    expect(await rig.driver().path("data")).toBe(mounted()[0]);
    await unmount("data", "a");
    expect(mounted()).toEqual([]);
  });

  test("[VD2] [MI3] that its caller gives up is taken back, and not when it was repeated meanwhile", async () => {
    const caller = new AbortController();
    const given = rig.driver().mount("data", "a", caller.signal);
    given.catch(() => undefined);
    await rig.base.settle();
    const again = rig.mount("data", "a");
    caller.abort(new Error("cut"));
    await wrong(given);
    expect(await again).toBe(mounted()[0]);
    expect(book()).toEqual({ data: ["a"] });

    const alone = new AbortController();
    const lost = rig.driver().mount("other", "b", alone.signal);
    lost.catch(() => undefined);
    await rig.base.settle();
    alone.abort(new Error("cut"));
    await wrong(lost);
    await rig.base.settle();
    expect(book()).toEqual({ data: ["a"] });
    expect(rig.base.claims.asked).toContain("release docker@n1:other");
  });

  test("whose answer was not heard is taken back", async () => {
    const mounting = rig.driver().mount("data", "a", anyCaller);
    await rig.grant();
    await (await mounting).unheard();
    await rig.base.settle();
    expect(book()).toEqual({});
    expect(mounted()).toEqual([]);
  });

  test("of a volume for one writer on one node is refused for a second container, and leaves the first alone", async () => {
    const first = rig.driver().mount("data", "a", anyCaller);
    await rig.base.settle();
    await rig.grant("SINGLE_NODE_SINGLE_WRITER");
    await first;
    expect(await wrong(rig.mount("data", "b"))).toMatch(/SINGLE_NODE_SINGLE_WRITER/);
    expect(book()).toEqual({ data: ["a"] });
    expect(mounted()).toHaveLength(1);
  });

  test("that waits too long names who holds the volume, and how a dead node is fenced", async () => {
    const holders = [
      { workload: "db", node: "n2", nodeLost: "" },
      { workload: "web", node: "n3", nodeLost: "nothing is heard of its agent" },
      { workload: "docker@n1:data", node: "n1", nodeLost: "" },
    ];
    rig.volumes.there.set("data", foundVolume("data", { holders }));
    const waiting = wrong(rig.driver().mount("data", "a", anyCaller));
    await rig.base.settle();
    await rig.base.clock.advance(60_001);
    const words = await waiting;
    expect(words).toMatch(/held by workload db on node n2; release that first; and by workload web on node n3/);
    expect(words).toMatch(/if that host is off for certain: holdfast node fence n3$/);
    expect(words).not.toMatch(/docker@/);
    await rig.base.settle();
    expect(book()).toEqual({});
  });

  test("[VD3] ends in its time although the unmount before it hangs", async () => {
    await rig.mount("data", "a");
    rig.base.agent.host.setPluginAway(true);
    const ended = wrong(unmount("data", "a"));
    const waiting = wrong(rig.driver().mount("data", "b", anyCaller));
    for (let n = 0; n < 21; n += 1) await rig.base.clock.advance(1_000);
    expect(await ended).toMatch(/VOLUME_IN_USE|not unmounted yet/);
    for (let n = 0; n < 40; n += 1) await rig.base.clock.advance(1_000);
    expect(await waiting).toMatch(/its former life is being unmounted/);
    await rig.base.settle();
    expect(book()).toEqual({});
  });

  test("waits for a controller for a while, and is refused then", async () => {
    rig.base.claims.fail(away);
    const waiting = wrong(rig.driver().mount("data", "a", anyCaller));
    for (let n = 0; n < 50; n += 1) await rig.base.clock.advance(250);
    expect(await waiting).toMatch(/away/);
    expect(book()).toEqual({});
  });
});

describe("without a controller", () => {
  test("[KV1] a name is looked for in memory alone, and what is mounted is known by the journal", async () => {
    await rig.mount("data", "a");
    await rig.restart();
    rig.volumes.away = true;
    expect((await rig.driver().get("data", anyCaller)).mountpoint).toBe(mounted()[0]);
    expect(await wrong(rig.driver().get("never", anyCaller))).toMatch(/there is no volume docker\/never/);
    expect((await rig.driver().list(anyCaller)).map(({ volume }) => volume.id)).toEqual(["data"]);
  });

  test("[KV1] a controller that does not answer holds no question up, and its late word counts for the next", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const find = rig.volumes.find;
    rig.volumes.there.set("data", foundVolume("data"));
    Object.assign(rig.volumes, {
      find: async (...asked: Parameters<typeof find>) => {
        await promise;
        return await find(...asked);
      },
    });
    const asked = wrong(rig.driver().get("data", anyCaller));
    await rig.base.settle();
    await rig.base.clock.advance(41);
    expect(await asked).toMatch(/there is no volume/);
    resolve();
    await rig.base.settle();
    expect((await rig.driver().get("data", anyCaller)).volume.id).toBe("data");
  });
});

test("the memory is filled as soon as a controller answers, and what a list no longer has is forgotten", async () => {
  rig.volumes.away = true;
  rig.volumes.there.set("data", foundVolume("data"));
  const warm = rig.known().warm();
  await rig.base.settle();
  rig.volumes.away = false;
  await rig.base.clock.advance(2_000);
  await warm;
  rig.volumes.away = true;
  expect((await rig.driver().get("data", anyCaller)).volume.id).toBe("data");
  rig.volumes.away = false;
  rig.volumes.there.delete("data");
  expect(await rig.driver().list(anyCaller)).toEqual([]);
  expect(await wrong(rig.driver().get("data", anyCaller))).toMatch(/there is no volume/);
});

describe("remove", () => {
  test("is refused while a container has the volume, and a controller is not asked", async () => {
    await rig.driver().create("data", { plugin: "model" }, anyCaller);
    await rig.mount("data", "a");
    expect(await wrong(rig.driver().remove("data", anyCaller))).toMatch(/mounted on this host for 1/);
    expect(rig.volumes.there.has("data")).toBe(true);
    await unmount("data", "a");
    await rig.driver().remove("data", anyCaller);
    expect(await wrong(rig.driver().get("data", anyCaller))).toMatch(/there is no volume/);
    expect(rig.volumes.there.size).toBe(0);
  });
});

describe("dockerd that started anew", () => {
  const look = async (times = 2): Promise<void> => {
    for (let n = 0; n < times; n += 1) await rig.abandoned().tick();
    await rig.base.settle();
  };
  test("[AI1] leaves ids behind that go after two looks, and what it asked for itself stays", async () => {
    await rig.mount("data", "a");
    await rig.mount("other", "b");
    rig.daemon = "d2";
    await rig.mount("other", "c");
    await look(1);
    expect(book()).toEqual({ data: ["a"], other: ["b", "c"] });
    await look(1);
    expect(book()).toEqual({ other: ["c"] });
    expect(mounted()).toHaveLength(1);
    expect(rig.base.claims.asked.filter((line) => line.startsWith("release"))).toEqual(["release docker@n1:data"]);
  });

  test("[AI2] a mount that another namespace or a process uses stays, until it does no more", async () => {
    const at = await rig.mount("data", "a");
    const { host } = rig.base.agent;
    const line = (await host.mounts.look(false)).at(at)[0];
    if (line === undefined) throw new Error("not mounted");
    host.addForeign({ ...line, path: "/data" }, 42);
    rig.daemon = "d2";
    await look(4);
    expect(book()).toEqual({ data: ["a"] });
    host.clearForeign();
    host.setHolder({ path: `${at}/file`, pid: 43, command: "cat" });
    await look(4);
    expect(book()).toEqual({ data: ["a"] });
    host.setHolder();
    await look();
    expect(book()).toEqual({});
  });

  test("[AI2] where mounts of others cannot be seen every id stays, and is told once", async () => {
    await rig.mount("data", "a");
    rig.daemon = "d2";
    const { log, abandoned } = rig.lookingFrom("own-namespace");
    for (let n = 0; n < 3; n += 1) await abandoned.tick();
    expect(book()).toEqual({ data: ["a"] });
    expect(log.lines.map(({ fields }) => fields["ids"])).toEqual([["a"]]);
  });

  test("a mount that was never answered goes when its dockerd can have no call open any more", async () => {
    const answer = rig.base.claims.hold();
    rig
      .driver()
      .mount("data", "a", anyCaller)
      .catch(() => undefined);
    await rig.base.settle();
    await rig.restart();
    answer();
    await look();
    expect(book()).toEqual({ data: ["a"] });
    await rig.base.clock.advance(150_000);
    await look();
    expect(book()).toEqual({});
    expect(rig.base.claims.asked.at(-1)).toBe("release docker@n1:data");
  });

  test("[DB2] a volume without ids is given back by the next life", async () => {
    await rig.mount("data", "a");
    await rig.base.ledger().commitAgent({ type: "docker", record: { volume: "data", type: "dropped", ids: ["a"] } });
    await rig.restart();
    await look(1);
    expect(book()).toEqual({});
    expect(mounted()).toEqual([]);
    expect(rig.base.ledger().agent().workloads[`${dockerNamespace}/docker@n1:data`]).toBeUndefined();
  });
});
