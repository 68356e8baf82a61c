import type { StringMap } from "./model.ts";
import type { Method, Requests } from "./rpc.ts";

export type Role = "controller" | "node" | "monolith";

/** One running plugin process, as it introduces itself to the backend. */
export interface Instance {
  readonly name: string;
  readonly role: Role;
  readonly node?: string;
  readonly pid?: number;
}

/** What the role process saw on its host before it asked; absent when paths are made up. */
export interface PathFacts {
  readonly stagingPath?: "directory" | "missing" | "other";
  readonly targetParent?: "directory" | "missing" | "other";
}

/** Of NodePublishVolume, for a plugin that verifies tokens. */
export interface TokenFacts {
  /** What the token says, when it is good. */
  readonly claims?: { readonly [name: string]: unknown };
  readonly wrong?: string;
  /** The plugin is old: it looks for its tokens in volume_context. */
  readonly old: boolean;
}

/** Where tokens stand, in the secrets of the call or in its volume_context, as Kubernetes named it. */
export const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens";

/** The storage's own part of secrets or of a volume_context. */
export const withoutTokens = ({ [tokensKey]: _, ...own }: StringMap): StringMap => own;

interface CallEnvelope {
  readonly instance: string;
  readonly traceparent?: string;
  /** Milliseconds the caller gave, when it gave any. */
  readonly deadlineMs?: number;
  readonly paths?: PathFacts;
  /** What it found of the identity token; absent when it looks for none. */
  readonly token?: TokenFacts;
  /** The role process has work of its own (mounts): do not apply before it says so. */
  readonly handsOn?: boolean;
}

export type CallOf<M extends Method> = CallEnvelope & { readonly method: M; readonly request: Requests[M] };
export type Call = { [M in Method]: CallOf<M> }[Method];

/** What a call is about, whatever its method: for the record, for faults and for messages. */
export interface Subject {
  readonly volume?: string;
  readonly node?: string;
  readonly name?: string;
  readonly target?: string;
}

const text = (request: object, field: string): string | undefined => {
  const value = Reflect.get(request, field);
  return typeof value === "string" && value !== "" ? value : undefined;
};

export const subjectOf = (call: { readonly method: Method; readonly request: object }, ownNode?: string): Subject => {
  const volume = text(call.request, "volumeId") ?? text(call.request, "sourceVolumeId");
  const node = text(call.request, "nodeId") ?? ownNode;
  const name = text(call.request, "name") ?? text(call.request, "snapshotId") ?? text(call.request, "groupSnapshotId");
  const target =
    text(call.request, "targetPath") ?? text(call.request, "stagingTargetPath") ?? text(call.request, "volumePath");
  return {
    ...(volume === undefined ? {} : { volume }),
    ...(node === undefined ? {} : { node }),
    ...(name === undefined ? {} : { name }),
    ...(target === undefined ? {} : { target }),
  };
};
