import type { AuditVerdict } from "@holdfast/shared/audit/verify-audit";

/** All that the command line touches of the world; main.ts hands in the real one, tests their own. */
export interface Sink {
  write(text: string): void;
  readonly terminal: boolean;
  readonly columns: number;
}

export type CheckedService = "controller" | "node-agent";

export interface Io {
  readonly stdout: Sink;
  readonly stderr: Sink;
  stdin(): Promise<string>;
  /** Asks a person; undefined where there is no terminal to ask at. */
  confirm(question: string): Promise<boolean | undefined>;
  readFile(path: string): Promise<Uint8Array>;
  /** Reads the files below these paths. Throws the system's word of one that cannot be read. */
  verifyAudit(paths: readonly string[], head: string | undefined): Promise<AuditVerdict>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  readonly user: string;
  now(): number;
  /** Runs the controller's program beside this one, on this very terminal; undefined where there is none. */
  runController(args: readonly string[]): Promise<number | undefined>;
  /** What the `check` of a service's program prints with these settings; undefined where the program is not. */
  checkService(service: CheckedService, env: Readonly<Record<string, string>>): Promise<string | undefined>;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}
