/**
 * The whole API as callers, operators and the world use it, any requests in any order and at once, on a whole controller over the simulated
 * plugin: it answers with every code of gRPC before and after its work, loses answers, works past every deadline; commits are lost and
 * the controller dies at any of them. A model of a few lines knows what was promised. At the end everything is there that was, nothing is
 * left of what was to go, and whatever cannot go on says so, with what is missing and the command that clears it.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { modes, request, trouble } from "../support/controller/api-requests.ts";
import { runSequence } from "../support/controller/api-run.ts";
import { addTakeovers, noTakeovers } from "../support/controller/takeovers.ts";
import { full, sample } from "../support/full.ts";

const sequences = sample(5_000, 100);

it(`whatever is asked in whatever order, over ${sequences} sequences: nothing leaks and nothing sticks in silence`, {
  // One takes a third of a second on a quiet machine.
  timeout: 60_000 + sequences * 1_500,
}, async () => {
  const seen = noTakeovers();
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(request, fc.nat(1)), { minLength: 5, maxLength: full ? 60 : 40, size: "max" }),
      fc.array(trouble, { minLength: 3, maxLength: 24, size: "max" }),
      fc.nat(2),
      fc.constantFrom(...modes),
      async (...sequence) => addTakeovers(seen, await runSequence(...sequence)),
    ),
    { numRuns: sequences },
  );
  if (full) console.log("takeovers", seen);
  // Otherwise the sequences say nothing about them.
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});
