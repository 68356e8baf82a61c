/** The fields of what is kept of a plugin, its profile among them. */
import {
  count,
  filled,
  flag,
  listOf,
  mapOf,
  optional,
  type Shape,
  shaped,
  text,
  time,
} from "@holdfast/model/record-shape";

const texts = mapOf(text);

const profile = shaped({
  maxConcurrentCalls: count,
  maxConcurrentAttachesPerNode: count,
  maxVolumesPerNode: count,
  nodeClasses: optional(
    listOf(shaped({ nodes: text, topology: texts, maxVolumes: count, attachPoolLimit: optional(count) })),
  ),
  attachPool: optional(text),
  attachPoolLimit: optional(count),
  fence: text,
  allowedFsTypes: listOf(text),
  allowedMountFlags: listOf(text),
  allowPathLikeIds: flag,
  exclusiveMethods: optional(listOf(text)),
  nodeHealthSecret: optional(shaped({ ref: filled, namespace: filled })),
  tokenRequests: optional(listOf(shaped({ audience: filled, ttlSeconds: count }))),
  requiresRepublish: optional(flag),
  republishIntervalMs: optional(count),
  tokensInVolumeContext: optional(flag),
});

export const pluginShape: Shape = shaped({
  name: filled,
  profile: optional(profile),
  versions: listOf(shaped({ version: text, capabilities: texts, toldAt: time })),
  missed: optional(mapOf(shaped({ since: time, version: text }))),
  lastSeen: optional(shaped({ node: text, at: time })),
  createdAt: time,
  updatedAt: time,
});
