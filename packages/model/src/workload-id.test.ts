import fc from "fast-check";
import { expect, test } from "vitest";
import { workloadIdFault } from "./workload-id.ts";

test.each([
  "a",
  "web-1.2_3",
  "Web [canary] #7",
  "job:main@eu=1,2",
  "поиск",
  "検索 一",
  "..",
  "$(touch /tmp/x)".replaceAll("/", "|"),
  'it\'s "quoted"',
  "👩‍👩‍👧",
  "é".repeat(128),
])("D16 %j is an id of a workload", (id) => expect(workloadIdFault(id)).toBeUndefined());

test.each([
  ["", "is required"],
  ["a".repeat(257), "is longer than 256 bytes"],
  ["é".repeat(129), "is longer than 256 bytes"],
  ["a/b", 'must not hold "/"'],
  ["a\nb", "must hold printable characters only"],
  ["a\u0085b", "must hold printable characters only"],
  ["a\u2028b", "must hold printable characters only"],
  ["a\u202eb", "must hold printable characters only"],
  ["\ud800", "must hold printable characters only"],
  [" a", "must not begin or end with a space"],
  ["a ", "must not begin or end with a space"],
  ["a\u00a0", "must not begin or end with a space"],
])("D16 %j is none: it %s", (id, says) => expect(workloadIdFault(id)).toBe(says));

test("D16 what was an id before is one", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$/), (id) => workloadIdFault(id) === undefined),
  );
});
