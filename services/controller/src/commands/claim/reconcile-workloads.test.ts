import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import { caller, capability, createWorld, type World } from "../../../../../test/support/controller/world.ts";
import { sample } from "../../../../../test/support/full.ts";
import type { ReconcileWorkloadsInput } from "../model.ts";

let world: World;

beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
  expect(world.violations()).toEqual([]);
  await world.close();
});

const never = new AbortController().signal;
const shared = { capabilities: [capability("MULTI_NODE_MULTI_WRITER")] };

const reconcile = async (change: Partial<ReconcileWorkloadsInput> & Pick<ReconcileWorkloadsInput, "position">) =>
  await world.commands.reconcileWorkloads(
    {
      node: "",
      namespace: "default",
      live: [],
      noneLive: change.live === undefined,
      dryRun: false,
      reason: "",
      ...change,
    },
    caller,
    never,
  );

const alive = (...workloads: readonly string[]) => workloads.map((workload) => ({ namespace: "", workload }));

describe("reconciling workloads", () => {
  beforeEach(async () => {
    await world.makeVolume("shared", shared);
  });

  it("[X43] [W41] releases exactly the claims of workloads that nobody knows any more", async () => {
    for (const [workload, node] of [
      ["web", "n1"],
      ["gone", "n1"],
      ["gone-too", "n2"],
    ] as const)
      await world.claim(workload, node, ["shared"]);
    await world.idle();
    const position = await world.commands.listPosition();
    const found = await reconcile({ position, live: alive("web", "never-claimed") });
    expect(found).toMatchObject({ releasedCount: 2, liveCount: 1, youngerCount: 0, releasingCount: 0 });
    expect(found.released.map(({ workload, node, state }) => [workload, node, state])).toEqual([
      ["gone", "n1", "ACTIVE"],
      ["gone-too", "n2", "ACTIVE"],
    ]);
    await world.idle();
    expect(await world.states("web")).toEqual(["ACTIVE"]);
    expect(await world.states("gone")).toEqual(["RELEASED"]);
    expect(await world.states("gone-too")).toEqual(["RELEASED"]);
    expect(world.backend.attachments()).toHaveLength(1);
  });

  it("again with the same token and list releases nothing more, also when the first answer was lost", async () => {
    await world.claim("gone", "n1", ["shared"]);
    await world.idle();
    const position = await world.commands.listPosition();
    world.agents.script("release", { kind: "dropped" });
    await reconcile({ position });
    await world.idle();
    const commits = world.store.commits();
    expect(await reconcile({ position })).toMatchObject({ releasedCount: 0, releasingCount: 1 });
    expect(world.store.commits()).toBe(commits);
    await world.pass(10_000);
    expect(await reconcile({ position })).toMatchObject({ releasedCount: 0, releasingCount: 0 });
    expect(world.agents.calls.filter((call) => call.startsWith("release"))).toHaveLength(2);
  });

  it("never touches a claim that is younger than the list, whatever the clocks say", async () => {
    await world.claim("old", "n1", ["shared"]);
    await world.idle();
    const position = await world.commands.listPosition();
    // The scheduler lists now; meanwhile it starts another workload, through a controller whose clock is wrong.
    await world.claim("young", "n2", ["shared"]);
    await world.idle();
    expect(await reconcile({ position })).toMatchObject({ releasedCount: 1, youngerCount: 1 });
    await world.idle();
    expect(await world.states("young")).toEqual(["ACTIVE"]);
    expect(await world.states("old")).toEqual(["RELEASED"]);
    // A later life of the same workload is another claim.
    await world.claim("old", "n1", ["shared"]);
    await world.idle();
    expect(await reconcile({ position })).toMatchObject({ releasedCount: 0, youngerCount: 2 });
    expect(await world.states("old")).toEqual(["ACTIVE"]);
  });

  it("judges by birth alone: what happens to an older claim later makes it no younger", async () => {
    await world.claim("old", "n1", ["shared"]);
    await world.idle();
    const position = await world.commands.listPosition();
    world.agents.reboot("n1");
    const boot = world.nodes.get("n1")?.record.bootId ?? "";
    world.nodes.set("n1", { bootId: `${boot}-2` });
    await world.idle();
    expect(await reconcile({ position })).toMatchObject({ releasedCount: 1, youngerCount: 0 });
  });

  it("tells a queued claim and one that is handed over by their own birth", async () => {
    await world.makeVolume("data");
    await world.claim("holder", "n1", ["data"]);
    await world.idle();
    const position = await world.commands.listPosition();
    await world.claim("waits", "n2", ["data"], { queue: { enabled: true, deadlineMs: undefined } });
    await world.commands.handOver(
      {
        namespace: "default",
        fromWorkload: "holder",
        toWorkload: "heir",
        toNode: "n3",
        aliases: [],
        deadlineMs: undefined,
        requestId: "",
      },
      caller,
    );
    expect(await reconcile({ position, live: alive("x") })).toMatchObject({ releasedCount: 1, youngerCount: 2 });
    await world.idle();
    expect(await world.states("heir")).toEqual(["ACTIVE"]);
    const later = await world.commands.listPosition();
    expect(await reconcile({ position: later, live: alive("heir") })).toMatchObject({ releasedCount: 1, liveCount: 1 });
    await world.idle();
    expect(await world.states("waits")).toEqual(["RELEASED"]);
  });

  it("parts no set, wherever it is interrupted: all of it is released, or none of it", async () => {
    for (const id of ["a", "b"]) await world.makeVolume(id);
    for (let skip = 0; skip < 3; skip += 1) {
      await world.claim("holder", "n2", ["a"]);
      await world.idle();
      const waiting = `set-${skip}`;
      await world.claim(waiting, "n1", ["a", "b", "shared"], { queue: { enabled: true, deadlineMs: undefined } });
      const position = await world.commands.listPosition();
      world.store.failCommits(1, skip);
      const first = await reconcile({ position, live: alive("holder") }).catch(() => undefined);
      world.store.failCommits(0, 0);
      await world.restart();
      await world.release("holder");
      await world.idle();
      const states = await world.states(waiting);
      expect(states, `interrupted at ${skip}`).toEqual(
        first === undefined ? ["ACTIVE", "ACTIVE", "ACTIVE"] : ["RELEASED", "RELEASED", "RELEASED"],
      );
      await world.release(waiting);
      await world.idle();
    }
  });

  it("keeps to its node, and to its namespace", async () => {
    await world.claim("a", "n1", ["shared"]);
    await world.claim("b", "n2", ["shared"]);
    await world.idle();
    const position = await world.commands.listPosition();
    expect(await reconcile({ position, namespace: "other" })).toMatchObject({ releasedCount: 0 });
    expect(await reconcile({ position, namespace: "", node: "n3" })).toMatchObject({ releasedCount: 0 });
    expect(
      await reconcile({ position, namespace: "", node: "n1", live: [{ namespace: "other", workload: "a" }] }),
    ).toMatchObject({ releasedCount: 1 });
    await world.idle();
    expect([await world.states("a"), await world.states("b")]).toEqual([["RELEASED"], ["ACTIVE"]]);
  });

  it("dry, says the same and does nothing", async () => {
    await world.claim("gone", "n1", ["shared"]);
    await world.idle();
    const position = await world.commands.listPosition();
    const commits = world.store.commits();
    const told = await reconcile({ position, dryRun: true });
    expect(told.releasedCount).toBe(1);
    expect(world.store.commits()).toBe(commits);
    expect(await reconcile({ position })).toEqual(told);
  });

  it("releases nothing with a token of another life of the store", async () => {
    await world.claim("gone", "n1", ["shared"]);
    await world.idle();
    await expect(reconcile({ position: "elsewhere:3" })).rejects.toMatchObject({ reason: "LIST_TOKEN_EXPIRED" });
    expect(await world.states("gone")).toEqual(["ACTIVE"]);
  });

  it("ends with the caller who gives up while the store's history cannot be read, and releases nothing", async () => {
    await world.claim("gone", "n1", ["shared"]);
    await world.idle();
    const position = await world.commands.listPosition();
    await world.claim("young", "n2", ["shared"]);
    await world.idle();
    const gaveUp = new AbortController();
    vi.spyOn(world.store, "watch").mockImplementation(async function* (_after, signal) {
      gaveUp.abort(new Error("enough"));
      await new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        if (signal.aborted) reject(signal.reason);
      });
      yield* [];
    });
    const input = { node: "", namespace: "default", live: [], noneLive: true, dryRun: false, reason: "" };
    await expect(world.commands.reconcileWorkloads({ ...input, position }, caller, gaveUp.signal)).rejects.toThrow(
      "enough",
    );
    expect(await world.states("gone")).toEqual(["ACTIVE"]);
  });

  it("reads what has claims, and never all volumes", async () => {
    for (let n = 0; n < 30; n += 1) await world.makeVolume(`idle-${n}`);
    await world.claim("gone", "n1", ["shared"]);
    await world.idle();
    const listed = await world.records.list("claim-namespace", "default", { limit: 100 });
    expect(listed.volumes.map(({ volume }) => volume.id)).toEqual(["shared"]);
    await world.release("gone");
    await world.idle();
    expect((await world.records.list("claim-namespace", "default", { limit: 100 })).volumes).toEqual([]);
  });
});

describe("over the API", () => {
  let api: ServedApi;
  beforeEach(async () => {
    api = await serveApi(world);
  });
  afterEach(() => api.close());

  it("an empty list that nobody vouches for, a missing scope and a foreign token are refused, all at once", async () => {
    const error = await api.claims
      .reconcileWorkloads({ listToken: "", live: [], reason: "x".repeat(600) })
      .catch((e: unknown) => e);
    expect(error).toMatchObject({ kind: "invalid" });
    expect((error as { violations: { field: string }[] }).violations.map(({ field }) => field)).toEqual([
      "list_token",
      "node",
      "live",
      "reason",
    ]);
    await expect(
      api.claims.reconcileWorkloads({
        listToken: "nonsense",
        node: "n1",
        live: [{ workload: "a/b" }, { namespace: "x", workload: "y" }],
      }),
    ).rejects.toMatchObject({
      violations: [{ field: "list_token" }, { field: "live[0].namespace" }, { field: "live[0].workload" }],
    });
  });

  it("a token is given, used, and used again", async () => {
    await world.makeVolume("shared", shared);
    await world.claim("gone", "n1", ["shared"]);
    await world.idle();
    const { listToken } = await api.claims.getListToken({});
    const first = await api.claims.reconcileWorkloads({ listToken, namespace: "default", noneLive: true });
    expect(first).toMatchObject({ releasedCount: 1n, released: [{ workload: "gone", volume: "shared" }] });
    await world.idle();
    const again = await api.claims.reconcileWorkloads({ listToken, namespace: "default", noneLive: true });
    expect(again).toMatchObject({ releasedCount: 0n });
  });
});

describe("in any order of claims, releases, lists and reconciliations", () => {
  const workloads = ["w0", "w1", "w2", "w3", "w4"] as const;
  const nodes = ["n1", "n2", "n3"] as const;
  const workload = fc.constantFrom(...workloads);
  const step = fc.oneof(
    fc.record({ do: fc.constant("claim" as const), workload, node: fc.constantFrom(...nodes), volume: fc.nat(2) }),
    fc.record({ do: fc.constant("release" as const), workload }),
    fc.record({ do: fc.constant("token" as const) }),
    fc.record({
      do: fc.constant("reconcile" as const),
      live: fc.subarray([...workloads]),
      node: fc.constantFrom("", ...nodes),
    }),
    fc.record({ do: fc.constant("settle" as const) }),
  );

  it(`exactly the others that are older than the list are released (${sample(5_000, 60)} sequences)`, {
    timeout: 300_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const own = await createWorld();
        for (let n = 0; n < 3; n += 1) await own.makeVolume(`v${n}`, shared);
        /** uid → whose it is and when it was born, in steps. */
        const wanted = new Map<string, { workload: string; node: string; born: number }>();
        let position: { text: string; at: number } | undefined;
        for (const [at, one] of steps.entries()) {
          if (one.do === "claim") {
            const views = await own
              .claim(one.workload, one.node, [`v${one.volume}`], { requestId: `r${at}` })
              .catch(() => []);
            for (const { claim } of views)
              if (!wanted.has(claim.uid)) wanted.set(claim.uid, { workload: one.workload, node: one.node, born: at });
          } else if (one.do === "release") {
            await own.release(one.workload);
            for (const [uid, claim] of wanted) if (claim.workload === one.workload) wanted.delete(uid);
          } else if (one.do === "token") position = { text: await own.commands.listPosition(), at };
          else if (one.do === "settle") await own.idle();
          else if (position !== undefined) {
            const { at: listed, text } = position;
            const input = { node: one.node, namespace: one.node === "" ? "default" : "", dryRun: false, reason: "" };
            const live = one.live.map((name) => ({ namespace: "default", workload: name }));
            const found = await own.commands.reconcileWorkloads(
              { ...input, position: text, live, noneLive: live.length === 0 },
              caller,
              never,
            );
            const stale = [...wanted].filter(
              ([, claim]) =>
                claim.born < listed &&
                (one.node === "" || claim.node === one.node) &&
                !one.live.includes(claim.workload as (typeof workloads)[number]),
            );
            expect(found.released.map(({ uid }) => uid).toSorted()).toEqual(stale.map(([uid]) => uid).toSorted());
            for (const [uid] of stale) wanted.delete(uid);
          }
        }
        await own.idle();
        const left = await Promise.all(
          workloads.map((name) =>
            own.commands.selectClaims({ namespace: "default", workload: name, aliases: [], claimUids: [] }),
          ),
        );
        const standing = left.flat().filter((view) => view.kind === "living" && view.claim.goal === "active");
        expect(standing.map(({ claim }) => claim.uid).toSorted()).toEqual([...wanted.keys()].toSorted());
        expect(own.violations()).toEqual([]);
        await own.close();
      }),
      { numRuns: sample(5_000, 60) },
    );
  });
});
