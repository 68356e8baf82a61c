import { expect, it } from "vitest";
import { noChange } from "../../domain/change.ts";
import { attachmentRecord, momentAt, volumeRecord } from "../../domain/testing/record-fixtures.ts";
import type { VolumeRecord } from "../../domain/volume/volume.ts";
import { buildCommit } from "./volume-commit.ts";

const leaving = attachmentRecord("n1", { state: "DETACHING" });
const given = { op: "detach", node: "n1", epoch: { gen: 1, ctr: 1 }, issuer: "c1/1", opId: "op", via: "a" } as const;
const { via: _none, ...untaken } = given;

const eventsOf = (before: Partial<VolumeRecord>, after: Partial<VolumeRecord>) => {
  const [found, changed] = [before, after].map((changes) => volumeRecord([], [leaving], changes));
  if (found === undefined || changed === undefined) throw new Error("two records");
  const at = momentAt(1);
  const { commit } = buildCommit(
    [{ volume: found, rev: 3 }],
    [noChange(changed)],
    [],
    at,
    () => ({ limit: Number.POSITIVE_INFINITY }) as never,
    () => true,
  );
  return commit.events.map(({ type, body }) => ({ type, ...JSON.parse(body) }));
};

it("a commit with nothing else to tell tells of a call that begins to wait for a controller, once", () => {
  expect(eventsOf({ intent: given }, { intent: untaken })).toMatchObject([{ type: "volume", untaken: true, rev: 4 }]);
  expect(eventsOf({ intent: untaken }, { intent: { ...untaken, uncertainSince: 1 } })).toEqual([]);
  expect(eventsOf({ intent: untaken }, { intent: given })).toEqual([]);
});
