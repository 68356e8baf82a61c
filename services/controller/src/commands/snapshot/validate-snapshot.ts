import {
  checkId,
  checkMap,
  checkOptionalId,
  checkPlugin,
  checkSecretRef,
  checkSegments,
  checkString,
  limits,
  type Violation,
} from "../../domain/limits.ts";
import type { SecretGrants } from "../../domain/secret/secret-scope.ts";
import { snapshotSecretFamilies } from "../../domain/snapshot/snapshot.ts";
import type { Segments } from "../../domain/volume/volume.ts";
import type { NodeView } from "../../ports.ts";
import { checkMade, checkRef, refuse } from "../volume/validate-volume.ts";
import type {
  BlocksInput,
  CreateGroupInput,
  CreateSnapshotInput,
  DeleteCutInput,
  ListExternalInput,
  RestoreGroupInput,
} from "./snapshot-types.ts";

const checkSecrets = (
  { namespace, secretRefs }: CreateSnapshotInput | CreateGroupInput,
  granted: SecretGrants,
): readonly Violation[] =>
  snapshotSecretFamilies.flatMap((family) => {
    const ref = secretRefs?.[family];
    return ref === undefined ? [] : checkSecretRef(`secrets.${family}.ref`, ref, namespace, granted);
  });

const checkCommon = (input: CreateSnapshotInput | CreateGroupInput, granted: SecretGrants): readonly Violation[] => [
  ...checkRef(input),
  ...checkMap("parameters", input.parameters),
  ...checkSecrets(input, granted),
  ...checkMap("labels", input.labels),
  ...checkString("request_id", input.requestId),
];

/** Every violation of a request at once, before anything is written. */
export const validateCreateSnapshot = (input: CreateSnapshotInput, granted: SecretGrants): void =>
  refuse([
    ...checkCommon(input, granted),
    ...checkId("volume", input.volume),
    ...(input.topology.length > limits.topologies
      ? [{ field: "topology", description: `more than ${limits.topologies} places` }]
      : []),
    ...input.topology.flatMap((segments, i) => checkSegments(`topology[${i}].segments`, segments)),
  ]);

/** "COs SHALL only specify topological accessibility information supported by the SP": keys that it reports for nodes. */
export const checkKnownKeys = (topology: readonly Segments[], plugin: string, nodes: readonly NodeView[]): void => {
  const halves = nodes.flatMap(({ record }) => record.plugins.filter(({ name }) => name === plugin));
  const known = new Set(halves.flatMap((half) => Object.keys(half.topology).map((key) => key.toLowerCase())));
  refuse(
    topology.flatMap((segments, i) =>
      Object.keys(segments).flatMap((key) =>
        known.has(key.toLowerCase())
          ? []
          : [
              {
                field: `topology[${i}].segments`,
                description: `${key} is no key that plugin ${plugin} reports for a node`,
              },
            ],
      ),
    ),
  );
};

const repeated = (values: readonly string[], field: string): readonly Violation[] =>
  values.flatMap((value, i) =>
    value !== "" && values.indexOf(value) < i
      ? [{ field: `members[${i}].${field}`, description: "is named twice" }]
      : [],
  );

export const validateCreateGroup = (input: CreateGroupInput, granted: SecretGrants): void =>
  refuse([
    ...checkCommon(input, granted),
    ...(input.members.length === 0 || input.members.length > limits.setMembers
      ? [{ field: "members", description: `must be 1 to ${limits.setMembers}` }]
      : []),
    ...input.members.flatMap(({ volume, snapshot }, i) => [
      ...checkId(`members[${i}].volume`, volume),
      ...checkId(`members[${i}].snapshot`, snapshot),
    ]),
    ...repeated(
      input.members.map(({ volume }) => volume),
      "volume",
    ),
    ...repeated(
      input.members.map(({ snapshot }) => snapshot),
      "snapshot",
    ),
  ]);

export const validateRestoreGroup = (input: RestoreGroupInput, granted: SecretGrants): void =>
  refuse([
    ...checkId("namespace", input.namespace),
    ...checkId("group", input.group),
    ...checkString("request_id", input.requestId),
    ...(input.members.length === 0 || input.members.length > limits.setMembers
      ? [{ field: "members", description: `must be 1 to ${limits.setMembers}` }]
      : []),
    ...input.members.flatMap((member, i) =>
      [
        ...checkId("source", member.source),
        ...checkId("id", member.id),
        ...checkMade(member, input.namespace, granted),
      ].map(({ field, description }) => ({ field: `members[${i}].${field}`, description })),
    ),
    ...repeated(
      input.members.map(({ source }) => source),
      "source",
    ),
    ...repeated(
      input.members.map(({ id }) => id),
      "id",
    ),
  ]);

export const validateDeleteCut = (input: DeleteCutInput): void =>
  refuse([...checkRef(input), ...checkOptionalId("uid", input.uid), ...checkString("request_id", input.requestId)]);

export const validateListExternal = (input: ListExternalInput, granted: SecretGrants): void =>
  refuse([
    ...checkPlugin("plugin", input.plugin),
    ...checkString("external_volume_id", input.externalVolumeId),
    ...(input.secretRef === undefined ? [] : checkSecretRef("secrets.ref", input.secretRef, input.namespace, granted)),
  ]);

export const validateBlocks = (input: BlocksInput): void =>
  refuse([
    ...checkId("namespace", input.namespace),
    ...checkId(input.base === "" ? "snapshot" : "target_snapshot", input.target),
    ...checkOptionalId("base_snapshot", input.base),
    ...(input.startingOffset < 0n ? [{ field: "starting_offset", description: "must not be negative" }] : []),
    ...(input.maxResults < 0 ? [{ field: "max_results", description: "must not be negative" }] : []),
  ]);
