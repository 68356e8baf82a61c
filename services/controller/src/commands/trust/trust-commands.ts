/**
 * Certificates: who gets one, and which ones are taken no more.
 *
 * TC1 A token is used up before anything is signed for it. TC2 The name in a certificate comes from the token or from the certificate that is
 * renewed; of the request for it only the key is taken. TC3 A node that is fenced gets no certificate by an older word than the fence:
 * neither by its certificate nor by a token. TC4 What a person has is not renewed, so that a stolen one ends; a controller renews its own.
 */
import { hash, randomBytes } from "node:crypto";
import type { Clock } from "@holdfast/shared/async/clock";
import { invalidArgument } from "@holdfast/shared/errors/holdfast-error";
import { formatIdentity } from "@holdfast/shared/grpc/identity";
import { type Authority, issueLeaf, leafTtlMs } from "@holdfast/shared/trust/authority";
import { readRequest } from "@holdfast/shared/trust/make-certificate";
import { namesThereAre, parseCertifiedName, type SpiffeId } from "@holdfast/shared/trust/spiffe-id";
import { checkId, type Violation } from "../../domain/limits.ts";
import type { NodeRecord } from "../../domain/node/node.ts";
import type { AuditSubject } from "../../domain/repair/audit.ts";
import { formatWithTrust } from "../../domain/store-format.ts";
import { firstAfter, holdsAlready, longestLifeMs, serialIn } from "../../domain/trust/denial.ts";
import { type FencedSince, judgeToken, maxTokenMs, type NodeToken } from "../../domain/trust/node-token.ts";
import type { Store } from "../../ports.ts";
import type { AuditRecords } from "../../records/audit-records.ts";
import type { DenialRecords } from "../../records/trust/denial-records.ts";
import type { TokenRecords } from "../../records/trust/token-records.ts";
import type { Caller } from "../model.ts";
import { auditEntry, doneBefore } from "../repair/repair-verb.ts";
import { checkRepair } from "../repair/validate-repair.ts";
import { refuse } from "../volume/validate-volume.ts";
import { fencedNodeRenews, renewalRefused, tokenRefused, trustNeedsUpgrade } from "./trust-errors.ts";
import type { IssuedCertificate, IssuingAuthority, TrustCommands } from "./trust-model.ts";

export interface TrustCommandDeps {
  readonly authority: IssuingAuthority;
  readonly tokens: TokenRecords;
  readonly denials: Pick<DenialRecords, "of" | "damage" | "add" | "list">;
  /** As the store has it: a fence of another controller counts at once. */
  readonly readNode: (name: string) => Promise<{ readonly record: NodeRecord } | undefined>;
  readonly audit: Pick<AuditRecords, "newId" | "ofRequest">;
  readonly store: Pick<Store, "format">;
  readonly clock: Pick<Clock, "now">;
}

const minTokenMs = 1_000;
const maxRequestBytes = 8_192;

const otherWays = {
  controller: "it renews its own by its HOLDFAST_CA_DIR",
  operator: "issue another one: holdfast ca issue operator/<name>",
  local: "enrol first",
  anonymous: "enrol first",
} as const;

const hashOf = (token: string): string => hash("sha256", token, "hex");

const keyIn = async (request: string): Promise<string> => {
  if (request.length > maxRequestBytes)
    throw invalidArgument([{ field: "request", description: `is longer than ${maxRequestBytes} bytes` }]);
  const read = await readRequest(request);
  if ("wrong" in read) throw invalidArgument([{ field: "request", description: read.wrong }]);
  return read.key;
};

const fenceOf = (found: { readonly record: NodeRecord } | undefined, now: number): FencedSince | undefined => {
  const { state, fence } = found?.record ?? {};
  return state === "FENCING" || state === "QUARANTINED" ? { since: fence?.since ?? now } : undefined;
};

const checkTtl = (ttlMs: number | undefined): readonly Violation[] =>
  ttlMs === undefined || (ttlMs >= minTokenMs && ttlMs <= maxTokenMs)
    ? []
    : [{ field: "ttl", description: "has to be 1 second to 15 minutes" }];

/** A serial number, or `role/name`, in the one form that each has. */
const subjectIn = (text: string): string | undefined => {
  const name = parseCertifiedName(text);
  return serialIn(text) ?? (name && formatIdentity(name));
};

export const createTrustCommands = (deps: TrustCommandDeps): TrustCommands => {
  const { authority, tokens, denials, readNode, audit, store, clock } = deps;

  const needsFormat = (): void => {
    if (store.format() < formatWithTrust) throw trustNeedsUpgrade(store.format(), formatWithTrust);
  };

  const audited = (
    verb: string,
    effect: string,
    subject: AuditSubject,
    caller: Caller,
    asked = { reason: "", requestId: "" },
  ) => ({
    id: audit.newId(clock.now()),
    entry: auditEntry(verb, { ...asked, dryRun: false, confirm: "" }, caller, {
      effects: [effect],
      risks: [],
      confirmWith: "",
      subject,
    }),
  });

  const issue = async (
    from: Authority,
    identity: Pick<SpiffeId, "role" | "name">,
    key: string,
  ): Promise<IssuedCertificate> => {
    const name = formatIdentity(identity);
    const damage = denials.damage(name);
    if (damage !== undefined) throw damage;
    const denied = denials.of(name);
    const after = denied === undefined ? undefined : firstAfter(denied.at);
    const chain = await issueLeaf(from, { identity, key, ttlMs: leafTtlMs, now: clock.now(), after });
    return { certificate: chain.join(""), authorities: from.roots.join("") };
  };

  const use = async (hashed: string, asked: string, caller: Caller): Promise<string> => {
    let node = asked;
    await tokens.use(hashed, async (token) => {
      const now = clock.now();
      const fence = token === undefined ? undefined : fenceOf(await readNode(token.node), now);
      const refusal = judgeToken(token, { node: asked, fence, now });
      if (token === undefined || refusal !== undefined) throw tokenRefused(refusal ?? "unknown", token?.node ?? "");
      node = token.node;
      const effect = `a host is node ${node}, by the token of ${token.createdBy}`;
      return { token: { ...token, usedAt: now }, audit: audited("Enrol", effect, { node }, caller) };
    });
    return node;
  };

  return {
    async createNodeToken({ node, ttlMs }, caller) {
      refuse([...checkId("node", node), ...checkTtl(ttlMs)]);
      needsFormat();
      const { pin } = await authority.current();
      const token = randomBytes(16).toString("hex");
      const createdAt = clock.now();
      const endsAt = createdAt + (ttlMs ?? maxTokenMs);
      const record: NodeToken = { hash: hashOf(token), node, createdAt, endsAt, createdBy: caller.who };
      await tokens.add(record, audited("CreateNodeToken", `a host may become node ${node}, once`, { node }, caller));
      return { token, endsAt, pin };
    },

    async enrol({ token, node, request }, caller) {
      refuse(node === "" ? [] : checkId("node", node));
      const from = await authority.current();
      const key = await keyIn(request);
      const name = await use(hashOf(token), node, caller); // TC1
      return { node: name, ...(await issue(from, { role: "node", name }, key)) }; // TC2
    },

    async renew(request, { role, name, certificate }) {
      const from = await authority.current();
      if (certificate === undefined) throw renewalRefused("the caller has no certificate", "enrol first");
      if (role !== "node" && role !== "scheduler" && role !== "monitor")
        throw renewalRefused(`it is of ${role === "controller" ? "a controller" : "a person"}`, otherWays[role]); // TC4
      if (certificate.trustDomain !== from.trustDomain)
        throw renewalRefused(`it is of trust domain ${certificate.trustDomain}`, "ask a controller of that one");
      if (role === "node") {
        const found = await readNode(name);
        if (fenceOf(found, clock.now()) !== undefined) throw fencedNodeRenews(name, `${found?.record.state}`); // TC3
      }
      return await issue(from, { role, name }, await keyIn(request)); // TC2
    },

    async revoke({ subject: asked, reason, endsAt, requestId }, caller) {
      const subject = subjectIn(asked) ?? "";
      const now = clock.now();
      refuse([
        ...(subject === ""
          ? [
              {
                field: "subject",
                description: `has to be a serial number of 8 hexadecimal digits or more, or ${namesThereAre}`,
              },
            ]
          : []),
        ...(endsAt !== undefined && endsAt <= now ? [{ field: "ends_at", description: "is in the past" }] : []),
        ...checkRepair({ reason, requestId, dryRun: false, confirm: "" }),
      ]);
      needsFormat();
      const denial = { subject, at: now, endsAt: endsAt ?? now + longestLifeMs, who: caller.who, reason };
      const about: AuditSubject = { certificate: subject };
      if ((await doneBefore(audit, "Revoke", requestId, about)) !== undefined)
        return { ...denial, ...denials.of(subject) };
      const effect = `no call is taken with ${subject.includes("/") ? "a certificate of" : "certificate"} ${subject}`;
      const word = audited("Revoke", effect, about, caller, { reason, requestId });
      return await denials.add(denial, word, (before) => holdsAlready(before, endsAt));
    },

    async listRevoked({ after, size }) {
      const { denials: items, next } = await denials.list({ after, limit: size });
      return { items, next };
    },
  };
};
