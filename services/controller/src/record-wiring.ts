/** A part of the composition root: the records of everything, what is damaged of them, and how many volumes a node takes. */
import type { Logger } from "@holdfast/shared/log/logger";
import { createNodeRegistry } from "./nodes/node-registry.ts";
import type { NodeRegistry } from "./nodes/node-registry-model.ts";
import { createNodeStore, type NodeStore } from "./nodes/node-store.ts";
import { type AccessGrants, createAccessGrants } from "./records/access/access-grants.ts";
import { createAttachLimits } from "./records/attachment/attach-limits.ts";
import { createLearnedLimits, type LearnedLimits } from "./records/attachment/learned-limits.ts";
import { createDamagedRecords, type DamagedRecords } from "./records/damaged-records.ts";
import { createPluginRecords, type PluginRecords } from "./records/plugin-records.ts";
import { createQuotaRecords, type QuotaRecords } from "./records/quota/quota-records.ts";
import { type CutRecords, createCutRecords } from "./records/snapshot-records.ts";
import { createDenialRecords, type DenialRecords } from "./records/trust/denial-records.ts";
import type { GrantTerms } from "./records/volume/change-options.ts";
import { createVolumeRecords, type VolumeRecords, type VolumeRecordsDeps } from "./records/volume/volume-records.ts";

export interface RecordWiring extends Omit<VolumeRecordsDeps, "attachLimit"> {
  readonly log: Logger;
  readonly graceMs: number;
  readonly controllerId: string;
  readonly grants: GrantTerms | undefined;
}

export interface WiredRecords {
  readonly damages: DamagedRecords;
  readonly quotas: QuotaRecords;
  readonly accessGrants: AccessGrants;
  readonly cuts: CutRecords;
  readonly nodeStore: NodeStore;
  readonly registry: NodeRegistry;
  readonly pluginRecords: PluginRecords;
  readonly learnedLimits: LearnedLimits;
  readonly denials: DenialRecords;
  readonly records: VolumeRecords;
}

/** All that is kept in memory is read before anybody asks for it. */
export const wireRecords = async (wiring: RecordWiring): Promise<WiredRecords> => {
  const damages = createDamagedRecords({ log: wiring.log, now: wiring.clock.now });
  const deps = { ...wiring, damages };
  const nodeStore = createNodeStore(deps);
  const registry = createNodeRegistry({ ...deps, nodes: nodeStore });
  await registry.load();
  const accessGrants = createAccessGrants(deps);
  await accessGrants.load();
  const pluginRecords = createPluginRecords(deps);
  await pluginRecords.load();
  const learnedLimits = createLearnedLimits(deps);
  await learnedLimits.load();
  const denials = createDenialRecords(deps);
  await denials.load();
  const attachLimit = createAttachLimits({
    nodes: registry,
    profileOf: pluginRecords.of,
    pluginsOf: pluginRecords.inPool,
    learned: learnedLimits.of,
  });
  const linked = (node: string): boolean => registry.get(node)?.linked !== false;
  const quotas = createQuotaRecords(deps);
  const counting = { ...deps, counted: quotas.counted };
  const cuts = createCutRecords(counting);
  const records = createVolumeRecords({ ...counting, attachLimit, linked });
  pluginRecords.onChange(records.slots.limitsChanged);
  return { damages, quotas, accessGrants, denials, cuts, nodeStore, registry, pluginRecords, learnedLimits, records };
};
