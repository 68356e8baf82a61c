import { describe, expect, it } from "vitest";
import { barAsked, barLifted, barStands, callBar, grantBar, isSeatOf, mostBars, volumeOvertaken } from "./bar.ts";
import type { Change } from "./change.ts";
import { obstacleTo } from "./claim/grant.ts";
import { planSteps } from "./steps.ts";
import {
  attachmentRecord,
  barRecord,
  claimRecord,
  failureWith,
  goodFacts,
  momentAt,
  volumeRecord,
} from "./testing/record-fixtures.ts";
import type { Bar, Intent, VolumeRecord } from "./volume/volume.ts";

const at = momentAt(7_000);
const given = (op: Intent["op"], changes: Partial<Intent> = {}): Intent => ({
  op,
  node: "n1",
  epoch: { gen: 1, ctr: 9 },
  issuer: "c9/1",
  opId: "first",
  via: "node g1: model",
  gate: "life-1",
  openSince: 5,
  ...changes,
});
const other = { via: "node g2: model", gate: "life-2" };
const after = ({ volume }: Change): VolumeRecord => {
  if (volume === null) throw new Error("no record is left");
  return volume;
};
const pair = (node: string, nodeId = `id-${node}`) => ({ node, nodeId });

describe("BR1 a call that is given to another gate", () => {
  const attachment = attachmentRecord("n1", { state: "DETACHING", secretRef: "file:/s@3" });

  it("is in doubt under an intent of this life, and leaves a bar with all that its undo needs", () => {
    const volume = volumeRecord([], [attachment], { intent: given("detach", { gateEpoch: 3 }) });
    const taken = volumeOvertaken(volume, "first", other, at);
    const { openSince: _o, ...intent } = given("detach", { ...other, issuer: at.issuer, opId: at.opId });
    expect(taken.intent).toEqual({ ...intent, uncertainSince: 7_000 });
    expect(taken.bars).toEqual([
      {
        op: "detach",
        node: "n1",
        attachment,
        issuer: "c9/1",
        via: "node g1: model",
        gate: "life-1",
        gateEpoch: 3,
        opId: "first",
        since: 7_000,
        attempts: { count: 0, nextTry: 0 },
      },
    ]);
  });

  it("keeps the words of a create, which the record may change before the create is repeated", () => {
    const { node: _n, ...intent } = given("create");
    const creating = volumeRecord([], [], { state: "CREATING", mutableParameters: { tier: "gold" }, intent });
    const { required, limit } = creating.capacity;
    expect(volumeOvertaken(creating, "first", other, at).bars).toMatchObject([
      { op: "create", size: { required, limit }, parameters: { tier: "gold" } },
    ]);
  });

  it("may be given to nobody, for another controller to choose the instance", () => {
    const volume = volumeRecord([], [attachment], { intent: given("detach") });
    const { bars, intent } = volumeOvertaken(volume, "first", undefined, at);
    expect(bars).toHaveLength(1);
    expect(intent).toMatchObject({ op: "detach", opId: at.opId, issuer: at.issuer, uncertainSince: 7_000 });
    for (const field of ["via", "gate", "openSince"]) expect(intent).not.toHaveProperty(field);
  });

  it("keeps with the bar, and not with the intent, that an earlier life of the gate may have the call", () => {
    const volume = volumeRecord([], [attachment], { intent: given("detach", { beyondGate: true }) });
    const { bars, intent } = volumeOvertaken(volume, "first", other, at);
    expect(bars[0]).toMatchObject({ beyondGate: true });
    expect(intent).not.toHaveProperty("beyondGate");
  });

  it("stays where it is when the intent is another one, has no instance, or would go where it is", () => {
    const volume = volumeRecord([], [attachment], { intent: given("detach") });
    expect(volumeOvertaken(volume, "another", other, at)).toBe(volume);
    expect(volumeOvertaken(volume, "first", { via: "node g1: model", gate: "life-1" }, at)).toBe(volume);
    const { via: _v, ...free } = given("detach");
    const untaken = volumeRecord([], [attachment], { intent: free });
    expect(volumeOvertaken(untaken, "first", other, at)).toBe(untaken);
  });

  it("BR4 goes to no further gate once so many may have it", () => {
    const bars = (n: number) => Array.from({ length: n }, (_, i) => barRecord("n1", { opId: `b${i}` }));
    const volume = (n: number) => volumeRecord([], [attachment], { intent: given("detach"), bars: bars(n) });
    expect(volumeOvertaken(volume(mostBars - 1), "first", other, at).bars).toHaveLength(mostBars);
    const full = volume(mostBars);
    expect(volumeOvertaken(full, "first", other, at)).toBe(full);
  });
});

it("a socket beside a controller is another seat than one of the same path beside another controller", () => {
  const bar = { via: "/run/p.sock", issuer: "c9/1" };
  expect(isSeatOf(bar, "c9/1", { via: "/run/p.sock" })).toBe(true);
  expect(isSeatOf(bar, "c1/1", { via: "/run/p.sock" })).toBe(false);
  expect(isSeatOf({ via: "node g1: p", gate: "a", issuer: "c9/1" }, "c1/1", { via: "node g1: p", gate: "a" })).toBe(
    true,
  );
  expect(isSeatOf({ via: "node g1: p", gate: "a", issuer: "c9/1" }, "c9/1", { via: "node g1: p", gate: "b" })).toBe(
    false,
  );
});

describe("BR2 while it stands", () => {
  const single = attachmentRecord("n1", { accessMode: "SINGLE_NODE_WRITER" });
  const on = (bar: Partial<Bar>) => volumeRecord([], [], { bars: [barRecord("n1", bar)] });

  it.each([
    ["detach", {}, [true, false, true]],
    ["attach of a mode with many nodes", { op: "attach" }, [true, false, true]],
    ["attach of a mode with one node", { op: "attach", attachment: single }, [true, true, true]],
    ["create", { op: "create", node: "" }, [false, false, false]],
    ["delete", { op: "delete", node: "" }, [false, false, false]],
    ["expand", { op: "expand", node: "" }, [false, false, false]],
    ["expand of a volume that no node may have", { op: "expand", node: "", onlyUnused: true }, [true, true, true]],
    ["modify", { op: "modify", node: "" }, [false, false, false]],
  ] as const)(
    "%s bars grants of its pair, another node, and the node that has its name at the plugin",
    (_, bar, bars) => {
      const { attachment: _a, ...plain } = barRecord("n1", bar);
      const volume = "node" in bar ? volumeRecord([], [], { bars: [plain] }) : on(bar);
      const found = [pair("n1"), pair("n2"), pair("n3", "id-n1")].map((one) => grantBar(volume, one) !== undefined);
      expect(found).toEqual(bars);
    },
  );

  it.each([
    ["create", "delete"],
    ["delete", "create"],
    ["expand", "expand"],
    ["modify", "modify"],
    ["attach", undefined],
    ["detach", undefined],
  ] as const)("%s keeps the call %s from its beginning, and no other", (op, kept) => {
    const volume = on({ op, node: "" });
    for (const call of ["create", "delete", "expand", "modify"] as const)
      expect(callBar(volume, call) !== undefined).toBe(call === kept);
  });

  it("a grant of the pair is refused with the words and the command, one of another node is not", () => {
    const claim = claimRecord("c", { node: "n1" });
    const volume = volumeRecord([claim], [], { bars: [barRecord("n1")] });
    expect(obstacleTo(volume, claim, goodFacts)).toMatchObject({
      reason: "NODE_BARRED",
      message: expect.stringContaining("holdfast repair clear-bar data late-n1 --namespace ns"),
    });
    expect(obstacleTo(volume, { ...claim, node: "n2" }, { ...goodFacts, nodeId: "id-n2" })).toBeUndefined();
  });

  it("a delete is not planned behind a create that may be open, and each bar has a step of its own", () => {
    const bars = [barRecord("", { op: "create", opId: "x" }), barRecord("n1", { opId: "y" })];
    const volume = volumeRecord([], [], { state: "DELETING", goal: "absent", bars });
    expect(planSteps(volume, 7_000).ready).toEqual([
      { do: "lift", lane: "bar x", bar: "x" },
      { do: "lift", lane: "bar y", bar: "y" },
    ]);
    const asked = barAsked(volume, "x", at);
    expect(planSteps(asked, 7_000).ready).toEqual([{ do: "lift", lane: "bar y", bar: "y" }]);
    expect(asked.bars[0]).toMatchObject({ asked: { issuer: at.issuer, opId: at.opId }, attempts: { count: 1 } });
    const told = barStands(asked, "x", failureWith("again", { message: "busy" }), at);
    expect(told.bars[0]?.attempts.lastError?.message).toBe("busy");
    expect(told.bars[1]).toBe(asked.bars[1]);
  });
});

describe("BR3 it is lifted", () => {
  it("alone, when nothing can be left over", () => {
    for (const op of ["detach", "create", "delete", "expand", "modify"] as const) {
      const lifted = after(barLifted(volumeRecord([], [], { bars: [barRecord("n1", { op })] }), "late-n1", at));
      expect(lifted.bars).toEqual([]);
      expect(lifted.attachments).toEqual({});
    }
  });

  it("with the detach of an attachment that the call may have made and no record owns", () => {
    const attachment = attachmentRecord("n1", { state: "ATTACHING", secretRef: "file:/s@3", paused: { behind: [] } });
    const volume = volumeRecord([], [], { bars: [barRecord("n1", { op: "attach", attachment })] });
    const lifted = after(barLifted(volume, "late-n1", at));
    const { paused: _p, ...pairOf } = attachment;
    expect(lifted).toMatchObject({
      bars: [],
      attachments: { n1: { ...pairOf, state: "DETACHING", owed: { why: "late", since: 7_000 } } },
    });
    expect(lifted.attachments["n1"]).not.toHaveProperty("paused");
    expect(planSteps(lifted, 7_000).ready).toMatchObject([{ do: "detach", node: "n1" }]);
  });

  it("without one, when the record has the pair, under whatever name of the node", () => {
    const bar = barRecord("n1", { op: "attach", attachment: attachmentRecord("n1", { state: "ATTACHING" }) });
    const renamed = attachmentRecord("n9", { nodeId: "id-n1" });
    const lifted = after(barLifted(volumeRecord([], [renamed], { bars: [bar] }), "late-n1", at));
    expect(lifted).toMatchObject({ bars: [], attachments: { n9: renamed } });
  });

  it("not while the pair is being detached: that detach may have been done before the late attach", () => {
    const bar = barRecord("n1", { op: "attach", attachment: attachmentRecord("n1", { state: "ATTACHING" }) });
    const leaving = volumeRecord([], [attachmentRecord("n1", { state: "DETACHING" })], { bars: [bar] });
    expect(after(barLifted(leaving, "late-n1", at))).toBe(leaving);
    const held = volumeRecord([], [attachmentRecord("n1", { state: "ATTACHED" })], { bars: [bar] });
    expect(after(barLifted(held, "late-n1", at)).bars).toEqual([]);
  });

  it("not before its undo has a place in the record", () => {
    const bar = barRecord("n1", { op: "attach", attachment: attachmentRecord("n1", { state: "ATTACHING" }) });
    const volume = volumeRecord([], [attachmentRecord("n1", { nodeId: "another" })], { bars: [bar] });
    expect(after(barLifted(volume, "late-n1", at))).toBe(volume);
  });

  it("by its own name alone", () => {
    const volume = volumeRecord([], [], { bars: [barRecord("n1")] });
    expect(after(barLifted(volume, "another", at))).toBe(volume);
    expect(barAsked(volume, "another", at)).toBe(volume);
  });
});
