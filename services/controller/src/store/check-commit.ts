import { type FieldViolation, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import type { Commit } from "../domain/store-types.ts";

export const maxBodyBytes = 1 << 20;

/** What no implementation may take, checked before anything leaves the process. */
export const checkCommit = (commit: Commit): void => {
  const violations: FieldViolation[] = [];
  const seen = new Set<string>();
  if (commit.opId === "") violations.push({ field: "opId", description: "is empty" });
  commit.writes.forEach((write, i) => {
    const name = `${write.ref.kind}/${write.ref.key}`;
    const field = `writes[${i}] (${name})`;
    if (seen.has(name)) violations.push({ field, description: "is written twice in one commit" });
    seen.add(name);
    if (write.body !== null && Buffer.byteLength(write.body) > maxBodyBytes)
      violations.push({ field, description: `is larger than ${maxBodyBytes} bytes` });
    if (!Number.isSafeInteger(write.expectedRev) || write.expectedRev < 0)
      violations.push({ field, description: "expectedRev is no revision" });
  });
  if (violations.length > 0) throw invalidArgument(violations);
};
