/** What operators know of how many volumes nodes take: of one plugin, and of plugins that share slots. */
import { checkId, checkSegments, idPattern, type Violation } from "../limits.ts";
import { foldKeys } from "../placement/node-class.ts";
import type { Segments } from "../volume/volume.ts";

/** Nodes that are alike, by their names, by where the plugin says that they are, or both. */
export interface NodeClassLimit {
  /** A name, or the beginning of names with a * behind it; empty = every name. */
  readonly nodes: string;
  /** All of these segments have to be the node's. */
  readonly topology: Segments;
  /** 0 = what the plugin says. */
  readonly maxVolumes: number;
  /** 0 = as for all nodes. */
  readonly attachPoolLimit: number;
}

export interface AttachProfile {
  /** 0 = what the plugin says. */
  readonly maxVolumesPerNode: number;
  /** The first that fits a node says how many volumes it takes, in place of the numbers for all. */
  readonly nodeClasses: readonly NodeClassLimit[];
  /** Plugins that name one pool share its slots on each node; empty = none. */
  readonly attachPool: string;
  /** How many attachments of all of them a node takes. */
  readonly attachPoolLimit: number;
}

const bounds = { volumes: 65_536, classes: 64 } as const;

export const checkCount = (field: string, value: number, most: number): readonly Violation[] =>
  Number.isSafeInteger(value) && value >= 0 && value <= most ? [] : [{ field, description: `has to be 0 to ${most}` }];

const isNamePattern = (nodes: string): boolean => {
  const name = nodes.endsWith("*") ? `${nodes.slice(0, -1)}0` : nodes;
  return idPattern.test(name) && !name.includes("..");
};

const checkClass = (field: string, one: NodeClassLimit): readonly Violation[] => {
  const { nodes, topology, maxVolumes, attachPoolLimit } = one;
  return [
    ...(nodes === "" || isNamePattern(nodes)
      ? []
      : [
          {
            field: `${field}.nodes`,
            description: "has to be a node's name, or the beginning of one with a * behind it",
          },
        ]),
    ...(nodes === "" && Object.keys(topology).length === 0
      ? [{ field, description: "has to say which nodes: by nodes, by topology, or both" }]
      : []),
    ...(Object.keys(topology).length === 0 ? [] : checkSegments(`${field}.topology`, topology)),
    ...checkCount(`${field}.max_volumes`, maxVolumes, bounds.volumes),
    ...checkCount(`${field}.attach_pool_limit`, attachPoolLimit, bounds.volumes),
  ];
};

/** A pool without a limit would bound nothing, and a limit without a pool neither. */
const checkPool = ({ attachPool, attachPoolLimit, nodeClasses }: AttachProfile): readonly Violation[] => {
  const limit = "profile.attach_pool_limit";
  if (attachPool !== "")
    return [
      ...checkId("profile.attach_pool", attachPool),
      ...(attachPoolLimit === 0
        ? [{ field: limit, description: `has to say how many attachments of pool ${attachPool} a node takes` }]
        : checkCount(limit, attachPoolLimit, bounds.volumes)),
    ];
  const unused = "says nothing without profile.attach_pool";
  return [
    ...(attachPoolLimit === 0 ? [] : [{ field: limit, description: unused }]),
    ...nodeClasses.flatMap((one, i) =>
      one.attachPoolLimit === 0 ? [] : [{ field: `profile.node_classes[${i}].attach_pool_limit`, description: unused }],
    ),
  ];
};

export const checkAttachProfile = (profile: AttachProfile): readonly Violation[] => [
  ...checkCount("profile.max_volumes_per_node", profile.maxVolumesPerNode, bounds.volumes),
  ...(profile.nodeClasses.length > bounds.classes
    ? [{ field: "profile.node_classes", description: `holds more than ${bounds.classes}` }]
    : []),
  ...profile.nodeClasses.flatMap((one, i) => checkClass(`profile.node_classes[${i}]`, one)),
  ...checkPool(profile),
];

const fits = ({ nodes, topology }: NodeClassLimit, node: string, has: ReadonlyMap<string, string>): boolean =>
  (nodes === "" || nodes === node || (nodes.endsWith("*") && node.startsWith(nodes.slice(0, -1)))) &&
  [...foldKeys(topology)].every(([key, value]) => has.get(key) === value);

const classOf = ({ nodeClasses }: AttachProfile, node: string, topology: Segments): NodeClassLimit | undefined => {
  const has = foldKeys(topology);
  return nodeClasses.find((one) => fits(one, node, has));
};

/** How many volumes the node takes by the profile; 0 = it does not say. */
export const maxVolumesOn = (profile: AttachProfile, node: string, topology: Segments): number =>
  classOf(profile, node, topology)?.maxVolumes ?? profile.maxVolumesPerNode;

/** How many attachments of its pool the node takes by the profile. A class that an earlier release stored says nothing of it. */
export const poolLimitOn = (profile: AttachProfile, node: string, topology: Segments): number =>
  classOf(profile, node, topology)?.attachPoolLimit || profile.attachPoolLimit;
