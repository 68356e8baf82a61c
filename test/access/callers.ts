/** Who calls in the matrix of rights, and about what. */
import type { GrpcChannel } from "@holdfast/shared/grpc/client";
import { anonymous, type Identity } from "@holdfast/shared/grpc/identity";

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
  monitor: { role: "monitor", name: "prom" },
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

/** A way to a server as one caller: with a certificate, or by a word in the metadata of each call. */
export interface Dialled {
  readonly channel: GrpcChannel;
  /** Said in the metadata; undefined where the way itself tells it. */
  readonly identity: Identity | undefined;
}

/** How identities come to the server; the same cells are asked over each way. */
export interface IdentityTransport {
  readonly name: string;
  dial(caller: Column, address: string): Dialled;
  close(): void;
}
