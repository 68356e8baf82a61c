import type { Backend } from "./backend/backend.ts";

/** Everything a backend answers to over its socket: a request names one of these, nothing else is reachable. */
export const backendOperations = [
  "attach",
  "detach",
  "begin",
  "apply",
  "close",
  "abandon",
  "record",
  "violations",
  "inFlight",
  "senderEnded",
  "state",
  "snapshot",
  "clear",
  "setFaults",
  "addFault",
  "faults",
  "setCapabilities",
  "setLatency",
  "declareNode",
  "fence",
  "reboot",
  "addVolume",
  "dropVolume",
  "addSnapshot",
  "attachBehind",
  "detachBehind",
  "setCondition",
  "setHealth",
  "setStorageHealth",
  "setListing",
] as const satisfies readonly (keyof Backend)[];

export type BackendOperation = (typeof backendOperations)[number];

export const isBackendOperation = (name: string): name is BackendOperation =>
  (backendOperations as readonly string[]).includes(name);

/** One line each way; `id` ties an answer to its request. */
export interface OperationRequest {
  readonly id: number;
  readonly operation: string;
  readonly args: readonly unknown[];
}

export interface OperationReply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}
