/** Who calls in the matrix of rights, and about what. */
import type { GrpcChannel } from "@holdfast/shared/grpc/client";
import { anonymous, type Identity } from "@holdfast/shared/grpc/identity";
import type { ServerCertificates } from "@holdfast/shared/grpc/server";

/** In the order of the columns of docs/security.md. */
export const columns = [
  "no certificate",
  "foreign CA",
  "node",
  "other node",
  "scheduler",
  "other scheduler",
  "operator",
  "monitor",
  "local",
  "controller",
] as const;
export type Column = (typeof columns)[number];

/** What the caller of each column would be if everybody believed it. */
export const callers: Readonly<Record<Column, Identity>> = {
  "no certificate": anonymous,
  "foreign CA": { role: "operator", name: "mallory" },
  node: { role: "node", name: "n1" },
  "other node": { role: "node", name: "n2" },
  scheduler: { role: "scheduler", name: "shop" },
  "other scheduler": { role: "scheduler", name: "bank" },
  operator: { role: "operator", name: "ada" },
  monitor: { role: "monitor", name: "" },
  local: { role: "local", name: "" },
  controller: { role: "controller", name: "c2" },
};

/** Of the caller in the columns `node` and `scheduler`; of those in `other node` and `other scheduler`; of nobody, and not there. */
export const subjects = ["own", "other", "absent"] as const;
export type Subject = (typeof subjects)[number];

export interface SubjectNames {
  readonly namespace: string;
  readonly node: string;
  readonly plugin: string;
}

export const namesOf: Readonly<Record<Subject, SubjectNames>> = {
  own: { namespace: "shop", node: "n1", plugin: "sim.holdfast.dev" },
  other: { namespace: "bank", node: "n2", plugin: "vault.holdfast.dev" },
  absent: { namespace: "void", node: "n9", plugin: "none.holdfast.dev" },
};

/** How callers show who they are; the same cells may be asked over any such way. */
export interface IdentityTransport {
  /** What the servers know callers by. */
  readonly tlsDir: string;
  readonly certificates: ServerCertificates;
  dial(caller: Column, address: string): GrpcChannel;
  close(): Promise<void>;
}
