/**
 * Whether a caller may name what its request names. It is judged from the request and from the grants in memory alone: nothing is looked up
 * in the store, so that what exists beyond a scheduler's grant reads, and takes as long, as what does not.
 */
import type { Clock } from "@holdfast/shared/async/clock";
import { HoldfastError, invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { permissionDenied } from "@holdfast/shared/grpc/access";
import { formatIdentity, type Identity } from "@holdfast/shared/grpc/identity";
import { type AccessGrant, grantsSecret } from "../../domain/access/access-grant.ts";
import { type CallerScope, everything, seesPlugin } from "../../domain/access/caller-scope.ts";
import { nodesMayClaimIn } from "../../domain/access/node-namespaces.ts";
import type { AccessGrants } from "../../records/access/access-grants.ts";
import { judgeTicket, refuseNeedlessTicket, type TicketAsked } from "./judge-ticket.ts";

/** What a request names of which not every caller may name all. */
export interface Asked {
  /** Whose node speaks. */
  readonly node?: string;
  /** It has to be named. */
  readonly namespace?: string;
  /** Left empty it means those of the caller. */
  readonly filter?: string;
  /** Further ones; an empty one stands for `namespace`. */
  readonly others?: readonly string[];
  /** Empty ones are for the handler to refuse. */
  readonly plugins?: readonly string[];
  readonly secrets?: readonly SecretAsked[];
  /** Of a node that names a namespace. */
  readonly ticket?: TicketAsked;
  /** Of a decision that is recorded. Decisions that always need one are not judged here: their handlers say all that is wrong. */
  readonly reason?: string;
}

export interface SecretAsked {
  readonly field: string;
  readonly ref: string;
}

export interface ScopeJudge {
  /** Throws PERMISSION_DENIED, and for secrets what is said of those that are not there. */
  judge(identity: Identity, asked: Asked | undefined): void;
  /** What lists, watches and counts may show to the caller. */
  scopeOf(identity: Identity): CallerScope;
}

export interface ScopeJudgeOptions {
  readonly grants: Pick<AccessGrants, "of" | "ticketKeys">;
  readonly clock: Pick<Clock, "now">;
  /** Whether schedulers are held to grants; otherwise they may do what operators let them do by the address alone. */
  readonly heeded: () => boolean;
  /** Whether operators are proven ones: what they decide is then recorded with a reason. */
  readonly reasons: boolean;
  /** In which agents may ask for claims where no grant has ticket keys. */
  readonly nodeNamespaces: readonly string[];
}

export const createScopeJudge = (options: ScopeJudgeOptions): ScopeJudge => {
  const { grants, clock, heeded, reasons, nodeNamespaces } = options;

  const grantOf = (identity: Identity): AccessGrant => {
    const grant = grants.of(identity.name);
    if (grant === undefined)
      throw permissionDenied(
        `${formatIdentity(identity)} has no grant, and may do nothing; an operator makes one: holdfast grant set ${identity.name}`,
      );
    return grant;
  };

  /** What a host may ask for is no more than schedulers, or operators, let it: a node that is taken over reaches that alone. */
  const judgeNodeNamespace = ({ name: node }: Identity, { namespace, ticket }: Asked): void => {
    if (namespace === undefined) return;
    if (namespace === "") throw invalidArgument([{ field: "namespace", description: "is required" }]);
    const { keys, unread } = grants.ticketKeys(namespace);
    const question = { ticket: "", workload: "", volumes: undefined, ...ticket, node, namespace };
    if (keys.length > 0) {
      judgeTicket({ ...question, keys, now: clock.now() });
      return;
    }
    if (unread !== undefined) throw ticketsUnknown(unread, node, namespace);
    refuseNeedlessTicket(question);
    if (!nodesMayClaimIn(nodeNamespaces, namespace)) throw namespaceNotForNodes(node, namespace);
  };

  return {
    judge(identity, asked) {
      if (identity.role === "node") {
        judgeNode(identity, asked?.node);
        return judgeNodeNamespace(identity, asked ?? {});
      }
      if (identity.role === "operator" && reasons && asked?.reason?.trim() === "")
        throw invalidArgument([{ field: "reason", description: "is required; it is recorded" }]);
      if (identity.role !== "scheduler" || !heeded()) return;
      const grant = grantOf(identity);
      if (asked !== undefined) judgeNames(identity, grant, asked);
    },
    scopeOf(identity) {
      if (identity.role !== "scheduler" || !heeded()) return everything;
      const { namespaces, plugins } = grantOf(identity);
      return { namespaces, plugins };
    },
  };
};

/** I9: who speaks for a node is that node. */
const judgeNode = ({ name }: Identity, node: string | undefined): void => {
  if (node === undefined || node === name) return;
  if (node === "") throw invalidArgument([{ field: "node", description: "is required" }]);
  throw permissionDenied(`node${name === "" ? "" : ` ${name}`} may not speak for node ${node}`, { node });
};

const namespaceNotForNodes = (node: string, namespace: string): HoldfastError =>
  permissionDenied(
    `node ${node} may not ask for claims in namespace ${namespace}, nor give all of a workload back there: HOLDFAST_NODE_NAMESPACES of the controllers does not name it. An operator adds it there, or the scheduler makes the claims itself (ClaimService.CreateClaims)`,
    { node, namespace },
  );

/** It may be the one that asks for tickets: what cannot be read is never taken for what is not there. */
const ticketsUnknown = (scheduler: string, node: string, namespace: string): HoldfastError =>
  new HoldfastError({
    kind: "data_loss",
    reason: "RECORD_DAMAGED",
    message: `the grant of scheduler ${scheduler} cannot be read, so that it is not known whether namespace ${namespace} takes tickets: node ${node} may ask for no claims there. An operator sets the grant anew (holdfast grant set ${scheduler})`,
    metadata: { kind: "grant", key: scheduler, node, namespace },
  });

const judgeNames = (identity: Identity, grant: AccessGrant, asked: Asked): void => {
  const { namespace, filter, others = [], plugins = [], secrets = [] } = asked;
  if (namespace === "") throw invalidArgument([{ field: "namespace", description: "is required" }]);
  const named = [namespace, filter, ...others].filter((one) => one !== undefined && one !== "");
  for (const one of named)
    if (one !== undefined && !grant.namespaces.includes(one)) throw notGranted(identity, "namespace", one);
  for (const plugin of plugins)
    if (plugin !== "" && !seesPlugin(grant, plugin)) throw notGranted(identity, "plugin", plugin);
  const refused = secrets.filter(({ ref }) => ref !== "" && !grantsSecret(grant, ref));
  if (refused.length > 0)
    throw invalidArgument(
      refused.map(({ field }) => ({
        field,
        description: `names no secret that is granted to ${formatIdentity(identity)} in namespace ${namespace ?? ""}`,
      })),
    );
};

/** The same for one that exists and one that does not. */
const notGranted = (identity: Identity, what: "namespace" | "plugin", name: string): HoldfastError =>
  permissionDenied(
    `${formatIdentity(identity)} has no grant for ${what} ${name}; see holdfast grant show ${identity.name}`,
    { [what]: name },
  );
