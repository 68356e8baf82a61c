import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import type { RepairCommands } from "../../commands/repair/repair-commands.ts";
import { refuse } from "../../commands/volume/validate-volume.ts";
import { isBounded, seesNamespace } from "../../domain/access/caller-scope.ts";
import type { CutKind } from "../../domain/snapshot/snapshot.ts";
import { listWithin } from "../access/within-scope.ts";
import { type ApiDeps, callerOf } from "../api-deps.ts";
import { createChecks, optionalId } from "../check-request.ts";
import { capabilityFrom } from "../convert-message.ts";
import { nextPageToken, pageFrom, questionOf } from "../page-token.ts";
import { secretRefFrom } from "../secret/convert-secret.ts";
import { unimplemented } from "../unimplemented.ts";
import {
  askedFrom,
  auditMessage,
  orphanKindsFrom,
  outcomeMessage,
  scanMessage,
  stuckMessage,
} from "./convert-repair.ts";
import { createUpgrade, type UpgradeDeps } from "./repair-upgrade.ts";
import { createVet, type VetDeps } from "./repair-vet.ts";

export interface RepairServiceDeps extends VetDeps, UpgradeDeps, Pick<ApiDeps, "scopeOf"> {
  readonly commands: RepairCommands;
}

type RepairService = Implementation<typeof RepairServiceDefinition>;

export const createRepairService = (deps: RepairServiceDeps): RepairService =>
  unimplemented(RepairServiceDefinition, {
    vet: createVet(deps),
    ...createUpgrade(deps),
    ...createVerbs(deps),
    ...createLists(deps),
  });

/** The one record that the request names. */
const calledFrom = ({ volume, snapshot, group }: Readonly<Record<"volume" | CutKind, string>>) => {
  const checks = createChecks();
  if ([volume, snapshot, group].filter((id) => id !== "").length !== 1)
    checks.complain("volume", "one of volume, snapshot and group has to be named");
  refuse(checks.violations);
  const of = volume !== "" ? "volume" : snapshot !== "" ? "snapshot" : "group";
  return { of, id: { volume, snapshot, group }[of] } as const;
};

const createVerbs = (
  deps: RepairServiceDeps,
): Pick<
  RepairService,
  | "abandonClaim"
  | "admitNode"
  | "assertDetached"
  | "takeOver"
  | "clearBar"
  | "forgetController"
  | "forgetVolume"
  | "adoptVolume"
  | "removeOrphan"
  | "scanOrphans"
> => {
  const { commands } = deps;
  return {
    async abandonClaim(request, context) {
      const { namespace, volume, workload, alias, claimUid, evidence } = request;
      const input = { ...askedFrom(request), namespace, volume, workload, alias, claimUid, evidence };
      return { outcome: outcomeMessage(await commands.abandonClaim(input, callerOf(deps, context, "AbandonClaim"))) };
    },

    async admitNode(request, context) {
      const { node, life, evidence } = request;
      const input = { ...askedFrom(request), node, life, evidence };
      return { outcome: outcomeMessage(await commands.admitNode(input, callerOf(deps, context, "AdmitNode"))) };
    },

    async assertDetached(request, context) {
      const { namespace, volume, node, evidence } = request;
      const input = { ...askedFrom(request), namespace, volume, node, evidence };
      const outcome = await commands.assertDetached(input, callerOf(deps, context, "AssertDetached"));
      return { outcome: outcomeMessage(outcome) };
    },

    async takeOver(request, context) {
      const { namespace, evidence } = request;
      const input = { ...askedFrom(request), namespace, ...calledFrom(request), evidence };
      return { outcome: outcomeMessage(await commands.takeOver(input, callerOf(deps, context, "TakeOver"))) };
    },

    async clearBar(request, context) {
      const { namespace, bar, evidence } = request;
      const input = { ...askedFrom(request), namespace, ...calledFrom(request), bar, evidence };
      return { outcome: outcomeMessage(await commands.clearBar(input, callerOf(deps, context, "ClearBar"))) };
    },

    async forgetController(request, context) {
      const { controller, evidence } = request;
      const caller = callerOf(deps, context, "ForgetController");
      const outcome = await commands.forgetController({ ...askedFrom(request), controller, evidence }, caller);
      return { outcome: outcomeMessage(outcome) };
    },

    async forgetVolume(request, context) {
      const { namespace, volume, uid } = request;
      const input = { ...askedFrom(request), namespace, id: volume, uid };
      return { outcome: outcomeMessage(await commands.forgetVolume(input, callerOf(deps, context, "ForgetVolume"))) };
    },

    async adoptVolume(request, context) {
      const checks = createChecks();
      const { namespace, volume, plugin, externalId } = request;
      const capabilities = request.capabilities.map((c, i) => capabilityFrom(`capabilities[${i}]`, c, checks));
      refuse(checks.violations);
      const what = { namespace, id: volume, plugin, externalId, capabilities, context: request.context };
      const input = { ...askedFrom(request), ...what };
      return { outcome: outcomeMessage(await commands.adoptVolume(input, callerOf(deps, context, "AdoptVolume"))) };
    },

    async removeOrphan(request, context) {
      const { orphanId, evidence } = request;
      const namespace = request.namespace === "" ? "default" : request.namespace;
      const secretRef = secretRefFrom(namespace, request.secrets);
      const input = { ...askedFrom(request), orphanId, evidence, namespace, secretRef };
      const removal = await commands.removeOrphan(input, callerOf(deps, context, "RemoveOrphan"));
      return {
        outcome: outcomeMessage(removal.outcome),
        namespace: removal.namespace,
        volume: removal.volume,
      };
    },

    async *scanOrphans(request, context) {
      const checks = createChecks();
      const kinds = orphanKindsFrom("kinds", request.kinds, checks);
      const clean = orphanKindsFrom("clean", request.clean, checks);
      refuse(checks.violations);
      const { nodes, plugins, dryRun, reason, requestId } = request;
      const input = { nodes, plugins, kinds, clean, dryRun, reason, requestId };
      for await (const item of commands.scanOrphans(input, callerOf(deps, context, "ScanOrphans"), context.signal))
        yield scanMessage(item);
    },
  };
};

const createLists = ({ commands, scopeOf }: RepairServiceDeps): Pick<RepairService, "listAudit" | "listStuck"> => ({
  async listAudit(request, { identity }) {
    const checks = createChecks();
    const { auditId, namespace, volume, verb } = request;
    const filter = { auditId, namespace, volume, verb };
    const scope = scopeOf(identity);
    const question = questionOf("ListAudit", filter, scope);
    const page = pageFrom(request, question, checks);
    refuse(checks.violations);
    const { items, next } = await (auditId === ""
      ? listWithin(scope, filter, page, commands.listAudit)
      : commands.listAudit({ ...filter, sees: (one) => seesNamespace(scope, one) }, page));
    return { records: items.map(auditMessage), nextPageToken: nextPageToken(next, question) };
  },

  async listStuck(request, { identity }) {
    const checks = createChecks();
    const filter = {
      namespace: optionalId("namespace", request.namespace, checks),
      plugin: request.plugin,
      node: request.node,
      reasons: request.reasons,
    };
    const scope = scopeOf(identity);
    const question = questionOf("ListStuck", filter, scope);
    const page = pageFrom(request, question, checks);
    refuse(checks.violations);
    const { items, next } = await listWithin(
      scope,
      { ...filter, inNamespace: isBounded(scope) },
      page,
      commands.listStuck,
    );
    return { stuck: items.map(stuckMessage), nextPageToken: nextPageToken(next, question) };
  },
});
