import { describe, expect, it } from "vitest";
import { grantSet, lacksOnlySlots } from "../claim/claim-set-change.ts";
import { obstacleTo } from "../claim/grant.ts";
import { attachmentRecord, claimRecord, goodFacts, momentAt, volumeRecord } from "../testing/record-fixtures.ts";
import { type VolumeRecord, volumeKey } from "../volume/volume.ts";
import { noLimit, type SlotState, slotKey, slotsLeft } from "./slots.ts";

const slots = (limit: number, used: number | undefined, changes: Partial<SlotState> = {}): SlotState => ({
  limit,
  learned: false,
  used,
  waiting: [],
  ...changes,
});
const waiting = [
  { ticket: "b", need: 2 },
  { ticket: "d", need: 9 },
];

describe("slotsLeft", () => {
  const rows: readonly (readonly [string, SlotState, number])[] = [
    ["what is not used", slots(5, 2), 3],
    ["none, of a node that has more than it takes by now", slots(2, 5), -3],
    ["any number, without a limit", slots(noLimit.limit, 7), Number.POSITIVE_INFINITY],
    ["all, as long as nobody has counted: the commit compares", slots(5, undefined), 5],
    ["without those that a set before it waits for", slots(5, 2, { waiting }), 1],
    ["with those of a set that needs more than there are", slots(5, 2, { waiting: [{ ticket: "a", need: 6 }] }), 3],
  ];
  it.each(rows)("is %s", (_what, state, left) => expect(slotsLeft(state, "c")).toBe(left));

  it("takes nothing for sets that came later, nor for itself", () => {
    expect(slotsLeft(slots(5, 2, { waiting }), "a")).toBe(3);
    expect(slotsLeft(slots(5, 2, { waiting }), "b")).toBe(3);
  });
});

describe("a grant beside a limit", () => {
  const me = claimRecord("me", { ticket: "c" });
  const on = (state: SlotState, volume: VolumeRecord = volumeRecord([me]), taken = 0) =>
    obstacleTo(volume, me, { ...goodFacts, slots: state }, { slots: taken, pool: 0 })?.reason;

  it("takes the last slot, and no more", () => {
    expect(on(slots(2, 1))).toBeUndefined();
    expect(on(slots(2, 2))).toBe("ATTACH_LIMIT");
    expect(on(slots(2, 1), volumeRecord([me]), 1)).toBe("ATTACH_LIMIT");
  });

  it("needs none where the volume is attached already", () =>
    expect(on(slots(2, 2), volumeRecord([me], [attachmentRecord("n1")]))).toBeUndefined());

  it("names what stands in the way before the limit", () =>
    expect(on(slots(0, 0), volumeRecord([me], [], { state: "CREATING" }))).toBe("VOLUME_NOT_AVAILABLE"));
});

describe("a set beside a limit", () => {
  const member = (id: string, uid: string, alias = id) => ({
    ref: { namespace: "ns", volume: id, uid },
    claim: claimRecord(uid, { workload: "w", alias, ticket: "c" }),
  });
  const set = [member("a", "1"), member("b", "2"), member("b", "3", "again")];
  const volumes = new Map(
    ["a", "b"].map((id) => {
      const claims = set.filter(({ ref }) => ref.volume === id).map(({ claim }) => claim);
      const volume = volumeRecord(claims, [], { id });
      return [volumeKey(volume), volume] as const;
    }),
  );
  const granted = (limit: number, used: number) =>
    grantSet(
      volumes,
      set.map(({ ref }) => ref),
      () => ({ ...goodFacts, slots: slots(limit, used) }),
      momentAt(1),
    );

  it("counts each volume once, however many claims it has", () => {
    const { changes, needs, blocking } = granted(2, 0);
    expect(blocking).toEqual([]);
    expect(changes.size).toBe(2);
    expect(needs).toEqual(new Map([[slotKey("model", "n1"), 2]]));
  });

  it("is granted whole or not at all", () => {
    const grant = granted(2, 1);
    expect(grant.changes.size).toBe(0);
    expect(grant.needs).toEqual(new Map([[slotKey("model", "n1"), 2]]));
    expect(lacksOnlySlots(grant)).toBe(true);
  });
});
