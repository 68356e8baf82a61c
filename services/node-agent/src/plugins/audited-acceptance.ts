/**
 * A person's word that a plugin may have its name at another socket, which is then given the secrets of the plugin: on disk before it counts.
 * An agent has no second place to keep it, so that nothing is accepted while the audit cannot be written.
 */
import type { PluginAdmission } from "@holdfast/csi/plugin-admission";
import { type AuditTrail, AuditUnwritable } from "@holdfast/shared/audit/audit-trail";
import { HoldfastError, isHoldfastError } from "@holdfast/shared/errors/holdfast-error";

const verb = "AcceptPlugin";

const unavailable = (cause: unknown): HoldfastError => {
  const file = cause instanceof AuditUnwritable ? cause.code : String(cause);
  return new HoldfastError({
    kind: "unavailable",
    reason: "AUDIT_UNAVAILABLE",
    message: `${verb}: nothing was done, as it cannot be written to the audit of this agent (${file}); make room on the disk of HOLDFAST_AUDIT_DIR, and repeat`,
    metadata: { verb, file },
    cause,
  });
};

export const auditedAcceptance = (
  { accept }: Pick<PluginAdmission, "accept">,
  trail: Pick<AuditTrail, "append" | "commit">,
): Pick<PluginAdmission, "accept"> => ({
  async accept(word) {
    const { plugin, socketPath: socket, reason } = word;
    const act = {
      kind: "act",
      who: "local",
      method: verb,
      subject: { plugin: plugin.slice(0, 256), socket: socket.slice(0, 256) },
    };
    try {
      await trail.commit({ ...act, outcome: "begun", reason: reason.slice(0, 1_024) });
    } catch (error) {
      throw unavailable(error);
    }
    try {
      const places = await accept(word);
      trail.append({ ...act, outcome: "OK" });
      return places;
    } catch (error) {
      trail.append({ ...act, outcome: "failed", error: isHoldfastError(error) ? error.reason : "INTERNAL" });
      throw error;
    }
  },
});
