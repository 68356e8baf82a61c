import fc from "fast-check";
import { expect, test } from "vitest";
import { decode, encode } from "./json.ts";

const values = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    fc.bigInt(),
    fc.date({ noInvalidDate: true }),
    fc.string(),
    fc.boolean(),
    fc.constant(null),
    fc.integer(),
    fc.uint8Array({ maxLength: 8 }),
    fc.array(tie("any")),
    fc.array(tie("any"), { maxLength: 3 }).map((members) => new Set(members)),
    fc.array(fc.tuple(fc.string(), tie("any")), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.dictionary(fc.oneof(fc.string(), fc.constantFrom("$int", "$map", "$object", "$date")), tie("any"), {
      maxKeys: 3,
    }),
  ),
})).any;

test("any value comes back as it was, also one with keys like our tags", () => {
  fc.assert(
    fc.property(values, (value) => {
      expect(decode(encode(value))).toEqual(value);
    }),
    { numRuns: 1000 },
  );
});

test("every text is one line", () => {
  expect(encode({ text: "a\nb\u2028c" })).not.toContain("\n");
});
