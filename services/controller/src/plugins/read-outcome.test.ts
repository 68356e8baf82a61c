import { failureOf } from "@holdfast/csi/csi-exchange";
import type { CallOutcome, Code } from "@holdfast/csi/outcome";
import { describe, expect, test } from "vitest";
import { failedFromCall } from "./outcome-from-call.ts";
import { readOutcome } from "./read-outcome.ts";

const method = "ControllerUnpublishVolume";

/** A call that the plugin answered with that code, or to which something on the way did. */
const failed = (code: Code, answered: boolean): Exclude<CallOutcome<never>, { readonly outcome: "done" }> => {
  const failure = failureOf("p", method, { code, message: "no", sent: true, answered }, []);
  return { outcome: failure.verdict.outcome === "refused" ? "refused" : "unknown", failure };
};

/** How the call stands when the profile wants the code read as another one. */
const callAfter = (code: Code, readAs: Code, answered: boolean): string => {
  const outcome = readOutcome(method, failed(code, answered), () => readAs);
  return outcome.outcome === "done" ? "done" : (failedFromCall(outcome, 1).failure.call ?? "open");
};

describe("a code that the profile of a plugin reads as another one", () => {
  test.each(["UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"] as const)(
    "ends the call when it was the plugin's answer, but for ABORTED read as %s: that one says that a call is under way",
    (readAs) => {
      expect(callAfter("ABORTED", readAs, true)).toBe("open");
      expect(callAfter("INTERNAL", readAs, true)).toBe(readAs === "ABORTED" ? "open" : "ended");
      expect(callAfter("INTERNAL", readAs, false)).toBe("open");
    },
  );

  test("proves that the attachment is gone only when the plugin itself sent it", () => {
    expect(callAfter("NOT_FOUND", "OK", true)).toBe("done");
    expect(callAfter("NOT_FOUND", "OK", false)).toBe("open");
  });
});
