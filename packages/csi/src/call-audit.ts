/** A line of the audit for each call that changes something, every one of them, when it has ended. Ids, codes and times: no message, no value. */
import type { AuditTrail } from "@holdfast/shared/audit/audit-trail";
import type { CallReport } from "./csi-exchange.ts";
import { methods } from "./methods.ts";

/** A line that cannot be written is counted and shown, and holds no call back: what plugins do has to go on, and above all to be undone. */
export const createCallAudit =
  (trail: Pick<AuditTrail, "append">): ((report: CallReport) => void) =>
  ({ plugin, method, code, seconds, about }) => {
    if (!methods[method].mutating || about === undefined) return;
    const { subject, thing, instance, relayed, sent, traceId } = about;
    const { namespace, volume, claim, node } = subject;
    trail.append({
      kind: "call",
      method,
      plugin,
      instance,
      // The same word as in spans: who searches for a volume finds both.
      subject: {
        volume: namespace === undefined || volume === undefined ? volume : `${namespace}/${volume}`,
        claim,
        node,
        thing,
      },
      code,
      ms: Math.round(seconds * 100_000) / 100,
      ...(sent ? {} : { sent }),
      ...(relayed ? { relayed } : {}),
      trace: traceId,
    });
  };
