/** The audit of a service: its directory, which is its own alone, and the trails in it, each told by metrics. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { HoldfastError } from "../errors/holdfast-error.ts";
import { DirectoryTaken, takeDirectoryLock } from "../lock/directory-lock.ts";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import { systemDisk } from "./audit-disk.ts";
import { type AuditTrail, openAuditTrail } from "./audit-trail.ts";

export interface AuditPlace {
  readonly stateDir: string;
  readonly auditDir: string | undefined;
  readonly auditFiles: number;
}

/** Below the state directory when nothing else was said: on the disk, with the owner and under the lock that it has. */
export const auditDirectory = ({ stateDir, auditDir }: Omit<AuditPlace, "auditFiles">): string =>
  auditDir ?? path.join(stateDir, "audit");

export interface Audit {
  trail(name: "acts" | "secrets" | "calls"): AuditTrail;
  close(): void;
}

/** The state directory has a lock already; a directory of its own needs one of its own. */
const takeForOneself = async (directory: string): Promise<() => void> => {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  try {
    return (await takeDirectoryLock(directory)).release;
  } catch (error) {
    if (!(error instanceof DirectoryTaken)) throw error;
    const holder = error.pid === undefined ? "" : ` (pid ${error.pid})`;
    throw new HoldfastError({
      kind: "precondition",
      reason: "AUDIT_DIR_IN_USE",
      message: `another service${holder} writes its audit to ${directory}; stop it first, or give this one its own HOLDFAST_AUDIT_DIR`,
      metadata: { path: directory },
      cause: error,
    });
  }
};

const measured = (metrics: Metrics) => {
  const trails = new Map<string, AuditTrail>();
  const missing = metrics.counter({
    name: "holdfast_audit_missing_lines_total",
    help: "Lines that the audit lacks, as they could not be written.",
    labels: ["trail"],
  });
  metrics.gauge({
    name: "holdfast_audit_failing",
    help: "1: lines of the audit cannot be written.",
    labels: ["trail"],
    collect(gauge) {
      for (const [name, trail] of trails) gauge.set({ trail: name }, Number(trail.failing() !== undefined));
    },
  });
  metrics.gauge({
    name: "holdfast_audit_lines",
    help: "The number of the last line of the audit.",
    labels: ["trail"],
    collect(gauge) {
      for (const [name, trail] of trails) gauge.set({ trail: name }, trail.head().seq);
    },
  });
  return { trails, missing };
};

export const openAudit = async (
  place: AuditPlace,
  parts: {
    /** Of the lines that tell of a start. */
    readonly by: Readonly<Record<string, string>>;
    readonly now: () => number;
    readonly log: Logger;
    readonly metrics: Metrics;
  },
): Promise<Audit> => {
  const directory = auditDirectory(place);
  const release = place.auditDir === undefined ? () => undefined : await takeForOneself(directory);
  const { trails, missing } = measured(parts.metrics);
  return {
    trail(name) {
      const onMissing = (lines: number): void => missing.inc({ trail: name }, lines);
      const trail = openAuditTrail({
        ...parts,
        directory,
        name,
        maxFiles: place.auditFiles,
        disk: systemDisk,
        onMissing,
      });
      trails.set(name, trail);
      return trail;
    },
    close() {
      for (const trail of trails.values()) trail.close();
      release();
    },
  };
};
