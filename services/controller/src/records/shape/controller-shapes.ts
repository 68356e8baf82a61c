/** The fields of what controllers say of themselves. */
import { count, filled, flag, listOf, mapOf, type Shape, shaped, text, time } from "@holdfast/model/record-shape";

export const rosterShape: Shape = shaped({
  controllers: listOf(
    shaped({ id: filled, version: text, formats: shaped({ oldest: count, newest: count }), seenAt: time }),
  ),
});

export const sharersShape: Shape = shaped({
  sharers: listOf(shaped({ issuer: filled, beat: count, plugins: mapOf(count) })),
});

export const controllerGatesShape: Shape = shaped({
  gates: listOf(
    shaped({ issuer: filled, plugins: listOf(text), told: text, promised: text, lost: flag, missing: listOf(text) }),
  ),
});
