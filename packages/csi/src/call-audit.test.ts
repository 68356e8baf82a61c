import type { AuditFields } from "@holdfast/shared/audit/audit-chain";
import { expect, test } from "vitest";
import { createCallAudit } from "./call-audit.ts";
import type { CallReport, ReportedCall } from "./csi-exchange.ts";
import { methodNames, methods } from "./methods.ts";

const about: ReportedCall = {
  subject: { namespace: "shop", volume: "data", claim: "c-1", node: "node-a", attempt: 2 },
  thing: "volume vol-1",
  instance: "i-1",
  relayed: false,
  sent: true,
  traceId: "0af7651916cd43dd8448eb211c80319c",
};
const report = (method: CallReport["method"], more: Partial<ReportedCall> = {}): CallReport => ({
  ...{ plugin: "csi.example.com", method, code: "ABORTED", seconds: 0.0123456 },
  about: { ...about, ...more },
});

const written = (reports: readonly CallReport[], works = true): readonly AuditFields[] => {
  const lines: AuditFields[] = [];
  const write = createCallAudit({
    append(fields) {
      lines.push(fields);
      return works;
    },
  });
  for (const one of reports) write(one);
  return lines;
};

test("every call that changes something leaves a line, and no question does", () => {
  const lines = written(methodNames.map((method) => report(method)));
  expect(lines.map(({ method }) => method)).toEqual(methodNames.filter((name) => methods[name].mutating));
  expect(lines.length).toBeGreaterThan(10);
});

test("a line says what was called where, about what, how it ended and in which trace", () => {
  expect(written([report("NodePublishVolume")])).toEqual([
    {
      kind: "call",
      method: "NodePublishVolume",
      plugin: "csi.example.com",
      instance: "i-1",
      subject: { volume: "shop/data", claim: "c-1", node: "node-a", thing: "volume vol-1" },
      code: "ABORTED",
      ms: 12.35,
      trace: "0af7651916cd43dd8448eb211c80319c",
    },
  ]);
  expect(written([report("CreateVolume", { sent: false, relayed: true })])).toMatchObject([
    { sent: false, relayed: true },
  ]);
});

test("a line that cannot be written holds no call back", () => {
  expect(() => written([report("NodeUnpublishVolume")], false)).not.toThrow();
});
