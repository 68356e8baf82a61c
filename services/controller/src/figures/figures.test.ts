import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ServedApi, serveApi } from "../../../../test/support/controller/served-api.ts";
import { capability, createWorld, type World } from "../../../../test/support/controller/world.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});

afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const shared = { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] };
const mounted = async (workload: string, node: string, volume = "data") => {
  await world.claim(workload, node, [volume]);
  await world.idle();
};
const bytes = (used: bigint) => ({ unit: "bytes" as const, total: 100n, used, available: 100n - used });
const stats = (node = "") => world.stats.volumeStats({ namespace: "default", id: "data", node });
const questions = () => world.agents.calls.filter((c) => c.startsWith("stats "));

describe("[W54] how full a volume is", () => {
  it("is told for each node that has it, with the claims that share the figures", async () => {
    await world.makeVolume("data", shared);
    await mounted("one", "n1");
    await mounted("two", "n1");
    await mounted("three", "n2");
    world.agents.measure((node) => ({ usage: [bytes(node === "n1" ? 10n : 20n)], measuredAt: 5 }));
    const { nodes } = await stats();
    expect(nodes.map(({ node, claimUids, sample }) => [node, claimUids.length, sample.usage[0]?.used])).toEqual([
      ["n1", 2, 10n],
      ["n2", 1, 20n],
    ]);
    expect((await stats("n2")).nodes.map(({ node }) => node)).toEqual(["n2"]);
  });

  it("is asked for once in ten seconds, and once more after a publication", async () => {
    await world.makeVolume("data", shared);
    await mounted("one", "n1");
    await Promise.all([stats(), stats(), stats()]);
    await stats();
    expect(questions()).toHaveLength(1);
    await world.clock.advance(1_000);
    await mounted("two", "n1");
    await stats();
    await stats();
    expect(questions()).toHaveLength(2);
    await world.clock.advance(10_000);
    await stats();
    expect(questions()).toHaveLength(3);
  });

  it("is an error of the node that does not answer, beside what it told before; the others answer", async () => {
    await world.makeVolume("data", shared);
    await mounted("one", "n1");
    await mounted("two", "n2");
    world.agents.measure(() => ({ usage: [bytes(7n)] }));
    await stats();
    world.agents.silence("n1", true);
    await world.clock.advance(20_000);
    const { nodes } = await stats();
    expect(nodes[0]?.sample).toMatchObject({ usage: [{ used: 7n }], error: { reason: "NODE_NOT_READY" } });
    expect(nodes[0]?.sample.error?.message).toContain("n1");
    expect(nodes[1]?.sample.error).toBeUndefined();
    world.nodes.set("n1", {}, "suspect");
    await world.clock.advance(20_000);
    const before = questions().length;
    expect((await stats("n1")).nodes[0]?.sample.error?.message).toContain("silent");
    expect(questions()).toHaveLength(before);
  });

  it("is not waited for when an agent hangs: what it told before, with an error", async () => {
    await world.makeVolume("data", shared);
    await mounted("one", "n1");
    world.agents.measure(() => ({ usage: [bytes(7n)] }));
    await stats();
    await world.clock.advance(20_000);
    let answer = () => {};
    world.agents.hangStats(new Promise((resolve) => (answer = resolve)));
    const asked = stats();
    await world.clock.advance(5_000);
    expect((await asked).nodes[0]?.sample).toMatchObject({
      usage: [{ used: 7n }],
      error: { reason: "NODE_NOT_READY" },
    });
    answer();
    world.agents.hangStats(undefined);
    await world.clock.advance(0);
    expect((await stats()).nodes[0]?.sample.error).toBeUndefined();
  });

  it("says so where nothing is published", async () => {
    await world.makeVolume("data");
    expect((await stats()).nodes).toEqual([]);
    expect((await stats("n1")).nodes[0]?.sample.error).toMatchObject({ reason: "VOLUME_NOT_HERE" });
    await expect(world.stats.volumeStats({ namespace: "default", id: "none", node: "" })).rejects.toMatchObject({
      reason: "VOLUME_NOT_FOUND",
    });
  });

  it("of a node: all that is published there, in pages, one question a page", async () => {
    for (const id of ["a", "b", "c"]) {
      await world.makeVolume(id);
      await mounted(`w-${id}`, "n1", id);
    }
    const first = await world.stats.nodeStats({ name: "n1", namespace: "" }, { size: 2, after: undefined });
    expect(first.items.map(({ volume }) => volume)).toEqual(["a", "b"]);
    const rest = await world.stats.nodeStats({ name: "n1", namespace: "" }, { size: 2, after: first.next });
    expect(rest.items.map(({ volume }) => volume)).toEqual(["c"]);
    expect(questions()).toEqual(["stats n1 2", "stats n1 1"]);
    await expect(
      world.stats.nodeStats({ name: "nobody", namespace: "" }, { size: 2, after: undefined }),
    ).rejects.toMatchObject({
      reason: "NODE_NOT_FOUND",
    });
  });
});

describe("[W54] [C68] [O51] how a volume is", () => {
  const bad = { abnormal: true, message: "disk is failing" };
  const condition = async () => (await world.volume("data")).condition;

  it("shows the worst of nodes and backend, after the second look, with an event; and is over after the third good one", async () => {
    world.backend.setFacts({ getsVolumes: "yes", tellsCondition: "yes" });
    world.backend.setLook(() => ({ capacity: 0, condition: { abnormal: false, message: "" } }));
    await world.makeVolume("data", shared);
    await mounted("one", "n1");
    await mounted("two", "n2");
    let ill = true;
    world.agents.measure((node) => ({ condition: ill && node === "n2" ? bad : { abnormal: false, message: "" } }));
    await world.conditions.round();
    expect(await condition()).toBeUndefined();
    const head = await world.store.head();
    await world.conditions.round();
    expect(await condition()).toMatchObject({ abnormal: true, message: "node n2: disk is failing" });
    expect(world.conditions.abnormal().get("csi.example")).toBe(1);
    const watch = world.store.watch(head, AbortSignal.timeout(20_000))[Symbol.asyncIterator]();
    const event = await watch.next();
    await watch.return?.();
    expect(JSON.parse(event.value.body)).toMatchObject({ volume: "data", abnormal: true });
    const commits = world.store.commits();
    await world.conditions.round();
    expect(world.store.commits()).toBe(commits);
    ill = false;
    await world.conditions.round();
    await world.conditions.round();
    expect(await condition()).toBeDefined();
    await world.conditions.round();
    expect(await condition()).toBeUndefined();
    expect(world.conditions.abnormal().size).toBe(0);
  });

  it("believes the backend, too", async () => {
    world.backend.setFacts({ getsVolumes: "yes", tellsCondition: "yes" });
    world.backend.setLook(() => ({ capacity: 0, condition: bad }));
    await world.makeVolume("data");
    await world.conditions.round();
    await world.conditions.round();
    expect(await condition()).toMatchObject({ message: "backend: disk is failing" });
  });

  it("stays as it was when nobody can look; a node that has let go is no source any more", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.agents.measure(() => ({ condition: bad }));
    for (let n = 0; n < 2; n += 1) await world.conditions.round();
    world.agents.silence("n1", true);
    for (let n = 0; n < 5; n += 1) await world.conditions.round();
    expect(await condition()).toBeDefined();
    world.agents.silence("n1", false);
    await world.release("one");
    await world.idle();
    await world.conditions.round();
    expect(await condition()).toBeUndefined();
  });

  it("is remembered by a controller that starts", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.agents.measure(() => ({ condition: bad }));
    for (let n = 0; n < 2; n += 1) await world.conditions.round();
    await world.restart();
    world.agents.measure(undefined);
    world.agents.measure(() => ({ condition: { abnormal: false, message: "" } }));
    await world.conditions.round();
    expect(await condition()).toBeDefined();
    for (let n = 0; n < 2; n += 1) await world.conditions.round();
    expect(await condition()).toBeUndefined();
  });

  it("costs no read of a volume while all is well", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.agents.measure(() => ({ condition: { abnormal: false, message: "" } }));
    const before = { reads: world.store.reads(), commits: world.store.commits() };
    await world.conditions.round();
    expect(world.store.reads()).toBe(before.reads);
    expect(world.store.commits()).toBe(before.commits);
  });

  it("M5 is not asked of the backend beside the volume's own call", async () => {
    const looked: string[] = [];
    world.backend.setFacts({ getsVolumes: "yes", tellsCondition: "yes" });
    world.backend.setLook((id) => {
      looked.push(id);
      return { capacity: 0, condition: bad };
    });
    await world.makeVolume("data", shared);
    let arrive = (): void => undefined;
    const arrives = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    world.backend.script("publish", { kind: "held", until: arrives });
    await world.claim("one", "n1", ["data"]);
    for (let turn = 0; turn < 3; turn += 1) await world.clock.advance(0);
    await world.conditions.round();
    expect(looked).toEqual([]);
    arrive();
    await world.idle();
    await world.conditions.round();
    expect(looked).toHaveLength(1);
  });
});

describe("over the API", () => {
  let api: ServedApi;
  beforeEach(async () => {
    api = await serveApi(world);
  });
  afterEach(() => api.close());

  it("GetVolumeStats, GetNodeStats, ExpandVolume and ModifyVolume", async () => {
    await world.makeVolume("data");
    await mounted("one", "n1");
    world.agents.measure(() => ({ usage: [bytes(40n)], measuredAt: 1_000 }));
    const of = { namespace: "default", id: "data" };
    const { nodes } = await api.volumes.getVolumeStats(of);
    expect(nodes).toMatchObject([
      { node: "n1", usage: [{ total: 100n, used: 40n, available: 60n }], error: undefined },
    ]);
    expect(nodes[0]?.claimUids).toHaveLength(1);
    const { volumes } = await api.nodes.getNodeStats({ name: "n1" });
    expect(volumes).toMatchObject([{ namespace: "default", volume: "data", usage: [{ used: 40n }] }]);

    const grown = await api.volumes.expandVolume({
      ...of,
      capacity: { requiredBytes: 5_000_000n },
      waitFor: { seconds: 30n },
    });
    expect(grown.volume).toMatchObject({ capacity: { actualBytes: 5_000_000n }, expansion: undefined });
    const modified = await api.volumes.modifyVolume({
      ...of,
      mutableParameters: { tier: "gold" },
      waitFor: { seconds: 30n },
    });
    expect(modified.volume).toMatchObject({ mutableParameters: { tier: "gold" }, modification: undefined });
    await expect(api.volumes.expandVolume({ namespace: "", id: "", capacity: {} })).rejects.toThrow(
      /namespace.*id.*required_bytes/s,
    );
    await expect(api.volumes.modifyVolume({ namespace: "", id: "" })).rejects.toThrow(
      /namespace.*id.*mutable_parameters/s,
    );
  });
});
