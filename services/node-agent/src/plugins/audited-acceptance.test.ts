import type { AuditFields } from "@holdfast/shared/audit/audit-chain";
import { AuditUnwritable } from "@holdfast/shared/audit/audit-trail";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { expect, test } from "vitest";
import { auditedAcceptance } from "./audited-acceptance.ts";

const word = { plugin: "csi.example", socketPath: "/p/b.sock", reason: "moved" };
const place = { socket: "/p/b.sock", uid: 0, gid: 0, directoryUid: 0, directoryGid: 0 };

const rig = (fails: { readonly file?: true; readonly accept?: true } = {}) => {
  const course: (AuditFields | string)[] = [];
  const trail = {
    append(fields: AuditFields) {
      course.push(fields);
      return true;
    },
    async commit(fields: AuditFields) {
      if (fails.file) throw new AuditUnwritable("/audit", "ENOSPC");
      course.push(fields, "on disk");
    },
  };
  const accept = async () => {
    course.push("accepted");
    if (fails.accept) throw new HoldfastError({ kind: "precondition", reason: "NO_SOCKET", message: "" });
    return [place];
  };
  return { course, admission: auditedAcceptance({ accept }, trail) };
};

test("an acceptance is on disk before it counts, and its end after it", async () => {
  const { admission, course } = rig();
  expect(await admission.accept(word)).toEqual([place]);
  expect(course).toMatchObject([
    { kind: "act", outcome: "begun", reason: "moved", subject: { plugin: "csi.example", socket: "/p/b.sock" } },
    "on disk",
    "accepted",
    { outcome: "OK" },
  ]);
});

test("one that fails has the reason in its second line", async () => {
  const { admission, course } = rig({ accept: true });
  await expect(admission.accept(word)).rejects.toMatchObject({ reason: "NO_SOCKET" });
  expect(course.at(-1)).toMatchObject({ outcome: "failed", error: "NO_SOCKET" });
});

test("where the audit cannot be written nothing is accepted", async () => {
  const { admission, course } = rig({ file: true });
  await expect(admission.accept(word)).rejects.toMatchObject({
    reason: "AUDIT_UNAVAILABLE",
    message: expect.stringContaining("(ENOSPC); make room"),
  });
  expect(course).toEqual([]);
});
