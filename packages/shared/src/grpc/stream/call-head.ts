/**
 * What of a call's metadata goes over a stream, both ways: trace, deadline, who calls, the request's id. Nothing else does, and who sets
 * something else is told.
 */
import type { Metadata as WireMetadata } from "@grpc/grpc-js";
import { Metadata } from "nice-grpc-common";
import type { CallHead } from "../../gen/holdfast/internal/v1/controller_link.ts";
import { deadlineHeader, peerHeader } from "../caller-interceptor.ts";
import { requestIdHeader } from "../deadline-server.ts";
import { formatIdentity, type Identity, identityHeader } from "../identity.ts";

type Known = "traceparent" | "tracestate" | "identity" | "requestId" | "timeout";
const knownKeys: ReadonlyMap<string, Known> = new Map([
  ["traceparent", "traceparent"],
  ["tracestate", "tracestate"],
  [identityHeader, "identity"],
  [requestIdHeader, "requestId"],
  ["grpc-timeout", "timeout"],
]);

/** Throws for what cannot be carried. */
export function headOf(metadata: WireMetadata): Omit<CallHead, "seq" | "byTransfer"> {
  const head = { traceparent: "", tracestate: "", identity: "", requestId: "", timeout: "" };
  for (const [key, value] of Object.entries(metadata.getMap())) {
    const known = knownKeys.get(key);
    if (known === undefined) throw new Error(`metadata ${key} does not go over a stream`);
    head[known] = String(value);
  }
  const { timeout, ...told } = head;
  return { ...told, timeLeftMs: timeout === "" ? 0 : millisecondsOf(timeout) };
}

/** Whoever is at the other end of a stream. */
export interface StreamPeer {
  readonly identity: Identity;
  /** What the stream's own call had in that header, so that every call over the stream is judged by the same certificate. */
  readonly [peerHeader]: string | undefined;
}

/** As a server's calls have it. */
export function metadataOf(head: CallHead, peer: StreamPeer | undefined): Metadata {
  const metadata = Metadata();
  const caller = peer === undefined ? head.identity : formatIdentity(peer.identity);
  const certificate = peer?.[peerHeader];
  if (certificate !== undefined) metadata.set(peerHeader, certificate);
  if (head.traceparent !== "") metadata.set("traceparent", head.traceparent);
  if (head.tracestate !== "") metadata.set("tracestate", head.tracestate);
  if (caller !== "") metadata.set(identityHeader, caller);
  if (head.requestId !== "") metadata.set(requestIdHeader, head.requestId);
  if (head.timeLeftMs > 0) metadata.set(deadlineHeader, String(Date.now() + head.timeLeftMs));
  return metadata;
}

/** Our own client alone writes it, and always in milliseconds. */
function millisecondsOf(timeout: string): number {
  const [, digits] = /^(\d{1,8})m$/.exec(timeout) ?? [];
  if (digits === undefined) throw new Error(`grpc-timeout ${timeout} is not in milliseconds`);
  return Number(digits);
}
