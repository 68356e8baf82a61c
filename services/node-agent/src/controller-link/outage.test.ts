import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, test } from "vitest";
import { createOutage } from "./outage.ts";

const failure = (reason: string) => new HoldfastError({ kind: "unavailable", reason, message: `because of ${reason}` });

test("each reason is told once, also behind another one, until the outage is over", () => {
  const log = createMemoryLogger();
  const outage = createOutage(log);
  const told = () => log.lines.map(({ fields }) => fields["reason"]);
  for (const reason of ["UNAVAILABLE", "CERTIFICATE_DENIED", "CERTIFICATE_DENIED", "UNAVAILABLE"])
    outage.tell("it is tried again", failure(reason));
  outage.tell("it is tried again", new Error("x"));
  outage.tell("it is tried again", new Error("y"));
  expect(told()).toEqual(["UNAVAILABLE", "CERTIFICATE_DENIED", undefined]);
  outage.over();
  outage.tell("it is tried again", failure("UNAVAILABLE"));
  expect(told()).toHaveLength(4);
});
