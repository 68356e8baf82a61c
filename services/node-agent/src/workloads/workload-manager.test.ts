import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { VolumeTemplate } from "@holdfast/shared/gen/holdfast/v1/claim";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { anyCaller } from "../testing/model-agent.ts";
import { away, startWorkloadRig, type WorkloadRig, webName, webOrder } from "../testing/workload-rig.ts";
import { templateText } from "./convert-claim.ts";
import type { WorkloadView } from "./workload-views.ts";

let rig: WorkloadRig;
beforeEach(async () => {
  rig = await startWorkloadRig();
});

const minute = 60_000;
const prepare = (order = webOrder(), waitMs = 10 * minute) => {
  const outcome: { view?: WorkloadView; reason?: string; metadata?: Readonly<Record<string, string>> } = {};
  const done = rig
    .workloads()
    .prepare(order, waitMs, anyCaller)
    .then(
      (view) => void Object.assign(outcome, { view }),
      (error: unknown) => {
        if (!isHoldfastError(error)) throw error;
        Object.assign(outcome, { reason: error.reason, metadata: error.metadata });
      },
    );
  return { outcome, done };
};
const uidOf = (alias: string): string => {
  const claim = [...rig.claims.known.values()].findLast((one) => one.alias === alias && one.workload === "web");
  if (claim === undefined) throw new Error(`nothing was claimed as ${alias}`);
  return claim.uid;
};
/** Prepared and mounted. */
const prepared = async (...aliases: readonly string[]): Promise<WorkloadView> => {
  const { outcome, done } = prepare(webOrder({}, ...aliases));
  await rig.settle();
  for (const alias of aliases.length === 0 ? ["data"] : aliases) {
    await rig.claims.permit(uidOf(alias));
    rig.claims.set(uidOf(alias), { state: "ACTIVE" });
  }
  await done;
  if (outcome.view === undefined) throw new Error(`not prepared: ${outcome.reason}`);
  return outcome.view;
};
const phase = () => rig.ledger().agent().workloads["ns/web"]?.phase;
const release = (waitMs = 0) => rig.workloads().release({ ...webName, ticket: "" }, waitMs, anyCaller);

const brought = (requiredBytes = 10n) => {
  const order = webOrder();
  const template = templateText(VolumeTemplate.fromPartial({ plugin: "csi.example", capacity: { requiredBytes } }));
  return { ...order, claims: order.claims.map((claim) => ({ ...claim, template })) };
};

describe("a workload whose claim brings its volume", () => {
  test("is the same again by the whole template, and another one by another size", async () => {
    const first = prepare(brought());
    await rig.settle();
    await rig.claims.permit(uidOf("data"));
    await first.done;
    expect(first.outcome.view).toMatchObject({ ready: true });
    const again = prepare(brought());
    await again.done;
    expect(again.outcome.view).toMatchObject({ ready: true });
    expect(rig.claims.asked.filter((call) => call.startsWith("request"))).toEqual(["request web data"]);
    const other = prepare(brought(11n));
    await other.done;
    expect(other.outcome.reason).toBe("CLAIM_EXISTS");
  });
});

describe("preparing a workload", () => {
  test("[Z1] nothing is asked of a controller before the wish is journalled", async () => {
    const open = rig.claims.hold();
    const { done, outcome } = prepare();
    await rig.settle();
    expect(rig.claims.asked).toEqual(["request web data"]);
    expect(JSON.stringify(rig.agent.disk().records)).toContain('"type":"wanted"');
    open();
    await rig.settle();
    expect(phase()).toBe("claimed");
    expect(outcome).toEqual({});
    await rig.claims.permit(uidOf("data"));
    await done;
    expect(outcome.view).toMatchObject({ ready: true, claims: [{ alias: "data", state: "ACTIVE" }] });
  });

  test("answers the mount table: where, read-only or not, how it propagates", async () => {
    const view = await prepared("data", "ro");
    const target = (alias: string) => view.claims.find((claim) => claim.alias === alias)?.hostPath;
    const common = { container: "main", propagation: "private" };
    expect(view.mounts).toEqual([
      { ...common, alias: "data", volume: "vol-data", hostPath: target("data"), path: "/data", readOnly: false },
      { ...common, alias: "ro", volume: "vol-ro", hostPath: target("ro"), path: "/ro", readOnly: true },
    ]);
  });

  test("[W21] no volume waits for another: all are asked for at once, and each is mounted as its permit comes", async () => {
    const aliases = Array.from({ length: 10 }, (_, at) => `v${at}`);
    const { done, outcome } = prepare(webOrder({}, ...aliases));
    await rig.settle();
    expect(rig.claims.asked).toEqual([`request web ${aliases.join(",")}`]);
    for (const alias of aliases.toReversed()) await rig.claims.permit(uidOf(alias));
    await done;
    expect(outcome.view?.mounts.map(({ alias }) => alias)).toEqual(aliases);
  });

  test("[O3] a repeat is answered from the journal, also when no controller is there and by another life", async () => {
    const first = await prepared();
    rig.claims.fail(away);
    const again = prepare();
    await again.done;
    expect(again.outcome.view).toEqual(first);
    await rig.restart();
    const late = prepare();
    await late.done;
    expect(late.outcome.view?.mounts).toEqual(first.mounts);
    expect(rig.claims.asked).toEqual(["request web data"]);
  });

  test("[O1] [O2] callers at the same time share one work, and one that goes away ends nothing", async () => {
    const caller = new AbortController();
    const gone = rig.workloads().prepare(webOrder(), minute, caller.signal);
    const [one, two] = [prepare(), prepare()];
    await rig.settle();
    caller.abort(new Error("the runner went away"));
    await expect(gone).rejects.toThrow("the runner went away");
    await rig.claims.permit(uidOf("data"));
    await Promise.all([one.done, two.done]);
    expect(one.outcome.view?.ready).toBe(true);
    expect(two.outcome).toEqual(one.outcome);
    expect(rig.claims.asked).toEqual(["request web data"]);
    expect(rig.clock.pending()).toBe(0);
  });

  test("without room in the journal nothing new is begun, and what is there is still given back", async () => {
    await prepared();
    const full = vi.spyOn(rig.ledger(), "fullBecause").mockReturnValue("the disk is full");
    const other = prepare(webOrder({ workload: "other" }));
    await other.done;
    expect(other.outcome.reason).toBe("JOURNAL_FULL");
    expect(await release(minute)).toEqual([]);
    full.mockRestore();
    expect(rig.claims.asked).toEqual(["request web data", "release web"]);
  });

  test("other content for the same workload is refused", async () => {
    await prepared();
    const other = prepare(webOrder({}, "data", "more"));
    await other.done;
    expect(other.outcome.reason).toBe("CLAIM_EXISTS");
    expect(rig.claims.asked).toEqual(["request web data"]);
  });

  test("[W5] a wait that is over is an error and never an answer, and the work goes on", async () => {
    const short = prepare(webOrder(), 1_000);
    await rig.settle();
    await rig.clock.advance(1_000);
    await short.done;
    expect(short.outcome.reason).toBe("DEADLINE");
    expect(short.outcome.view).toBeUndefined();
    await rig.claims.permit(uidOf("data"));
    await rig.settle();
    const again = prepare();
    await again.done;
    expect(again.outcome.view?.ready).toBe(true);
    expect(rig.claims.asked).toEqual(["request web data"]);
  });

  test("what it replaces is unmounted here before anything is asked for", async () => {
    const old = { namespace: "ns", workload: "old" };
    const first = rig.workloads().prepare(webOrder(old), minute, anyCaller);
    await rig.settle();
    const [oldUid = ""] = rig.claims.known.keys();
    await rig.claims.permit(oldUid);
    await first;
    const next = prepare(webOrder({ replaces: ["old"] }));
    await rig.settle();
    expect(rig.claims.asked).toEqual(["request old data"]);
    await rig.workloads().release({ ...old, ticket: "" }, minute, anyCaller);
    await rig.settle();
    expect(rig.claims.asked.at(-1)).toBe("request web data after old");
    await rig.claims.permit(uidOf("data"));
    await next.done;
    expect(next.outcome.view?.ready).toBe(true);
  });

  test("a controller that is away says so, and what may have been claimed stays owed", async () => {
    rig.claims.fail(away);
    const { done, outcome } = prepare();
    await done;
    expect(outcome.reason).toBe("CONTROLLER_UNAVAILABLE");
    expect(phase()).toBe("wanted");
    await release();
    expect(phase()).toBe("releasing");
    rig.claims.fail(undefined);
    await rig.clock.advance(minute);
    expect(rig.claims.asked.at(-1)).toBe("release web");
    expect(phase()).toBeUndefined();
  });

  test("a claim that is blocked is told with what clears it, and goes on", async () => {
    const { done, outcome } = prepare();
    await rig.settle();
    const blocked = {
      since: 0,
      reason: "CREDENTIALS_REFUSED",
      message: "no",
      missingProof: "p",
      clearWith: "put a secret",
    };
    rig.claims.set(uidOf("data"), { blocked });
    await done;
    expect(outcome).toMatchObject({
      reason: "CLAIM_BLOCKED",
      metadata: { volume: "vol-data", alias: "data", cause: "CREDENTIALS_REFUSED", clear_with: "put a secret" },
    });
    expect(phase()).toBe("claimed");
  });
});

describe("a workload that cannot be had", () => {
  const failure = { reason: "PLUGIN_REFUSED", message: "no", method: "", code: "", at: 0 };

  test("[W22] refused: nothing was made, and nothing is undone or retried for ever", async () => {
    rig.claims.fail(new HoldfastError({ kind: "not_found", reason: "VOLUME_NOT_FOUND", message: "none" }));
    const { done, outcome } = prepare();
    await done;
    expect(outcome.reason).toBe("VOLUME_NOT_FOUND");
    expect(phase()).toBeUndefined();
    await rig.clock.advance(60 * minute);
    expect(rig.claims.asked).toEqual(["request web data"]);
    expect(rig.agent.host.calls).toEqual([]);
  });

  test("[W22] [U1] failed: exactly what was made for it is given back, and what is mounted goes", async () => {
    const { done, outcome } = prepare(webOrder({}, "a", "b"));
    await rig.settle();
    const [a, b] = [uidOf("a"), uidOf("b")];
    await rig.claims.permit(a);
    rig.claims.set(b, { state: "FAILED", failure });
    await done;
    expect(outcome).toMatchObject({
      reason: "CLAIM_FAILED",
      metadata: { volume: "vol-b", alias: "b", cause: "PLUGIN_REFUSED" },
    });
    await rig.settle();
    expect(rig.agent.host.mountedPaths()).toEqual([]);
    expect(rig.claims.asked.at(-1)).toBe(`release web ${a} ${b}`);
    expect(phase()).toBeUndefined();
    // RELEASED was asked for by no controller: one is told.
    const late = [...rig.ledger().volumes()].flatMap(({ dead }) => dead.filter((one) => one.late));
    expect(late.map(({ claimUid }) => claimUid)).toEqual([a]);
  });

  test("[W23] the agent dies in the middle of the undoing: the next life goes on with it", async () => {
    const { done } = prepare(webOrder({}, "a", "b"));
    await rig.settle();
    await rig.claims.permit(uidOf("a"));
    rig.agent.host.fates.push("crash-before");
    rig.claims.set(uidOf("b"), { state: "FAILED", failure });
    await rig.agent.crashed();
    done.catch(() => undefined);
    expect(rig.agent.host.mountedPaths()).not.toEqual([]);
    await rig.restart();
    await rig.settle();
    expect(rig.agent.host.mountedPaths()).toEqual([]);
    expect(phase()).toBeUndefined();
  });

  test("of a set the member is named that it ended for", async () => {
    const { done, outcome } = prepare(webOrder({}, "a", "b"));
    await rig.settle();
    const uids = [uidOf("a"), uidOf("b")] as const;
    const first = rig.claims.known.get(uids[0]);
    if (first === undefined) throw new Error("no claim");
    // Both end in one commit.
    rig.claims.known.set(uids[0], { ...first, state: "FAILED", failure: { ...failure, reason: "SET_MEMBER_FAILED" } });
    rig.claims.set(uids[1], { state: "FAILED", failure: { ...failure, reason: "QUEUE_TIMEOUT" } });
    await done;
    expect(outcome).toMatchObject({ reason: "QUEUE_TIMEOUT", metadata: { alias: "b", cause: "QUEUE_TIMEOUT" } });
  });
});

describe("giving a workload back", () => {
  test("unmounts at once while no controller is there, and tells one later", async () => {
    await prepared();
    rig.claims.fail(away);
    expect(await release(minute)).toEqual([]);
    expect(rig.agent.host.mountedPaths()).toEqual([]);
    expect(phase()).toBe("releasing");
    rig.claims.fail(undefined);
    await rig.clock.advance(2 * minute);
    expect(rig.claims.asked.at(-1)).toBe("release web");
    expect(phase()).toBeUndefined();
  });

  test("[W4] [W5] an unmount that fails is no success: it is told, tried again, and blocks no runner", async () => {
    await prepared();
    rig.agent.host.fates.push("blocked", "blocked", "blocked");
    const [left, ...others] = await Promise.all([
      release(1_000),
      rig.settle().then(() => rig.clock.advance(1_000)),
    ]).then(([it]) => it);
    expect(others).toEqual([]);
    expect(left).toMatchObject({
      alias: "data",
      state: "RELEASING",
      blocked: { reason: "PLUGIN_REFUSED" },
      failure: { method: "NodeUnpublishVolume", code: "FAILED_PRECONDITION" },
    });
    expect(phase()).toBe("releasing");
    expect((await rig.workloads().get(webName)).claims).toMatchObject([{ state: "RELEASING" }]);
    await rig.clock.advance(5 * minute);
    expect(rig.agent.host.mountedPaths()).toEqual([]);
    expect(phase()).toBeUndefined();
  });

  test("[U2] while its claims are being asked for: the release is told behind the request", async () => {
    const open = rig.claims.hold();
    const { done, outcome } = prepare();
    await rig.settle();
    expect(await release()).toEqual([]);
    await done;
    expect(outcome.reason).toBe("WORKLOAD_RELEASED");
    await rig.settle();
    expect(rig.claims.asked).toEqual(["request web data"]);
    open();
    await rig.settle();
    expect(rig.claims.asked).toEqual(["request web data", "release web"]);
    expect([...rig.claims.known.values()].map(({ state }) => state)).toEqual(["RELEASED"]);
    expect(phase()).toBeUndefined();
  });

  test("a permit that comes in between is undone too", async () => {
    const { done } = prepare();
    await rig.settle();
    rig.claims.fail(away);
    await release();
    await done;
    await rig.claims.permit(uidOf("data"));
    rig.claims.fail(undefined);
    await rig.clock.advance(5 * minute);
    expect(rig.agent.host.mountedPaths()).toEqual([]);
    expect(phase()).toBeUndefined();
  });

  test("[Z2] who prepares it again waits for the former life to go", async () => {
    await prepared();
    rig.claims.fail(away);
    await release(minute);
    const again = prepare();
    await rig.settle();
    expect(again.outcome).toEqual({});
    rig.claims.fail(undefined);
    await rig.clock.advance(2 * minute);
    expect(rig.claims.asked.slice(-2)).toEqual(["release web", "request web data"]);
    await rig.claims.permit(uidOf("data"));
    await again.done;
    expect(again.outcome.view?.ready).toBe(true);
  });

  describe("[U4] in a namespace that the operators name no more", () => {
    const denied = new HoldfastError({ kind: "permission", reason: "PERMISSION_DENIED", message: "not named" });
    beforeEach(() => rig.claims.deny(denied));

    test("names the lives that are known", async () => {
      await prepared("a", "b");
      const [a, b] = [uidOf("a"), uidOf("b")];
      expect(await release(minute)).toEqual([]);
      await rig.settle();
      expect(rig.claims.asked.slice(-2)).toEqual(["release web", `release web ${a} ${b}`]);
      expect(phase()).toBeUndefined();
    });

    test("leaves nothing behind of what was not prepared here", async () => {
      expect(await release(minute)).toEqual([]);
      await rig.settle();
      expect(rig.claims.asked).toEqual(["release web"]);
      expect(phase()).toBeUndefined();
    });

    test("goes on asking where a claim may have been made", async () => {
      const open = rig.claims.hold();
      const { done } = prepare();
      await rig.settle();
      await release();
      await done;
      open();
      await rig.clock.advance(2 * minute);
      expect(phase()).toBe("releasing");
      rig.claims.deny(undefined);
      await rig.clock.advance(2 * minute);
      expect([...rig.claims.known.values()].map(({ state }) => state)).toEqual(["RELEASED"]);
      expect(phase()).toBeUndefined();
    });
  });

  test("what is not known is OK", async () => {
    expect(await release(minute)).toEqual([]);
    await rig.settle();
    expect(phase()).toBeUndefined();
    await expect(rig.workloads().get(webName)).rejects.toMatchObject({ reason: "WORKLOAD_NOT_FOUND" });
  });
});

describe("a mount that died under its workload", () => {
  const target = () => rig.agent.host.mountedPaths().find((path) => path.includes("/publish/")) ?? "";

  test("is no ready workload, and its processes have to be restarted until it is prepared again", async () => {
    await prepared();
    rig.agent.host.unmount(target());
    expect(await rig.workloads().get(webName)).toMatchObject({ ready: false, mounts: [] });
    // The controller sends the permit again, and it is mounted anew.
    const since = rig.clock.now();
    await rig.claims.permit(uidOf("data")).catch(() => undefined);
    await rig.settle();
    const view = await rig.workloads().get(webName);
    expect(view.restart).toEqual({ since, reason: "the mount of its volume data was lost" });
    await rig.restart();
    expect((await rig.workloads().get(webName)).restart).toEqual(view.restart);
    const again = prepare();
    await rig.settle();
    await again.done;
    expect(again.outcome.view).toMatchObject({ ready: true });
    expect(again.outcome.view?.restart).toBeUndefined();
    expect((await rig.workloads().get(webName)).restart).toBeUndefined();
  });

  test("by a reboot there is nobody to restart", async () => {
    await prepared();
    await rig.restart({ rebooted: true });
    const view = await rig.workloads().get(webName);
    expect(view).toMatchObject({ ready: false, mounts: [] });
    expect(view.restart).toBeUndefined();
  });
});
