/** A part of the composition root: who may call what of this controller. */
import { type Clock, systemClock } from "@holdfast/shared/async/clock";
import { type Access, type AccessRows, createAccess, type Trust } from "@holdfast/shared/grpc/access";
import { type Asked, createScopeJudge, type ScopeJudge } from "./api/access/judge-scope.ts";
import { controllerRules, servedOverStreams, servePath, transferPath } from "./api/access/rules.ts";
import type { ControllerConfig } from "./config.ts";
import { nodeNamespacesOf } from "./domain/access/node-namespaces.ts";
import type { LinkAdmission } from "./nodes/link-service.ts";
import type { AccessGrants } from "./records/access/access-grants.ts";

export type AccessRules = AccessRows<Asked>;

type HeededGrants = Pick<AccessGrants, "of" | "any" | "ticketKeys">;

/** Of a process that serves no schedulers. */
export const noGrants: HeededGrants = {
  of: () => undefined,
  any: () => false,
  ticketKeys: () => ({ keys: [], unread: undefined }),
};

export interface WiredAccess extends Pick<ScopeJudge, "scopeOf"> {
  readonly trust: Trust;
  readonly access: Access;
  readonly admission: LinkAdmission;
}

/** Without certificates an address beyond loopback is refused, unless the operator's word is that its network is as good. */
export const trustOf = ({ tlsDir }: Pick<ControllerConfig, "tlsDir">): Trust =>
  tlsDir === undefined ? "loopback" : "certificates";

/**
 * Where trust rests on the address alone, schedulers are held to grants from the first grant on: whoever reaches the address may leave his
 * role out, and what ran before there were grants goes on.
 */
export const wireAccess = (
  trust: Trust,
  grants: HeededGrants,
  {
    rules: rows = controllerRules(),
    nodeNamespaces,
    clock = systemClock,
  }: {
    readonly rules?: AccessRules | undefined;
    readonly clock?: Pick<Clock, "now">;
  } & Partial<Pick<ControllerConfig, "nodeNamespaces">> = {},
): WiredAccess => {
  const { judge, scopeOf } = createScopeJudge({
    grants,
    clock,
    heeded: () => trust === "certificates" || grants.any(),
    reasons: trust === "certificates",
    nodeNamespaces: nodeNamespacesOf(nodeNamespaces, trust === "certificates"),
  });
  const access = createAccess({ trust, rows, judge });
  access.requireRows(servedOverStreams);
  return {
    trust,
    access,
    scopeOf,
    admission: {
      serve: (identity, hello) => access.admitFirst(servePath, identity, hello),
      transfer: (identity, open) => access.admitFirst(transferPath, identity, open),
    },
  };
};
